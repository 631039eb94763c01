// Command headless only links ebiten.
package main

import (
	"fmt"

	"github.com/hajimehoshi/ebiten/v2"
)

func main() { fmt.Println("alive", ebiten.DefaultTPS) }
