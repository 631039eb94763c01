//go:build !js

package main

import (
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed page.js
var pageJS []byte

const pageHTML = `<!doctype html><meta charset="utf-8"><title>jsrun</title><link rel="icon" href="data:,">
<script type="module" src="page.js"></script>`

// program serves a wasm program and its files to one page.
type program struct {
	wasm, exec string
	root       string   // of the module
	tmp        string   // the program's os.TempDir
	read       []string // files and folders that may be read
	config     config
	url        string
	server     *http.Server
}

// serve starts the server on a free port of this machine. Its paths begin with a random word, so
// that no other page can guess them.
func (p *program) serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	word := "/" + rand.Text() + "/"
	p.url = "http://" + l.Addr().String() + word
	p.config.Env["SHELLGAME_MODULE_URL"] = p.url + "module/"
	mux := http.NewServeMux()
	text := func(kind string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(body)
		}
	}
	cfg, err := json.Marshal(p.config)
	if err != nil {
		return err
	}
	mux.HandleFunc("GET "+word+"{$}", text("text/html", []byte(pageHTML)))
	mux.HandleFunc("GET "+word+"page.js", text("text/javascript", pageJS))
	mux.HandleFunc("GET "+word+"config.json", text("application/json", cfg))
	file := func(kind, path string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			http.ServeFile(w, r, path)
		}
	}
	mux.HandleFunc("GET "+word+"wasm_exec.js", file("text/javascript", p.exec))
	mux.HandleFunc("GET "+word+"main.wasm", file("application/wasm", p.wasm))
	mux.Handle("GET "+word+"module/", http.StripPrefix(word+"module/", http.FileServer(http.Dir(p.root))))
	mux.HandleFunc("POST "+word+"fs/{op}", p.files)
	p.server = &http.Server{Handler: mux}
	go p.server.Serve(l)
	return nil
}

func (p *program) close() {
	p.server.Close()
	os.RemoveAll(p.tmp)
}

// codes are the errors that a page's Go program can tell apart.
var codes = []struct {
	err  error
	code string
}{
	{syscall.ENOTDIR, "ENOTDIR"},
	{syscall.EISDIR, "EISDIR"},
	{syscall.ENOTEMPTY, "ENOTEMPTY"},
	{syscall.EINVAL, "EINVAL"},
	{fs.ErrNotExist, "ENOENT"},
	{fs.ErrExist, "EEXIST"},
	{fs.ErrPermission, "EACCES"},
	{errors.ErrUnsupported, "ENOSYS"},
}

// files does one operation of the program's file system. A failed one answers with the header
// Errno, and not with a status that would fill the page's console.
func (p *program) files(w http.ResponseWriter, r *http.Request) {
	if err := p.operate(w, r); err != nil {
		code := "EIO"
		for _, c := range codes {
			if errors.Is(err, c.err) {
				code = c.code
				break
			}
		}
		w.Header().Set("Errno", code)
	}
}

func (p *program) operate(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	path := filepath.Clean(q.Get("path"))
	number := func(name string) int {
		n, _ := strconv.Atoi(q.Get(name))
		return n
	}
	op := r.PathValue("op")
	const writes = os.O_WRONLY | os.O_RDWR | os.O_CREATE | os.O_TRUNC | os.O_APPEND
	flags := number("flags")
	switch op {
	case "stat", "lstat", "readdir", "read", "readlink":
		if !p.readable(path) {
			return fs.ErrPermission
		}
	case "open":
		if !p.readable(path) || flags&writes != 0 && !p.writable(path) {
			return fs.ErrPermission
		}
	default:
		if !p.writable(path) || q.Has("to") && !p.writable(filepath.Clean(q.Get("to"))) {
			return fs.ErrPermission
		}
	}
	switch op {
	case "stat", "lstat":
		stat := os.Stat
		if op == "lstat" {
			stat = os.Lstat
		}
		info, err := stat(path)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(describe(path, info))
	case "readdir":
		entries, err := os.ReadDir(path)
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(names)
	case "readlink":
		to, err := os.Readlink(path)
		if err == nil {
			fmt.Fprint(w, to)
		}
		return err
	case "open":
		f, err := os.OpenFile(path, flags, fs.FileMode(number("mode")))
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(describe(path, info))
	case "read":
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	case "write":
		how := os.O_WRONLY
		if q.Get("append") == "true" {
			how |= os.O_APPEND
		}
		f, err := os.OpenFile(path, how, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if how&os.O_APPEND == 0 {
			if _, err := f.Seek(int64(number("at")), io.SeekStart); err != nil {
				return err
			}
		}
		if _, err := io.Copy(f, r.Body); err != nil {
			return err
		}
		return f.Close()
	case "truncate":
		return os.Truncate(path, int64(number("length")))
	case "mkdir":
		return os.Mkdir(path, fs.FileMode(number("mode")))
	case "chmod":
		return os.Chmod(path, fs.FileMode(number("mode")))
	case "utimes":
		return os.Chtimes(path, time.Unix(int64(number("atime")), 0), time.Unix(int64(number("mtime")), 0))
	case "unlink":
		return syscall.Unlink(path)
	case "rmdir":
		return syscall.Rmdir(path)
	case "rename":
		return os.Rename(path, filepath.Clean(q.Get("to")))
	}
	return errors.ErrUnsupported
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

func (p *program) readable(path string) bool {
	for _, root := range p.read {
		if within(path, root) {
			return true
		}
	}
	return false
}

func (p *program) writable(path string) bool {
	return within(path, p.tmp) || within(path, p.root) && strings.Contains(path+"/", "/testdata/out/")
}

// stat is the part of Node's fs.Stats that Go reads; keep in step with page.js.
type stat struct {
	Dev     int    `json:"dev"`
	Ino     uint64 `json:"ino"` // of the path, as Go uses it only to tell files apart
	Mode    uint32 `json:"mode"`
	Size    int64  `json:"size"`
	MtimeMs int64  `json:"mtimeMs"`
}

func describe(path string, info fs.FileInfo) stat {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	h := fnv.New64a()
	io.WriteString(h, path)
	mode := uint32(info.Mode().Perm())
	switch info.Mode().Type() {
	case fs.ModeDir:
		mode |= 0o040000
	case fs.ModeSymlink:
		mode |= 0o120000
	case 0:
		mode |= 0o100000
	}
	return stat{Dev: 1, Ino: h.Sum64() >> 12, Mode: mode, Size: info.Size(), MtimeMs: info.ModTime().UnixMilli()}
}
