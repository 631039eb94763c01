//go:build !js && !windows

package main

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"shellgame/model"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// A process that is killed while it writes a checkpoint, at any moment, leaves the whole folder or
// none of that name, and nothing that a server would offer.
func TestKilledWhileWriting(t *testing.T) {
	for _, args := range [][]string{{"st"}, {"random", "--config", filepath.Join(mustAbs(t, golden), "olmo-hybrid", "config.json"), "--type", "f32"}} {
		t.Run(args[0], func(t *testing.T) {
			whole := filepath.Join(t.TempDir(), "m")
			construct := func(dir string) *exec.Cmd {
				c := exec.Command("shellgame", append(append([]string{"construct"}, args...), dir)...)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				return c
			}
			from := time.Now()
			if err := construct(whole).Wait(); err != nil {
				t.Fatal(err)
			}
			took := time.Since(from)
			killed, left := 0, 0
			for i := range 24 {
				parent := t.TempDir()
				dir := filepath.Join(parent, "m")
				c := construct(dir)
				// Most of the time is the start of the process.
				time.Sleep(took/3 + rand.N(took))
				c.Process.Kill()
				if c.Wait() != nil {
					killed++
				}
				root, err := os.OpenRoot(parent)
				if err != nil {
					t.Fatal(err)
				}
				offered := checkpoints(root)
				root.Close()
				entries, err := os.ReadDir(dir)
				if errors.Is(err, fs.ErrNotExist) {
					if len(offered) > 0 {
						t.Fatalf("kill %d: the server offers %q", i, offered)
					}
					if rest, _ := os.ReadDir(parent); len(rest) > 0 {
						left++
					}
					continue
				}
				if err != nil || len(entries) == 0 {
					t.Fatalf("kill %d: got %d entries, %v", i, len(entries), err)
				}
				same(t, whole, dir)
			}
			t.Logf("%d of 24 were killed before they ended, %d of them while they wrote; a whole one takes %v", killed, left, took)
			m, err := model.Open(context.Background(), webgpu.NewCPU(), "m", safetensors.Dir(whole), nil)
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
		})
	}
}

// same fails the test where two folders do not hold the same files.
func same(t *testing.T, want, got string) {
	t.Helper()
	a, errA := os.ReadDir(want)
	b, errB := os.ReadDir(got)
	if err := errors.Join(errA, errB); err != nil || len(a) != len(b) {
		t.Fatalf("got %d files, want %d: %v", len(b), len(a), err)
	}
	for i := range a {
		if a[i].Name() != b[i].Name() || string(read(t, filepath.Join(want, a[i].Name()))) != string(read(t, filepath.Join(got, b[i].Name()))) {
			t.Fatalf("%s is not what a whole folder holds", b[i].Name())
		}
	}
}
