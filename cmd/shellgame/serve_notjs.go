//go:build !js

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

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
		return fmt.Errorf("serve: %w: name another address with --addr", err)
	}
	url := address(c.Addr, l.Addr())
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

// address is where a browser on this machine finds what was asked to listen on asked and does so at
// got: the name as asked for, with the port that port 0 became.
func address(asked string, got net.Addr) string {
	host, _, err := net.SplitHostPort(asked)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	_, port, _ := net.SplitHostPort(got.String())
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// site finds the playground's files: embedded in a release build, else in dist/ here.
func site() (fs.ReadDirFS, error) {
	if f, ok := shellgame.Site(); ok {
		if r, ok := f.(fs.ReadDirFS); ok {
			return r, nil
		}
	}
	if _, err := os.Stat("dist/index.html"); err == nil {
		root, err := os.OpenRoot("dist")
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		return rooted{root.FS()}, nil
	}
	return nil, errors.New("serve: found no site in this build and no dist/index.html here, want one of them: run make play")
}

// rooted is a folder without its links, which may lead out of it.
type rooted struct{ fs.FS }

func (r rooted) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(r.FS, name)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !e.IsDir() && !e.Type().IsRegular() }), err
}

// kinds of files whose type must not depend on this system: a browser refuses a module of another.
var kinds = map[string]string{
	".safetensors": "application/octet-stream",
	".md":          "text/markdown; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".wasm":        "application/wasm",
	".json":        "application/json",
	".css":         "text/css; charset=utf-8",
	".svg":         "image/svg+xml",
}

func init() {
	for ext, kind := range kinds {
		if err := mime.AddExtensionType(ext, kind); err != nil {
			panic(err)
		}
	}
}

// newHandler serves the site, and under models/ the checkpoints of a folder. What was compressed
// when the site was built is sent so.
func newHandler(site fs.ReadDirFS, models string) (http.Handler, error) {
	mux := http.NewServeMux()
	files, err := siteFiles(site)
	if err != nil {
		return nil, err
	}
	mux.Handle("/", files)
	if models != "" {
		root, err := os.OpenRoot(models)
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		if len(checkpoints(root)) == 0 {
			return nil, fmt.Errorf("serve: --models: found no folder with a config.json in %s, want one a checkpoint", models)
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
		if name := strings.TrimPrefix(r.URL.Path, "/"); hashed.MatchString(name) && there(site, name) {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// hashed are the files whose names say their content (internal/sitebuild).
var hashed = regexp.MustCompile(`^(build-[0-9a-f]{12}/|[a-z_]+-[0-9a-f]{12}\.wasm$)`)

// there reports whether a site has a file: that it is missing must not be remembered.
func there(site fs.FS, name string) bool {
	info, err := fs.Stat(site, name)
	return err == nil && info.Mode().IsRegular()
}

// siteFiles indexes the site, which panics where a file cannot be read.
func siteFiles(site fs.ReadDirFS) (h http.Handler, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("serve: the site cannot be read: %v: run make play again", p)
		}
	}()
	return statigz.FileServer(site, brotli.AddEncoding), nil
}

// modelFiles serves the files of checkpoints in a folder, and index.json, which lists them.
// os.Root keeps it inside the folder whatever the links in it say.
func modelFiles(root *os.Root) http.Handler {
	files := http.FileServerFS(inside{root.FS()})
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
		for _, name := range checkpoints(root) {
			list.Models = append(list.Models, entry{name})
		}
		w.Header().Set("Content-Type", kinds[".json"])
		json.NewEncoder(w).Encode(list)
	})
}

// checkpoints lists the folders in root that hold a config.json, without hidden ones: what a
// checkpoint is written to before it is whole.
func checkpoints(root *os.Root) (names []string) {
	found, _ := fs.Glob(root.FS(), "*/config.json")
	for _, f := range found {
		if name := path.Dir(f); name[0] != '.' {
			names = append(names, name)
		}
	}
	return names
}

// inside is a root's files, in which a link that leads out is a file that is not there.
type inside struct{ fs.FS }

func (f inside) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file, nil
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
