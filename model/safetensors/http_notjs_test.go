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

const block = 4 << 20

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
		{"one head", headSize, &server{}, 1, headSize},
		{"a byte more", headSize + 1, &server{}, 1, headSize + 1},
		{"many", 3*block - 5, &server{}, 1, 3*block - 5},
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
	r, _, closer, err := (&HTTP{Base: srv.URL}).Open("x")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if _, err := r.ReadAt(p, 6*block); err != nil || !bytes.Equal(p, s.data[6*block:6*block+100]) {
		t.Fatal("wrong bytes", err)
	}
	closer.Close()
	srv.Close() // waits for the handlers, which count after they wrote
	if n := s.sent.Load(); n > 4*block || s.requests.Load() != 2 {
		t.Errorf("sent %d bytes for %d requests, want 2 and what fits on the way, at most %d", n, s.requests.Load(), 4*block)
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

// cutting serves one file and cuts each connection at a byte of it, the first cuts times.
func cutting(data []byte, at int64, cuts int, ranges bool) *httptest.Server {
	var asked atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ranges {
			r.Header.Del("Range")
		}
		var from int64
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if asked.Add(1) > int64(cuts) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(int64(len(data))-from))
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.WriteHeader(206)
		}
		w.Write(data[from:max(from, at)])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
}

// A connection that ends early is taken up again where that can be; where not, the error says how
// far it came, and nothing is taken for the whole.
func TestHTTPCut(t *testing.T) {
	data := noise(1 << 20)
	at := int64(len(data)) * 6 / 10
	for _, c := range []struct {
		name   string
		cuts   int
		ranges bool
		want   string
	}{
		{"once", 1, true, ""},
		{"always at the same place", 1000, true, "the connection ended after 629145 of 1048576 bytes (59 %), want all: load it again: "},
		{"no ranges", 1000, false, "the connection ended after 629145 of 1048576 bytes (59 %), want all: load it again: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := cutting(data, at, c.cuts, c.ranges)
			defer srv.Close()
			r, size, closer, err := (&HTTP{Base: srv.URL}).Open("x")
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			got, err := io.ReadAll(io.NewSectionReader(r, 0, size))
			if c.want == "" {
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("got %d bytes, %v, want %d", len(got), err, len(data))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > int(at) {
				t.Errorf("got %d bytes and %v, want %q", len(got), err, c.want)
			}
		})
	}
}

// More files than streams, read in turns: what is closed to make room is asked for again.
func TestHTTPManyFiles(t *testing.T) {
	for _, noRanges := range []bool{false, true} {
		s := &server{data: noise(100_000), noRanges: noRanges}
		srv := httptest.NewServer(s)
		defer srv.Close()
		h := &HTTP{Base: srv.URL}
		var files []io.ReaderAt
		for i := range 9 {
			r, _, closer, err := h.Open(fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			defer closer.Close()
			files = append(files, r)
		}
		p := make([]byte, 40_000)
		for _, off := range []int64{0, 50_000} {
			for i, r := range files {
				if _, err := r.ReadAt(p, off); err != nil || !bytes.Equal(p, s.data[off:][:len(p)]) {
					t.Fatalf("file %d at %d: %v", i, off, err)
				}
			}
		}
		if n := len(h.streams); n > openMost {
			t.Errorf("%d streams are open, want at most %d", n, openMost)
		}
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

// A server that sends for ever and never says how much is left after a bound.
func TestHTTPEndless(t *testing.T) {
	defer func(was int64) { unknownMost = was }(unknownMost)
	unknownMost = 1 << 20
	var left atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				left.Add(1)
				return
			}
		}
	}))
	defer srv.Close()
	h := &HTTP{Base: srv.URL}
	_, err := ReadFile(h, "config.json", 64<<20)
	if err == nil || !strings.Contains(err.Error(), "got more than 1048576 bytes from a server that does not say how many there are") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	for range 100 {
		if left.Load() > 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the connection is still open")
}
