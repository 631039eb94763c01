package safetensors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// block is how much one request fetches at least: a file of the zoo needs one.
const block = 4 << 20

// HTTP is the files below a URL, read by ranges. A server that does not honour
// ranges is asked once for the whole file, which is then held in memory.
// Natively it uses net/http, in a page fetch.
type HTTP struct {
	Context context.Context // ends the requests; nil is never
	Base    string          // URL of the folder
	// Progress, when set, is told the bytes that have arrived and the sizes of
	// all files opened so far. A whole download of unknown size reports 0.
	Progress Progress

	mu          sync.Mutex
	done, total int64
}

// response is what of an HTTP response matters here.
type response struct {
	status       int
	contentRange string
	length       int64 // -1 when unknown
	body         io.ReadCloser
}

// Open implements Files. A 404 or 410 wraps fs.ErrNotExist; every error names
// the URL.
func (h *HTTP) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	at, err := url.JoinPath(h.Base, url.PathEscape(name))
	if err != nil {
		return nil, 0, nil, fmt.Errorf("http: URL %q: %w", h.Base, err)
	}
	f := &httpFile{h: h, url: at}
	if err := f.open(); err != nil {
		return nil, 0, nil, fmt.Errorf("http: GET %s: %w", at, err)
	}
	return f, f.size, io.NopCloser(nil), nil
}

func (h *HTTP) context() context.Context {
	if h.Context == nil {
		return context.Background()
	}
	return h.Context
}

func (h *HTTP) add(done, total int64) {
	h.mu.Lock()
	h.done += done
	h.total += total
	done, total = h.done, h.total
	h.mu.Unlock()
	if h.Progress != nil {
		h.Progress(done, max(total, 0))
	}
}

// httpFile is one file of a server. It keeps the first and the last block read.
type httpFile struct {
	h    *HTTP
	url  string
	size int64

	mu    sync.Mutex
	whole bool // head is the file
	head  []byte
	last  []byte
	start int64 // of last
}

func (f *httpFile) open() error {
	r, err := fetch(f.h.context(), f.url, fmt.Sprintf("bytes=0-%d", block-1))
	if err != nil {
		return err
	}
	defer func() { r.body.Close() }()
	switch r.status {
	case 206:
		from, to, size, err := parseContentRange(r.contentRange)
		if err == nil && from == 0 && to == min(size, block)-1 {
			f.size, f.whole = size, size <= block
			f.h.add(0, size)
			f.head = make([]byte, to+1)
			return f.fill(f.head, r.body)
		}
		// Another origin may hide Content-Range: only the whole file is sure.
		r.body.Close()
		if r, err = fetch(f.h.context(), f.url, ""); err != nil {
			return err
		}
	case 416: // an empty file has no first byte
		if strings.HasSuffix(r.contentRange, "*/0") {
			f.whole = true
			return nil
		}
	}
	if err := statusError(r.status, 200); err != nil {
		return err
	}
	f.whole = true
	f.h.add(0, max(r.length, 0))
	f.head, err = io.ReadAll(&counted{r.body, f.h})
	f.size = int64(len(f.head))
	return err
}

func statusError(got, want int) error {
	switch {
	case got == want:
		return nil
	case got == 404 || got == 410:
		return fmt.Errorf("got status %d, want %d: %w", got, want, fs.ErrNotExist)
	}
	return fmt.Errorf("got status %d, want %d", got, want)
}

// fill reads exactly len(p) bytes of a body that must end there.
func (f *httpFile) fill(p []byte, body io.Reader) error {
	body = &counted{body, f.h}
	n, err := io.ReadFull(body, p)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("got %d bytes, want %d: %w", n, len(p), io.ErrUnexpectedEOF)
	}
	return err
}

// counted tells h of every byte read.
type counted struct {
	io.Reader
	h *HTTP
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if n > 0 {
		c.h.add(int64(n), 0)
	}
	return n, err
}

// ReadAt implements io.ReaderAt. It may be called from several goroutines.
func (f *httpFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("http: %s: got offset %d, want at least 0", f.url, off)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(p) && off < f.size {
		m, err := f.readSome(p[n:], off)
		if err != nil {
			return n, fmt.Errorf("http: GET %s: %w", f.url, err)
		}
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *httpFile) readSome(p []byte, off int64) (int, error) {
	if off < int64(len(f.head)) {
		return copy(p, f.head[off:]), nil
	}
	if off >= f.start && off < f.start+int64(len(f.last)) {
		return copy(p, f.last[off-f.start:]), nil
	}
	if n := min(int64(len(p)), f.size-off); n >= block {
		return int(n), f.get(p[:n], off)
	}
	buf := make([]byte, min(block, f.size-off))
	if err := f.get(buf, off); err != nil {
		return 0, err
	}
	f.last, f.start = buf, off
	return copy(p, buf), nil
}

func (f *httpFile) get(p []byte, off int64) error {
	end := off + int64(len(p)) - 1
	r, err := fetch(f.h.context(), f.url, fmt.Sprintf("bytes=%d-%d", off, end))
	if err != nil {
		return err
	}
	defer r.body.Close()
	if err := statusError(r.status, 206); err != nil {
		return err
	}
	from, to, size, err := parseContentRange(r.contentRange)
	if err != nil {
		return err
	}
	if from != off || to != end || size != f.size {
		return fmt.Errorf("got bytes %d-%d of %d, want %d-%d of %d: the file changed while it was read", from, to, size, off, end, f.size)
	}
	return f.fill(p, r.body)
}

// parseContentRange reads "bytes FROM-TO/SIZE".
func parseContentRange(s string) (from, to, size int64, err error) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	var errs [3]error
	from, errs[0] = strconv.ParseInt(a, 10, 64)
	to, errs[1] = strconv.ParseInt(b, 10, 64)
	size, errs[2] = strconv.ParseInt(total, 10, 64)
	if !ok || !ok2 || !ok3 || errors.Join(errs[:]...) != nil || from < 0 || to < from || size <= to {
		return 0, 0, 0, fmt.Errorf("got Content-Range %q, want bytes FROM-TO/SIZE", s)
	}
	return from, to, size, nil
}
