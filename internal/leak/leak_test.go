package leak

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

type tests func() int

func (t tests) Run() int { return t() }

// A goroutine or a file that is left, or what a check finds, fails; what ends soon after does not.
func TestRun(t *testing.T) {
	if code := (M{M: tests(func() int { go time.Sleep(300 * time.Millisecond); return 0 })}).Run(); code != 0 {
		t.Errorf("a goroutine that ends: got code %d", code)
	}
	if code := (M{M: tests(func() int { return 7 })}).Run(); code != 7 {
		t.Errorf("tests that fail: got code %d, want theirs", code)
	}
	if code := (M{M: tests(func() int { return 0 }), Checks: []func() error{func() error { return errors.New("a test of the test") }}}).Run(); code != 1 {
		t.Errorf("a check that finds something: got code %d, want 1", code)
	}
	before := count()
	stop := make(chan struct{})
	go func() { <-stop }()
	if err := settle(before, time.Millisecond); err == nil || !strings.Contains(err.Error(), "TestRun") {
		t.Errorf("a goroutine that stays: got %v, want its stack", err)
	}
	close(stop)
	if err := settle(before, patience); err != nil {
		t.Error(err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := settle(before, time.Millisecond); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("a file that stays: got %v, want its name", err)
	}
}
