// Package version says which Shell Game this is.
package version

import (
	"runtime/debug"
	"strings"
)

// Number is the release that this tree leads to.
const Number = "0.1.0"

// commit is set by the linker where the build has no version control information.
var commit string

// String is the number with the commit it was built from, where that is known.
func String() string {
	if c := Commit(); c != "" {
		return Number + " (" + c + ")"
	}
	return Number
}

// Commit is the first 12 digits of the commit, with a + where files were changed, or "".
func Commit() string {
	c, dirty := commit, false
	if info, ok := debug.ReadBuildInfo(); ok && c == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				c = s.Value
			case "vcs.modified":
				dirty = s.Value == "true"
			}
		}
	}
	c = strings.TrimSpace(c)
	if len(c) > 12 {
		c = c[:12]
	}
	if dirty && c != "" {
		c += "+"
	}
	return c
}
