//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"time"

	json "github.com/goccy/go-json"
	"github.com/vearutop/statigz"
	"github.com/vearutop/statigz/brotli"

	"shellgame"
)

type serveCmd struct {
	Addr   string `help:"Address to listen on; the default is this machine alone." default:"localhost:8017"`
	Open   bool   `help:"Open the page in the browser."`
	Models string `help:"A folder of checkpoints to offer on the page." type:"existingdir" placeholder:"DIR"`
}

func (c *serveCmd) Run(a *app) error {
	site, err := site()
	if err != nil {
		return err
	}
	handler, err := newHandler(site, c.Models)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("serve: %w: another address can be given with --addr", err)
	}
	url := "http://" + c.Addr + "/"
	fmt.Fprintf(a.out, "Shell Game is at %s  (Ctrl-C stops it)\n", url)
	if c.Open {
		if err := openBrowser(url); err != nil {
			a.note("shellgame: %v", err)
		}
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-a.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Shutdown(ctx)
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return a.ctx.Err()
}

// site finds the playground's files: embedded in a release build, else in dist/ here.
func site() (fs.ReadDirFS, error) {
	if f, ok := shellgame.Site(); ok {
		if r, ok := f.(fs.ReadDirFS); ok {
			return r, nil
		}
	}
	if _, err := os.Stat("dist/index.html"); err == nil {
		return os.DirFS("dist").(fs.ReadDirFS), nil
	}
	return nil, errors.New("serve: this build holds no site and dist/ has none: run make play")
}

// newHandler serves the site, and under models/ the checkpoints of a folder. What was compressed
// when the site was built is sent so.
func newHandler(site fs.ReadDirFS, models string) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.Handle("/", statigz.FileServer(site, brotli.AddEncoding))
	if models != "" {
		root, err := os.OpenRoot(models)
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		mux.Handle("/models/", http.StripPrefix("/models/", modelFiles(root)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// Frames without their own origin, and pages elsewhere that embed the stage, may read too.
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "Content-Range, Content-Length, Accept-Ranges")
		h.Set("Access-Control-Allow-Headers", "Range")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		switch path.Ext(r.URL.Path) {
		case ".safetensors":
			h.Set("Content-Type", "application/octet-stream")
		case ".md":
			h.Set("Content-Type", "text/markdown; charset=utf-8")
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// modelFiles serves the files of checkpoints in a folder, and index.json, which lists them.
// os.Root keeps it inside the folder whatever the links in it say.
func modelFiles(root *os.Root) http.Handler {
	files := http.FileServerFS(root.FS())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "index.json" {
			if strings.HasSuffix(r.URL.Path, "/") || r.URL.Path == "" {
				http.NotFound(w, r)
				return
			}
			files.ServeHTTP(w, r)
			return
		}
		type entry struct {
			Name string `json:"name"`
		}
		list := struct {
			Version int     `json:"version"`
			Models  []entry `json:"models"`
		}{1, []entry{}}
		found, _ := fs.Glob(root.FS(), "*/config.json")
		for _, f := range found {
			list.Models = append(list.Models, entry{path.Dir(f)})
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(list)
	})
}

func openBrowser(url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	if err := exec.Command(name, args...).Start(); err != nil {
		return fmt.Errorf("serve: opening the browser: %w: open %s yourself", err, url)
	}
	return nil
}
