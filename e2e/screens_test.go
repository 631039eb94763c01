//go:build screens && !js

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// TestScreens takes the pictures of docs/screens: every view and every lesson at three widths in
// both themes. It has a build tag of its own, since it makes files rather than testing anything:
// `make screens`, and `VIEWS=text,inspect make screens` for some views alone.
func TestScreens(t *testing.T) {
	out := filepath.Join(root, "docs", "screens")
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, size := range []struct {
		width, height int
		scale         float64
	}{{1400, 1000, 0.55}, {800, 1000, 0.6}, {390, 844, 0.8}} {
		for _, theme := range []string{"light", "dark"} {
			take := func(p page, name string) {
				eval[bool](p, "new Promise((r) => setTimeout(() => r(true), 700))")
				shot, err := chromedp.Call(p.Chrome.Context(), cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{
					Format: cdppage.CaptureScreenshotFormatWebp, Quality: ptr(int64(55)),
					Clip: &cdppage.Viewport{Y: eval[float64](p, "scrollY"), Width: float64(size.width), Height: float64(size.height), Scale: size.scale},
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("%s-%d-%s.webp", name, size.width, theme)), shot.Data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			opt := chrome.Options{Width: size.width, Height: size.height}
			p := open(t, opt, "?task=sbr&model=sbr-hybrid-neg&n=8&theme="+theme)
			p.live("sbr-hybrid-neg")
			p.ask()
			views, some := []string{"cups", "anatomy", "maps", "belief", "compare", "switches", "curve", "export", "text", "inspect"}, os.Getenv("VIEWS")
			if some != "" {
				views = strings.Split(some, ",")
			} else {
				take(p, "page")
			}
			for _, view := range views {
				eval[bool](p, "(document.getElementById('tab-"+view+"').click(), document.getElementById('tab-"+view+"').scrollIntoView({ block: 'center' }), true)")
				if view == "compare" {
					p.wait("[...document.querySelectorAll('#panel button')].some((b) => b.textContent === 'Ask all five')")
					eval[bool](p, "([...document.querySelectorAll('#panel button')].find((b) => b.textContent === 'Ask all five').click(), new Promise((r) => setTimeout(() => r(true), 5000)))")
				}
				switch view {
				case "text":
					p.wait("document.querySelector('.view-text button.primary')")
					eval[bool](p, "(() => { const v = document.querySelector('.view-text'); const [most, temp] = v.querySelectorAll('input'); most.value = 4; temp.value = 0; v.querySelector('button.primary').click(); return true; })()")
					p.wait("document.querySelector('.view-text button.primary').textContent === 'Write'")
				case "inspect":
					p.wait("document.querySelector('.view-inspect .strip') && document.querySelectorAll('.inspect-strongest button').length")
				}
				if size.width < 500 {
					eval[bool](p, "(document.getElementById('panel').scrollIntoView(), scrollBy(0, -130), true)")
				} else {
					eval[bool](p, "(scrollTo(0, 0), true)")
				}
				take(p, view)
			}
			p.quiet()
			p.Close()
			if some != "" {
				continue
			}
			for _, lesson := range []string{"by-hand", "negative-eigenvalues", "recall", "hybrid", "chunks", "precision"} {
				p := open(t, opt, "?lesson="+lesson+"&theme="+theme)
				p.wait("s.phase === 'live' && !s.busy && s.t >= 0")
				take(p, "lesson-"+lesson)
				p.quiet()
				p.Close()
			}
		}
	}
}

func ptr[T any](x T) *T { return &x }
