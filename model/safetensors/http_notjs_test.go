//go:build !js

package safetensors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server serves one file under any path and counts its requests; without
// ranges it answers 200 with the whole.
type server struct {
	data     []byte
	noRanges bool
	hideSize bool // no Content-Range, as another origin may do
	requests atomic.Int64
	sent     atomic.Int64
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if strings.Contains(r.URL.Path, "gone") {
		http.NotFound(w, r)
		return
	}
	if s.noRanges {
		r.Header.Del("Range")
	}
	rec := httptest.NewRecorder()
	http.ServeContent(rec, r, "", time.Time{}, bytes.NewReader(s.data))
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	if s.hideSize {
		w.Header().Del("Content-Range")
	}
	w.WriteHeader(rec.Code)
	n, _ := w.Write(rec.Body.Bytes())
	s.sent.Add(int64(n))
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestHTTP(t *testing.T) {
	for _, c := range []struct {
		name     string
		size     int
		server   *server
		requests int // for one pass over the file
		total    int64
	}{
		{"empty", 0, &server{}, 1, 0},
		{"small", 1000, &server{}, 1, 1000},
		{"one block", block, &server{}, 1, block},
		{"a byte more", block + 1, &server{}, 2, block + 1},
		{"many", 3*block - 5, &server{}, 3, 3*block - 5},
		{"no ranges", 2*block + 9, &server{noRanges: true}, 1, 2*block + 9},
		{"hidden Content-Range", 2*block + 9, &server{hideSize: true}, 2, 2*block + 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.server
			s.data = noise(c.size)
			srv := httptest.NewServer(s)
			defer srv.Close()
			var done, total int64
			h := &HTTP{Base: srv.URL + "/a b/", Progress: func(d, n int64) { done, total = d, n }}
			r, size, closer, err := h.Open("model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			if size != int64(c.size) {
				t.Fatalf("size: got %d, want %d", size, c.size)
			}
			got, err := io.ReadAll(io.NewSectionReader(r, 0, size))
			if err != nil || !bytes.Equal(got, s.data) {
				t.Fatalf("got %d bytes, %v, want %d", len(got), err, c.size)
			}
			if int(s.requests.Load()) != c.requests || done != c.total || total != c.total {
				t.Errorf("got %d requests, progress %d of %d, want %d, %d", s.requests.Load(), done, total, c.requests, c.total)
			}
			// Across a block's edge, the whole, and past the end.
			for _, span := range [][2]int{{0, c.size}, {c.size / 2, c.size - c.size/2}, {c.size, 0}} {
				p := make([]byte, span[1])
				if n, err := r.ReadAt(p, int64(span[0])); n != len(p) || err != nil || !bytes.Equal(p, s.data[span[0]:span[0]+span[1]]) {
					t.Errorf("bytes %v: got %d, %v", span, n, err)
				}
			}
			if n, err := r.ReadAt(make([]byte, 2), size-1); c.size > 0 && (n != 1 || err != io.EOF) {
				t.Errorf("past the end: got %d, %v", n, err)
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("read at -1")
			}
		})
	}
}

func TestHTTPReadsOnlyWhatIsAsked(t *testing.T) {
	s := &server{data: noise(8 * block)}
	srv := httptest.NewServer(s)
	defer srv.Close()
	r, _, _, err := (&HTTP{Base: srv.URL}).Open("x")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if _, err := r.ReadAt(p, 6*block); err != nil || !bytes.Equal(p, s.data[6*block:6*block+100]) {
		t.Fatal("wrong bytes", err)
	}
	srv.Close() // waits for the handlers, which count after they wrote
	if n := s.sent.Load(); n != 2*block {
		t.Errorf("sent %d bytes, want two blocks, %d", n, 2*block)
	}
}

func TestHTTPErrors(t *testing.T) {
	s := &server{data: noise(3 * block)}
	srv := httptest.NewServer(s)
	defer srv.Close()
	h := &HTTP{Base: srv.URL + "/gone"}
	_, _, _, err := h.Open("model.safetensors")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), srv.URL+"/gone/model.safetensors: got status 404, want 200") {
		t.Errorf("404: got %v", err)
	}
	if _, err := OpenCheckpoint(h); err == nil || !strings.Contains(err.Error(), "found neither") || !strings.Contains(err.Error(), srv.URL) {
		t.Errorf("empty folder: got %v", err)
	}

	r, _, _, err := (&HTTP{Base: srv.URL}).Open("x")
	if err != nil {
		t.Fatal(err)
	}
	s.data = noise(3*block + 1)
	if _, err := r.ReadAt(make([]byte, 1), 2*block); err == nil || !strings.Contains(err.Error(), "the file changed while it was read") {
		t.Errorf("changed: got %v", err)
	}
	s.noRanges = true
	if _, err := r.ReadAt(make([]byte, 1), 2*block); err == nil || !strings.Contains(err.Error(), "got status 200, want 206") {
		t.Errorf("no range later: got %v", err)
	}
	srv.Close()
	if _, err := r.ReadAt(make([]byte, 1), 2*block); err == nil || !strings.Contains(err.Error(), srv.URL+"/x") {
		t.Errorf("server gone: got %v", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, _, err := (&HTTP{Context: ctx, Base: srv.URL}).Open("x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}

	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-99/100")
		w.WriteHeader(206)
		fmt.Fprint(w, "only this")
	}))
	defer short.Close()
	if _, _, _, err := (&HTTP{Base: short.URL}).Open("x"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short body: got %v", err)
	}
}

func TestHTTPCheckpoint(t *testing.T) {
	files := map[string][]byte{shardA: shardFile(t, "a"), shardB: shardFile(t, "b"), indexName: index("a", shardA, "b", shardB)}
	srv := httptest.NewServer(http.FileServerFS(mapFS(files)))
	defer srv.Close()
	c, err := OpenCheckpoint(&HTTP{Base: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := c.ReadF32("b"); err != nil || x[1] != -1 {
		t.Errorf("got %v, %v", x, err)
	}
}

func TestParseContentRange(t *testing.T) {
	if from, to, size, err := parseContentRange("bytes 5-9/10"); from != 5 || to != 9 || size != 10 || err != nil {
		t.Errorf("got %d %d %d %v", from, to, size, err)
	}
	for _, s := range []string{"", "bytes 0-9", "bytes 0-9/*", "bytes 0-10/10", "bytes 9-5/10", "bytes -1-5/10", "items 0-9/10", "bytes a-b/c"} {
		if _, _, _, err := parseContentRange(s); err == nil {
			t.Errorf("took %q", s)
		}
	}
}
