//go:build !js

package main

import (
	"path/filepath"
	"testing"
)

// Programs that are none of the game's, with what the person who typed them reads.
var badPrograms = []struct{ name, program, want string }{
	{"unknown word", "a,b,c,d,e=range(5) jump", "line 1, column 20: unknown word `jump`: expected a swap like `a,c=c,a`, values like `a,b,c,d,e=range(5)` or `a=3`, a list like `bits=[0,1,1]`, or a question like `assert a==2`"},
	{"undefined variable", "a=1\nassert b==2", "line 2, column 8: `b` has no value yet: expected something like `b=3` or `a,b,c,d,e=range(5)` before this"},
	{"undefined variable in a swap", "a,c=c,a", "line 1, column 5: `c` has no value yet: expected something like `c=3` or `a,b,c,d,e=range(5)` before this"},
	{"column after wide letters", "a,b,c,d,e=range(5) # größer\n  é=3", "line 2, column 3: unknown variable `é`: expected one of a, b, c, d, e"},
	{"sixth variable", "a,b,c,d,e=range(5) f=2", "line 1, column 20: unknown variable `f`: expected one of a, b, c, d, e"},
	{"swap that is none", "a,b,c,d,e=range(5) a,c=a,c", "line 1, column 24: found `a`: expected `c`, a swap exchanges two variables, like `a,c=c,a`"},
	{"one = too few", "a=1 assert a=1", "line 1, column 13: found `=`, which sets a value: expected `==`, which compares, after `assert a`"},
	{"bit that is none", "bits=[0,2]", "line 1, column 9: found `2`: expected a bit from 0 to 1"},
	{"no bits", "a=1 assert bits[a]==1", "line 1, column 12: `bits` has no value yet: expected a list like `bits=[0,1,1]` before this"},
	{"index beyond the bits", "bits=[0,1] a=5 assert bits[a]==", "line 1, column 28: `a` is 5, outside the list: expected an index below 2, the number of bits"},
	{"number beyond the words", "a=128", "line 1, column 3: found `128`: expected a number from 0 to 127"},
	{"not Python", "print('hello')", "line 1, column 1: unknown word `print`: expected a swap like `a,c=c,a`, values like `a,b,c,d,e=range(5)` or `a=3`, a list like `bits=[0,1,1]`, or a question like `assert a==2`"},
	{"control characters", "a=1 \x00\x1b[31m", "line 1, column 5: found `\\x00`: expected a swap like `a,c=c,a`, values like `a,b,c,d,e=range(5)` or `a=3`, a list like `bits=[0,1,1]`, or a question like `assert a==2`"},
}

func TestBadPrograms(t *testing.T) {
	model := filepath.Join(zoo, "st-constructed")
	for _, test := range badPrograms {
		t.Run(test.name, func(t *testing.T) {
			for _, cmd := range []string{"run", "trace"} {
				code, out, err := command(cmd, "--device", "cpu", "--model", model, test.program)
				if code != exitFailed || out != "" || err != "shellgame: program: "+test.want+"\n" {
					t.Errorf("%s: exit %d, stdout %q, stderr\n%s want\nshellgame: program: %s", cmd, code, out, err, test.want)
				}
			}
		})
	}
}
