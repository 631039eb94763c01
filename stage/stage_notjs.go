//go:build !js && (windows || cgo)

package stage

import (
	"time"

	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/inpututil"
)

// wheelPoints is how far one unit of the wheel goes: windows count in notches.
const wheelPoints = 40

func pressedKeys() []ebiten.Key { return inpututil.AppendJustPressedKeys(nil) }

func (s *Stage) watchPointer() {}

func wantWheel(overStrip, stripScrolls, contentScrolls bool) {}

func pace() time.Duration { return 0 }
