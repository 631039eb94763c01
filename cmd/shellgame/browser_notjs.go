//go:build !js

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shellgame/internal/chrome"
	"shellgame/model/check"
	"shellgame/model/verify"
	"shellgame/task/eval"
	"shellgame/webgpu"
)

// inBrowser reports whether a command is to run in Chromium rather than in this process.
func inBrowser(f deviceFlag) bool { return f.Device == "browser" }

// session is Chromium on the engine's own document, without a stage, and a server for it.
type session struct {
	*chrome.Chrome
	url string
	srv *http.Server
}

// startBrowser opens the site's engine in Chromium. Folders are served to it as files/0, files/1 …
func startBrowser(a *app, folders ...string) (*session, error) {
	site, err := site()
	if err != nil {
		return nil, err
	}
	handler, err := newHandler(site, "")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	for i, dir := range folders {
		prefix := "/files/" + strconv.Itoa(i) + "/"
		mux.Handle(prefix, http.StripPrefix(prefix, http.FileServer(http.Dir(dir))))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &session{url: "http://" + l.Addr().String() + "/", srv: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	go s.srv.Serve(l)
	c, err := chrome.Start(a.ctx, chrome.Options{})
	if err != nil {
		s.srv.Close()
		if errors.Is(err, chrome.ErrNotFound) {
			err = missing{err}
		}
		return nil, fmt.Errorf("browser: %w", err)
	}
	s.Chrome = c
	stage, err := stagePage(site)
	if err == nil {
		err = c.Navigate(s.url + stage + "?stage=no")
	}
	if err == nil {
		err = c.Wait("globalThis.shellgame && shellgame.check", time.Minute)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("browser: the engine did not start: %w", err)
	}
	return s, nil
}

// stagePage is the path of stage.html, which lies in the folder of its build.
func stagePage(site fs.FS) (string, error) {
	found, _ := fs.Glob(site, "build-*/stage.html")
	if len(found) != 1 {
		return "", fmt.Errorf("the site has %d files build-*/stage.html, want one: run make play", len(found))
	}
	return found[0], nil
}

// missing is an error that says that a device is not there.
type missing struct{ error }

func (m missing) Is(target error) bool { return target == webgpu.ErrNoAdapter }
func (m missing) Unwrap() error        { return m.error }

func (s *session) close() {
	s.Chrome.Close()
	s.srv.Close()
}

// call runs one of globalThis.shellgame's functions and decodes what it resolves to.
func call[T any](s *session, name string, args map[string]any) (*T, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	text, err := chrome.Eval[string](s.Chrome, "shellgame."+name+"("+string(b)+")")
	if err != nil {
		err = fmt.Errorf("browser: %w", err)
		if strings.Contains(err.Error(), webgpu.ErrNoAdapter.Error()) { // an error's text is all that comes out of the page
			err = missing{err}
		}
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("browser: reading the result of %s: %w", name, err)
	}
	return v, nil
}

func checkInBrowser(a *app, c *checkCmd) (*check.Report, error) {
	s, err := startBrowser(a)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return call[check.Report](s, "check", map[string]any{"full": c.Full})
}

func verifyInBrowser(a *app, c *verifyCmd) (*verify.Report, error) {
	var folders, dirs, golden []string
	for _, dir := range c.Dirs {
		file, err := c.golden(dir)
		if err != nil {
			return nil, err
		}
		n := strconv.Itoa(len(folders))
		folders = append(folders, dir, filepath.Dir(file))
		dirs = append(dirs, "files/"+n)
		golden = append(golden, "files/"+strconv.Itoa(len(folders)-1)+"/"+filepath.Base(file))
	}
	s, err := startBrowser(a, folders...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for i := range dirs {
		dirs[i], golden[i] = s.url+dirs[i], s.url+golden[i]
	}
	rep, err := call[verify.Report](s, "verify", map[string]any{"dirs": dirs, "golden": golden})
	if err != nil {
		return nil, err
	}
	for i := range rep.Cases {
		rep.Cases[i].Dir = c.Dirs[i]
		for j := range rep.Cases[i].Tensors {
			t := &rep.Cases[i].Tensors[j]
			t.Pass = t.Note == "" && float64(t.Worst) <= float64(t.Bound)
		}
	}
	return rep, nil
}

func evalInBrowser(a *app, c *evalCmd, levels []int) (*eval.Result, error) {
	s, err := startBrowser(a, c.Model)
	if err != nil {
		return nil, err
	}
	defer s.close()
	res, err := call[eval.Result](s, "eval", map[string]any{"model": s.url + "files/0", "task": c.Task, "levels": levels, "samples": c.Samples, "seed": c.Seed})
	if err == nil {
		res.Model = c.of().name()
	}
	return res, err
}
