// Command loaders links ebiten's library loader and gogpu/wgpu's.
package main

import (
	"github.com/gogpu/wgpu"
	_ "github.com/gogpu/wgpu/hal/vulkan"
	"github.com/hajimehoshi/ebiten/v2"
)

func main() {
	_, _ = wgpu.CreateInstance(nil)
	ebiten.SetWindowTitle("both")
}
