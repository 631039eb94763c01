// Release makes what people download: the command with the site inside it for each system, and the
// site for a static host, with their checksums:
//
//	go run ./internal/release [-out build/release] [-targets linux/amd64,...] [-try] [-dirty]
//
// It wants the whole site in dist/ (make site) and a git work tree without changes, so that binaries
// say their commit; with -dirty they say none. The same commit and the same Go give the same bytes:
// paths are trimmed, and files in archives have the commit's time (or SOURCE_DATE_EPOCH) and nobody's
// name. With -try it then unpacks the archive for this system into an empty folder and runs the
// command there.
package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"shellgame/internal/version"
)

const systems = "linux/amd64,linux/arm64,darwin/arm64,darwin/amd64,windows/amd64"

func main() {
	out := flag.String("out", filepath.Join("build", "release"), "folder to fill; what it holds is removed")
	targets := flag.String("targets", systems, "systems, with commas")
	site := flag.String("site", "dist", "the built site")
	attempt := flag.Bool("try", false, "run what was made for this system")
	dirty := flag.Bool("dirty", false, "with changes that are not committed")
	flag.Parse()
	r := release{out: *out, site: *site, targets: strings.Split(*targets, ","), log: os.Stderr}
	var err error
	if !*dirty {
		r.commit, err = clean()
	}
	if err == nil {
		err = r.make()
	}
	if err == nil && *attempt {
		err = r.try()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type release struct {
	out, site string
	targets   []string
	commit    string // "" with changes
	log       io.Writer
	when      time.Time
	names     []string
}

func (r *release) make() error {
	if _, err := os.Stat(filepath.Join(r.site, "index.html")); err != nil {
		return fmt.Errorf("the site is not built: run make site: %w", err)
	}
	var err error
	if r.when, err = commitTime(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, t := range r.targets {
		if err := r.command(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	files, err := tree(r.site, "shellgame-site")
	if err != nil {
		return err
	}
	if err := r.archive("shellgame-"+version.Number+"-site.tar.gz", files); err != nil {
		return err
	}
	return r.sums()
}

// clean returns the commit, and wants nothing in the work tree that it does not have.
func clean() (string, error) {
	b, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil {
		return "", fmt.Errorf("asking git for changes: %w", err)
	}
	if changed := strings.Split(strings.TrimSpace(string(b)), "\n"); changed[0] != "" {
		return "", fmt.Errorf("%d files are not as committed, such as %q: commit them, or pass -dirty", len(changed), changed[0])
	}
	b, err = exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("asking git for the commit: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// commitTime is when the commit was made, so that archives made at other times are the same.
func commitTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("asking git for the commit's time: %w: want a checkout, or SOURCE_DATE_EPOCH", err)
		}
		text = strings.TrimSpace(string(b))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: got %q, want seconds since 1970", text)
	}
	return time.Unix(n, 0).UTC(), nil
}

// file is one of an archive.
type file struct {
	name string // in the archive
	path string
	mode fs.FileMode
}

func binary(goos string) string {
	if goos == "windows" {
		return "shellgame.exe"
	}
	return "shellgame"
}

// command builds the command for a system and packs it.
func (r *release) command(target string) error {
	goos, goarch, ok := strings.Cut(target, "/")
	if !ok {
		return errors.New("want a system and a processor, such as linux/amd64")
	}
	dir, err := os.MkdirTemp("", "shellgame-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, binary(goos))
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "site", "-ldflags", "-s -w -buildid= -X shellgame/internal/version.commit="+r.commit, "-o", exe, "./cmd/shellgame")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	build.Stderr = r.log
	if err := build.Run(); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	name := fmt.Sprintf("shellgame-%s-%s-%s", version.Number, goos, goarch)
	files := []file{{path.Join(name, binary(goos)), exe, 0o755}, {path.Join(name, "LICENSE"), "LICENSE", 0o644}, {path.Join(name, "README.md"), "README.md", 0o644}}
	if goos == "windows" {
		return r.archive(name+".zip", files)
	}
	return r.archive(name+".tar.gz", files)
}

// tree lists the files of a folder in order of their names.
func tree(dir, as string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s: got a %s, want a file", p, e.Type())
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, file{path.Join(as, filepath.ToSlash(rel)), p, 0o644})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, err
}

// archive writes a .tar.gz or a .zip.
func (r *release) archive(name string, files []file) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if strings.HasSuffix(name, ".zip") {
		err = writeZip(w, files, r.when)
	} else {
		err = writeTar(w, files, r.when)
	}
	if err := errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Stat(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "%6.1f MB  %s\n", float64(info.Size())/1e6, name)
	r.names = append(r.names, name)
	return nil
}

func writeTar(w io.Writer, files []file, when time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		err := f.copy(func(size int64) (io.Writer, error) {
			return t, t.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: size, ModTime: when, Format: tar.FormatUSTAR})
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func writeZip(w io.Writer, files []file, when time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		err := f.copy(func(int64) (io.Writer, error) {
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
			h.SetMode(f.mode)
			return z.CreateHeader(h)
		})
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// copy writes the file to what begin returns for its size.
func (f file) copy(begin func(size int64) (io.Writer, error)) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	to, err := begin(info.Size())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, in)
	return err
}

// sums writes SHA256SUMS, as sha256sum reads it.
func (r *release) sums() error {
	var b bytes.Buffer
	slices.Sort(r.names)
	for _, name := range r.names {
		f, err := os.Open(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", h.Sum(nil), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), b.Bytes(), 0o644)
}

// try runs the archive of this system from an empty folder: its version, its check, and the page
// that it serves.
func (r *release) try() error {
	name := fmt.Sprintf("shellgame-%s-%s-%s", version.Number, runtime.GOOS, runtime.GOARCH)
	dir, err := os.MkdirTemp("", "shellgame-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(filepath.Join(r.out, name+".tar.gz"), dir); err != nil {
		return fmt.Errorf("trying %s: %w", name, err)
	}
	dir = filepath.Join(dir, name)
	exe := filepath.Join(dir, binary(runtime.GOOS))
	run := func(args ...string) (string, error) {
		c := exec.Command(exe, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("trying %s %s: %w\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	said, err := run("--version")
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("%s (%.12s)", version.Number, r.commit); r.commit != "" && !strings.Contains(said, want) {
		return fmt.Errorf("trying %s: its version is %q, want %s", name, said, want)
	}
	fmt.Fprint(r.log, said)
	if _, err := run("check", "--device", "cpu"); err != nil {
		return err
	}
	return served(exe, dir)
}

// served starts the server and looks for the page, its wasm and a checkpoint.
func served(exe, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe, "serve", "--addr", "localhost:0")
	c.Dir = dir
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Wait()
	defer c.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("serve said %q: %w", line, err)
	}
	i := strings.Index(line, "http://")
	if i < 0 {
		return fmt.Errorf("serve said %q, want an address", line)
	}
	at := strings.Fields(line[i:])[0]
	for file, begins := range map[string]string{"": "<!doctype html>", "zoo/index.json": "{", "zoo/st-constructed/config.json": "{"} {
		resp, err := http.Get(at + file)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(string(b), begins) {
			return fmt.Errorf("serve: /%s: got %s %.40q, %v", file, resp.Status, b, err)
		}
	}
	return nil
}

func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
			return err
		}
		w, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode())
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, t); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
}
