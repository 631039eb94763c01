package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"syscall/js"
	"testing"
)

const shells = "three shells\n"

func is(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func TestPageIsABrowser(t *testing.T) {
	if js.Global().Get("document").IsUndefined() {
		t.Fatal("there is no document")
	}
}

func TestPageFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/read/shells.txt")
	if err != nil || string(data) != shells {
		t.Fatalf("got %q, %v", data, err)
	}
	if data, err = os.ReadFile("../jsrun/testdata/../testdata/read/shells.txt"); err != nil || string(data) != shells {
		t.Errorf("by a winding path: got %q, %v", data, err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.HasPrefix(string(mod), "module shellgame\n") {
		t.Errorf("go.mod: got %.20q, %v", mod, err)
	}
	f, err := os.Open("testdata/read/shells.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := make([]byte, 6)
	if n, err := f.ReadAt(part, 6); n != 6 || err != nil || string(part) != "shells" {
		t.Errorf("ReadAt: got %d, %v, %q", n, err, part)
	}
	if n, err := f.ReadAt(part, int64(len(shells))-1); n != 1 || err != io.EOF {
		t.Errorf("ReadAt the end: got %d, %v", n, err)
	}
	if at, err := f.Seek(-7, io.SeekEnd); at != 6 || err != nil {
		t.Errorf("Seek: got %d, %v", at, err)
	}
	if rest, err := io.ReadAll(f); string(rest) != "shells\n" || err != nil {
		t.Errorf("after Seek: got %q, %v", rest, err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(shells)) || info.IsDir() || !info.Mode().IsRegular() || info.ModTime().Year() < 2020 {
		t.Errorf("Stat: got %v, %v", info, err)
	}
	var names []string
	err = filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil || !slices.Contains(names, "testdata/read/shells.txt") || !slices.Contains(names, "testdata/probe/main.go") {
		t.Errorf("WalkDir: got %v, %v", names, err)
	}
	_, err = os.ReadFile("testdata/read/missing.txt")
	is(t, "a missing file", err, fs.ErrNotExist)
	_, err = os.ReadFile("testdata/read/shells.txt/x")
	is(t, "a file as a folder", err, syscall.ENOTDIR)
	_, err = os.ReadFile("/etc/hostname")
	is(t, "a file outside", err, fs.ErrPermission)
}

func TestPageWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b.txt")
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		fmt.Fprintf(f, "line %d\n", i)
	}
	if _, err := f.WriteAt([]byte("L"), 7); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	_, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	is(t, "making it again", err, fs.ErrExist)
	f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, "end")
	f.Close()
	if got, err := os.ReadFile(path); string(got) != "line 0\nLine 1\nline 2\nend" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	moved := filepath.Join(dir, "moved.txt")
	if err := os.Rename(path, moved); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(moved, 4); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(moved); string(got) != "line" || err != nil {
		t.Errorf("moved: got %q, %v", got, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll("testdata/out", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/out/kept.txt", []byte("kept"), 0o666); err != nil {
		t.Error(err)
	}
	is(t, "writing a source", os.WriteFile("testdata/read/shells.txt", nil, 0o666), fs.ErrPermission)
	is(t, "writing a new source", os.WriteFile("testdata/new.txt", nil, 0o666), fs.ErrPermission)
	is(t, "removing a source", os.Remove("testdata/read/shells.txt"), fs.ErrPermission)
}

func TestPagePlace(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil || !strings.HasSuffix(wd, "/internal/jsrun") {
		t.Errorf("got %q, %v", wd, err)
	}
	t.Chdir("testdata")
	if got, err := os.ReadFile("read/shells.txt"); string(got) != shells || err != nil {
		t.Errorf("after Chdir: got %q, %v", got, err)
	}
}

func TestPageFetches(t *testing.T) {
	req, err := http.NewRequest("GET", os.Getenv("SHELLGAME_MODULE_URL")+"internal/jsrun/testdata/read/shells.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=6-11")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusPartialContent || string(got) != "shells" || err != nil {
		t.Errorf("got %s, %q, %v", answer.Status, got, err)
	}
}

// TestFails fails where jsrun's own tests ask it to.
func TestFails(t *testing.T) {
	if os.Getenv("SHELLGAME_FAIL") == "1" {
		t.Error("as asked")
	}
}
