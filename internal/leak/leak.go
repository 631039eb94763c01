// Package leak looks for what tests leave behind: goroutines, open files and buffers on devices.
//
//	func TestMain(m *testing.M) { os.Exit(leak.M{M: m}.Run()) }
package leak

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// M runs the tests of a package and fails where more goroutines or open files are there afterwards
// than before, or one of Checks finds something.
type M struct {
	M      interface{ Run() int }
	Checks []func() error // run after the tests
}

// patience is how long what was told to end may take for it.
const patience = 5 * time.Second

// Run is that of testing.M.
func (m M) Run() int {
	before := count()
	code := m.M.Run()
	if code != 0 {
		return code
	}
	for _, check := range m.Checks {
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, "leak:", err)
			code = 1
		}
	}
	if err := settle(before, patience); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		code = 1
	}
	return code
}

// held is what a process holds besides memory.
type held struct{ goroutines, files int }

func count() held { return held{len(goroutines()), len(openFiles())} }

// goroutines are the stacks of all but Go's own, which wait for signals or a page's events for good.
func goroutines() (stacks []string) {
	text := make([]byte, 1<<20)
	for _, s := range strings.Split(string(text[:runtime.Stack(text, true)]), "\n\n") {
		if !strings.Contains(s, "os/signal.loop") && !strings.Contains(s, "runtime.handleEvent") {
			stacks = append(stacks, s)
		}
	}
	return stacks
}

// notOurs are files of Go's own waiting, the GPU, which its driver keeps open, and the memory that a
// driver's compiler writes programs to.
var notOurs = regexp.MustCompile(`^(anon_inode:\[event|/dev/(dri|nvidia)|/memfd:)`)

// openFiles names the open files, where the system tells.
func openFiles() (names []string) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !notOurs.MatchString(to) {
			names = append(names, e.Name()+" "+to)
		}
	}
	return names
}

// settle waits until no more is held than before, and says what is.
func settle(before held, patience time.Duration) error {
	var now held
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		runtime.GC() // closes files that nobody holds
		now = count()
		if now.goroutines <= before.goroutines && now.files <= before.files {
			return nil
		}
		if time.Now().After(end) {
			break
		}
	}
	if now.goroutines > before.goroutines {
		return fmt.Errorf("%d goroutines, before the tests %d:\n%s", now.goroutines, before.goroutines, strings.Join(goroutines(), "\n\n"))
	}
	return fmt.Errorf("%d open files, before the tests %d: %s", now.files, before.files, strings.Join(openFiles(), ", "))
}
