// Probe is run by the tests of jsrun: its first argument says how it ends.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall/js"
	"time"
)

func main() {
	switch os.Args[1] {
	case "exit":
		fmt.Println("to stdout", os.Args[2:], os.Getenv("SHELLGAME_PROBE"), os.Getenv("HOME"))
		fmt.Fprintln(os.Stderr, "to stderr: \x00\xff é")
		os.Exit(7)
	case "long":
		fmt.Print(strings.Repeat("0123456789", 10_000))
	case "panic":
		panic("the pea is gone")
	case "console":
		js.Global().Get("console").Call("error", "written to the console")
		os.Exit(1)
	case "deadlock":
		select {}
	case "hang":
		for {
		}
	case "sleep":
		fmt.Println("asleep")
		time.Sleep(time.Hour)
	}
}
