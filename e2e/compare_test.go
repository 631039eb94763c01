//go:build !js

package e2e

import (
	"testing"

	"shellgame/internal/chrome"
)

// panel opens a panel and waits until it is there.
func (p page) panel(id string) {
	p.Helper()
	p.click("tab-" + id)
	p.wait("document.querySelector('.view-" + id + "')")
}

func TestSwitchesPanel(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=st&model=st-hybrid-neg&n=8&device=cpu")
	p.live("st-hybrid-neg")
	p.panel("switches")
	p.shot("switches")
	p.quiet()
}
