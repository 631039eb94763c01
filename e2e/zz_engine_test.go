//go:build !js

package e2e

import (
	"fmt"
	"testing"

	"shellgame/internal/chrome"
)

func TestZZShots(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		for _, w := range []int{1400, 800, 360} {
			p := open(t, chrome.Options{Width: w, Height: 1000}, "?task=sbr&model=sbr-hybrid-neg&n=6&seed=5&theme="+theme)
			p.live("sbr-hybrid-neg")
			eval[bool](p, talk)
			eval[bool](p, `(async () => {
				const program = shellgamePage.state().program;
				await ask({type: "load", lane: 1, model: "sbr-hybrid-pos"});
				await ask({type: "run", lane: 1, program});
				await ask({type: "seek", t: 20});
				await ask({type: "seek", lane: 1, t: 20});
				await pause(1500);
				return true;
			})()`)
			eval[bool](p, `(document.querySelector("iframe").scrollIntoView(), true)`)
			p.shot(fmt.Sprintf("zz-belief-%s-%d", theme, w))
			eval[bool](p, `ask({type: "show", lane: "diff"}).then((r) => r.ok)`)
			p.shot(fmt.Sprintf("zz-diff-%s-%d", theme, w))
		}
	}
}
