package shaders

import (
	"testing"

	"pgregory.net/rapid"
)

// A folded grid has all of its workgroups, fewer than a row too many, and no dimension beyond
// MaxGroups, up to the most that two dimensions hold.
func TestFold(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, n uint32) {
		g := fold(n)
		all := uint64(g[0]) * uint64(g[1])
		if max(g[0], g[1]) > MaxGroups || g[2] != 1 || all < uint64(n) || all-uint64(n) >= uint64(max(g[1], 2)) {
			t.Fatalf("fold(%d) is %v", n, g)
		}
	}
	for _, n := range []uint32{0, 1, MaxGroups, MaxGroups + 1, 2 * MaxGroups, 2*MaxGroups + 1, 300_000 * 30, 300_000 * 11520, MaxGroups*MaxGroups - 1, MaxGroups * MaxGroups} {
		check(t, n)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.Uint32Range(0, MaxGroups*MaxGroups).Draw(t, "n")) })
}
