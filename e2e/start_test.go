//go:build !js

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shellgame/internal/chrome"
	"shellgame/internal/chrome/chrometest"
)

// line is a connection of so many bits a second to a server, shared by all who come over it.
type line struct {
	net.Listener
	server string
	bits   float64 // a second, towards the browser
	sent   atomic.Int64

	mu   sync.Mutex
	free time.Time // when the line has sent what was given to it
}

func newLine(t testing.TB, server string, bits float64) *line {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	n := &line{Listener: l, server: u.Host, bits: bits}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(c)
		}
	}()
	return n
}

func (l *line) url() string { return "http://" + l.Addr().String() + "/" }

func (l *line) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	go func() {
		io.Copy(s, c)
		s.Close()
	}()
	b := make([]byte, 4096)
	for {
		n, err := s.Read(b)
		if n > 0 {
			time.Sleep(l.take(n))
			l.sent.Add(int64(n))
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// take says how long n bytes take to arrive behind all that is under way.
func (l *line) take(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(8 * float64(n) / l.bits * float64(time.Second)))
	return l.free.Sub(now)
}

// From nothing, over a line of 20 Mbit/s, the first picture is there in a second and the engine in
// four (medians on two cores that have nothing else to do; the gate's machine may be busy), and no
// more is sent before that than was meant to be.
func TestStartOverSlowLine(t *testing.T) {
	if !whole {
		t.Skip("takes half a minute: E2E=whole")
	}
	runs, firstBound, liveBound := 1, 8000.0, 30000.0
	if whole {
		runs, firstBound, liveBound = 5, 1500, 6000
	}
	for _, device := range some(1, []string{"auto", "cpu"}) {
		var firsts, lives []float64
		var kept string
		for range runs {
			p := page{t, chrometest.Start(t, chrome.Options{})}
			l := newLine(t, site(t), 20e6)
			p.goTo(l.url() + "?device=" + device)
			p.wait("s.phase === 'live' && performance.getEntriesByName('shellgame-live').length > 0")
			sent := l.sent.Load()
			m := eval[[]float64](p, "['shellgame-first', 'shellgame-live'].map((m) => performance.getEntriesByName(m)[0].startTime)")
			sizes := eval[[]float64](p, `(async () => {
				const first = performance.getEntriesByName("shellgame-first")[0].startTime;
				const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
				const size = (of) => of.reduce((n, e) => n + e.transferSize, 0);
				const frame = document.querySelector("iframe").contentWindow.performance.getEntriesByType("resource");
				return [size(all.filter((e) => e.responseEnd <= first)), size(frame.filter((e) => e.name.endsWith(".wasm")))];
			})()`)
			firsts, lives = append(firsts, m[0]), append(lives, m[1])
			kept = fmt.Sprintf("%.0f kB before the first picture, %.2f MB of wasm, %.2f MB in all when live", sizes[0]/1e3, sizes[1]/1e6, float64(sent)/1e6)
			if sizes[0] == 0 || sizes[0] > 200e3 || sizes[1] < 1e6 || sizes[1] > 4.2e6 || float64(sent) < sizes[1] || float64(sent) > sizes[1]+1e6 {
				t.Errorf("%s: want at most 200 kB, 4.2 MB of wasm, once, and 1 MB of all else", kept)
			}
			p.quiet()
			p.Close()
		}
		t.Logf("%s: first picture after %.0f ms, live after %.0f ms (median of %d); %s", device, median(firsts), median(lives), runs, kept)
		if median(firsts) > firstBound || median(lives) > liveBound {
			t.Errorf("%s: first picture after %.0f ms, live after %.0f ms, want %.0f and %.0f", device, median(firsts), median(lives), firstBound, liveBound)
		}
	}
}
