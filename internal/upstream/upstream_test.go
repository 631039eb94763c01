package upstream

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a test that only notes whether it failed, and with what.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.text += fmt.Sprintln(args...) }

func (r *recorder) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

func TestStill(t *testing.T) {
	for name, c := range map[string]struct {
		defect           bool
		file, word, want string
	}{
		"there":            {true, "internal/upstream/upstream.go", "Still", ""},
		"gone":             {false, "internal/upstream/upstream.go", "Still", "fixed upstream: what: remove the workaround at internal/upstream/upstream.go (Still)"},
		"workaround moved": {true, "internal/upstream/upstream.go", "nowhere" + "Else", "is not in"},
		"no such file":     {true, "internal/upstream/none.go", "Still", "none.go"},
	} {
		var r recorder
		if Still(&r, c.defect, "what", c.file, c.word); c.want == "" && r.text != "" || !strings.Contains(r.text, c.want) {
			t.Errorf("%s: got %q, want %q", name, r.text, c.want)
		}
	}
}
