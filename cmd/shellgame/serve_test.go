//go:build !js

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/andybalholm/brotli"
)

// served is a small site and a folder of checkpoints, with links that lead out of both.
func served(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(handler(t))
	t.Cleanup(srv.Close)
	return srv
}

func handler(t testing.TB) http.Handler {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "secret.txt", []byte("secret"))
	for _, d := range []string{"dist/zoo/m", "dist/build-0123456789ab", "models/one", "models/two", "models/no-checkpoint"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "dist/index.html", []byte("<p>hello"))
	write(t, "dist/zoo/m/model.safetensors", []byte("0123456789"))
	write(t, "dist/engine.wasm", []byte("\x00asm"))
	write(t, "dist/shellgame-0123456789ab.wasm", []byte("\x00asm"))
	write(t, "dist/build-0123456789ab/app.js", []byte("export {}"))
	write(t, "dist/part.mjs", []byte("export {}"))
	script := bytes.Repeat([]byte("let a = 1;\n"), 500)
	write(t, "dist/app.js", script)
	var gz, br bytes.Buffer
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gz), brotli.NewWriter(&br)} {
		w.Write(script)
		w.Close()
	}
	write(t, "dist/app.js.gz", gz.Bytes())
	write(t, "dist/app.js.br", br.Bytes())
	for _, name := range []string{"one", "two"} {
		write(t, filepath.Join("models", name, "config.json"), []byte("{}"))
		write(t, filepath.Join("models", name, "model.safetensors"), []byte("abcdefghij"))
	}
	for from, to := range map[string]string{
		"dist/out.txt": "../secret.txt", "dist/away": "..", "models/out.txt": "../secret.txt", "models/one/out.txt": "../../secret.txt", "models/away": "..",
		"models/one/inside.txt": "../two/config.json",
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	files, err := site()
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHandler(files, "models")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get asks for a path as it stands, without the tidying of an HTTP client, and without following.
func get(t *testing.T, srv *httptest.Server, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = path
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestServeFiles(t *testing.T) {
	srv := served(t)
	for _, test := range []struct {
		path, body, kind string
		header           []string
		code             int
	}{
		{"/", "<p>hello", "text/html; charset=utf-8", nil, 200},
		{"/engine.wasm", "\x00asm", "application/wasm", nil, 200},
		{"/part.mjs", "export {}", "text/javascript; charset=utf-8", nil, 200},
		{"/zoo/m/model.safetensors", "0123456789", "application/octet-stream", nil, 200},
		{"/zoo/m/model.safetensors", "2345", "application/octet-stream", []string{"Range", "bytes=2-5"}, 206},
		{"/models/one/model.safetensors", "cdef", "application/octet-stream", []string{"Range", "bytes=2-5"}, 206},
		{"/models/index.json", `{"version":1,"models":[{"name":"one"},{"name":"two"}]}` + "\n", "application/json", nil, 200},
		{"/models/one/inside.txt", "{}", "text/plain; charset=utf-8", nil, 200},
	} {
		resp, body := get(t, srv, "GET", test.path, test.header...)
		if resp.StatusCode != test.code || body != test.body || resp.Header.Get("Content-Type") != test.kind {
			t.Errorf("%s %v: got %d %q of %s, want %d %q of %s", test.path, test.header, resp.StatusCode, body, resp.Header.Get("Content-Type"), test.code, test.body, test.kind)
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s: Access-Control-Allow-Origin %q, want *", test.path, got)
		}
		if test.code == 206 && resp.Header.Get("Content-Range") != "bytes 2-5/10" {
			t.Errorf("%s: Content-Range %q", test.path, resp.Header.Get("Content-Range"))
		}
	}
	if resp, _ := get(t, srv, "GET", "/zoo/m/model.safetensors", "Range", "bytes=90-99"); resp.StatusCode != 416 {
		t.Errorf("a range beyond the file: got %d, want 416", resp.StatusCode)
	}
	if resp, _ := get(t, srv, "OPTIONS", "/zoo/m/model.safetensors"); resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Headers") != "Range" {
		t.Errorf("before a Range request from elsewhere: got %d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := get(t, srv, "POST", "/"); resp.StatusCode != 405 {
		t.Errorf("POST: got %d, want 405", resp.StatusCode)
	}
}

func TestServeCompressed(t *testing.T) {
	srv := served(t)
	script := string(read(t, "dist/app.js"))
	for _, test := range []struct{ accept, encoding string }{
		{"", ""}, {"gzip", "gzip"}, {"br", "br"}, {"gzip, deflate, br", "br"}, {"identity", ""},
	} {
		resp, body := get(t, srv, "GET", "/app.js", "Accept-Encoding", test.accept)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != test.encoding || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("accepting %q: got %d %v, want %q", test.accept, resp.StatusCode, resp.Header, test.encoding)
		}
		var r io.Reader = strings.NewReader(body)
		switch test.encoding {
		case "gzip":
			var err error
			if r, err = gzip.NewReader(r); err != nil {
				t.Fatal(err)
			}
		case "br":
			r = brotli.NewReader(r)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != script {
			t.Errorf("accepting %q: got %d bytes, %v, want the script's %d", test.accept, len(got), err, len(script))
		}
	}
}

// Nothing outside the two folders is to be had, by any spelling or link.
func TestServeStaysInside(t *testing.T) {
	srv := served(t)
	for _, path := range []string{
		"/out.txt", "/away/secret.txt", "/models/out.txt", "/models/one/out.txt", "/models/away/secret.txt",
		"/../secret.txt", "/zoo/../../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/..%5csecret.txt",
		"/models/../../secret.txt", "/models/%2e%2e/%2e%2e/secret.txt", "/models/..%2f..%2fsecret.txt", "/models/one/..%2f..%2f..%2fsecret.txt",
		"/models//secret.txt", "/models/" + strings.TrimPrefix(filepath.ToSlash(mustAbs(t, "secret.txt")), "/"),
	} {
		for range 3 { // a path that can be tidied is sent to where it then leads
			resp, body := get(t, srv, "GET", path)
			if strings.Contains(body, "secret") && resp.StatusCode == 200 || resp.StatusCode >= 500 {
				t.Errorf("%s: got %d %q", path, resp.StatusCode, body)
			}
			if resp.StatusCode < 300 || resp.StatusCode >= 400 {
				if resp.StatusCode < 400 {
					t.Errorf("%s: got %d, want an error", path, resp.StatusCode)
				}
				break
			}
			path = resp.Header.Get("Location")
		}
	}
	// Folders are not listed.
	for _, path := range []string{"/models/", "/models/one/", "/zoo/", "/zoo/m/"} {
		if resp, body := get(t, srv, "GET", path); resp.StatusCode != 404 || strings.Contains(body, "model.safetensors") {
			t.Errorf("%s: got %d %q, want 404", path, resp.StatusCode, body)
		}
	}
}

// FuzzServe: whatever is asked for, what is outside the two folders does not come, nobody is sent to
// another host, and nothing fails.
func FuzzServe(f *testing.F) {
	h := handler(f)
	for _, target := range []string{
		"/", "/out.txt", "/away/secret.txt", "/models/away/secret.txt", "/models/one/out.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/..%5csecret.txt", "/models/..%2f..%2fsecret.txt",
		"//there.example/%2e%2e/index.html", "/index.html", "/models/one", "/models/index.json", "/zoo", "/%00", "/C:/secret.txt", "/models/%5c%5chost%5cshare", "/app.js?x=../secret.txt", "*", "http://there.example/secret.txt",
		"/build-0123456789ab/../../secret.txt", "/models/one/model.safetensors",
	} {
		f.Add(target, "bytes=2-5")
	}
	f.Add("/zoo/m/model.safetensors", "bytes=0-18446744073709551615,-1,5-")
	f.Fuzz(func(t *testing.T, target, span string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: here.example\r\nRange: " + span + "\r\n\r\n")))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "secret") && w.Code < 300 || w.Code >= 500 {
			t.Fatalf("%q: got %d %q", target, w.Code, w.Body)
		}
		if to := w.Header().Get("Location"); to != "" {
			u, err := r.URL.Parse(to)
			if err != nil || u.Host != r.URL.Host {
				t.Fatalf("%q: sends to %q", target, to)
			}
			// As a browser reads it, that takes both slashes for the same.
			if len(to) > 1 && strings.ContainsAny(to[:1], `/\`) && strings.ContainsAny(to[1:2], `/\`) {
				t.Fatalf("%q: sends to another host: %q", target, to)
			}
		}
	})
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func TestServeAddress(t *testing.T) {
	for _, test := range []struct{ asked, got, want string }{
		{"localhost:8017", "127.0.0.1:8017", "http://localhost:8017/"},
		{"localhost:0", "127.0.0.1:40001", "http://localhost:40001/"},
		{":8017", "[::]:8017", "http://localhost:8017/"},
		{"0.0.0.0:80", "0.0.0.0:80", "http://localhost:80/"},
		{"[::1]:80", "[::1]:80", "http://[::1]:80/"},
		{"mine.example:0", "192.0.2.7:99", "http://mine.example:99/"},
	} {
		addr, err := net.ResolveTCPAddr("tcp", test.got)
		if err != nil {
			t.Fatal(err)
		}
		if got := address(test.asked, addr); got != test.want {
			t.Errorf("asked for %s, got %s: %s, want %s", test.asked, test.got, got, test.want)
		}
	}
}

// Without a wish the server is for this machine alone.
func TestServeIsLocal(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, kong.Vars{"version": "", "shapes": ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"serve"}); err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(c.Serve.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		t.Errorf("the server listens on %s, want a loopback address", c.Serve.Addr)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if at := l.Addr().(*net.TCPAddr); !at.IP.IsLoopback() {
		t.Errorf("%s is %s here, want a loopback address", host, at)
	}
}

// Names that say what is in a file may be kept for good, all others are asked for again.
func TestServeCaching(t *testing.T) {
	srv := served(t)
	for path, want := range map[string]string{
		"/build-0123456789ab/app.js": "public, max-age=31536000, immutable", "/shellgame-0123456789ab.wasm": "public, max-age=31536000, immutable",
		"/app.js": "no-cache", "/engine.wasm": "no-cache", "/": "no-cache", "/build-0123456789ab/gone.js": "no-cache",
	} {
		resp, _ := get(t, srv, http.MethodGet, path)
		if got := resp.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control %q, want %q", path, got, want)
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s: Access-Control-Allow-Origin %q, want *", path, got)
		}
	}
}
