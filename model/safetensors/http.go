package safetensors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	headSize = 4 << 10 // the start of a file, which is read twice: to tell what it is, and its header
	skipMost = 4 << 20 // a stream is read on over a gap of at most this, rather than asked for anew
	openMost = 2       // streams of one HTTP at a time: browsers allow six connections to a server
	resumes  = 5       // times that a file is asked for again after its connection ended early
)

// unknownMost is how many bytes are taken of a file whose size the server does not say: such a file is
// held as a whole, and a server may send for ever.
var unknownMost int64 = 512 << 20

// HTTP is the files below a URL. Each is read as one stream as far as it is read in order, so a file
// needs one request and no second copy; going back or far ahead asks for the rest by a range.
// A server that does not honour ranges starts over. A connection that ends early is taken up again
// where the server honours ranges and gave something. Natively it uses net/http, in a page fetch.
type HTTP struct {
	Context context.Context // ends the requests; nil is never
	Base    string          // URL of the folder
	Keep    bool            // in a page: files may be kept in the browser's cache
	// Progress, when set, is told the bytes that have arrived and the sizes of
	// all files opened so far. A whole download of unknown size reports 0.
	Progress Progress

	mu          sync.Mutex
	done, total int64
	streams     []*httpFile // with an open body, the one used last at the end
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
	f := &httpFile{h: h, url: at, size: -1}
	f.mu.Lock()
	err = f.begin()
	f.mu.Unlock()
	if err != nil {
		f.Close()
		return nil, 0, nil, fmt.Errorf("http: GET %s: %w", at, err)
	}
	return f, f.size, f, nil
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

// use counts f's stream among the open ones and closes the one that was used longest ago.
func (h *HTTP) use(f *httpFile) {
	h.mu.Lock()
	h.streams = append(slices.DeleteFunc(h.streams, func(o *httpFile) bool { return o == f }), f)
	var old *httpFile
	if len(h.streams) > openMost {
		old, h.streams = h.streams[0], h.streams[1:]
	}
	h.mu.Unlock()
	if old != nil && old.mu.TryLock() { // one that is being read may go on
		old.stop()
		old.mu.Unlock()
	}
}

func (h *HTTP) forget(f *httpFile) {
	h.mu.Lock()
	h.streams = slices.DeleteFunc(h.streams, func(o *httpFile) bool { return o == f })
	h.mu.Unlock()
}

// httpFile is one file of a server, and the stream that reads it.
type httpFile struct {
	h    *HTTP
	url  string
	size int64 // -1 before it is known

	mu      sync.Mutex
	ranges  bool   // the server honours them
	all     []byte // the whole file, of a server that does not say how long it is
	head    []byte // the first bytes
	body    io.ReadCloser
	pos     int64 // of body
	resumed int
}

// begin asks for the file and reads its first bytes.
func (f *httpFile) begin() error {
	if err := f.ask(0); err != nil {
		return err
	}
	f.h.add(0, max(f.size, 0))
	if f.size < 0 { // compressed on the way, or sent in pieces
		var err error
		f.all, err = io.ReadAll(io.LimitReader(f.counted(), unknownMost+1))
		f.stop()
		f.size = int64(len(f.all))
		if err != nil {
			return err
		}
		if f.size > unknownMost {
			f.all = nil
			return fmt.Errorf("got more than %d bytes from a server that does not say how many there are, want a Content-Length", unknownMost)
		}
		f.h.add(0, f.size)
		return nil
	}
	f.head = make([]byte, min(f.size, headSize))
	return f.fill(f.head)
}

// ask opens the stream at off, or at 0 where the server has no ranges.
func (f *httpFile) ask(off int64) error {
	f.stop()
	f.pos = 0
	if f.size < 0 || f.ranges {
		r, err := fetch(f.h.context(), f.url, fmt.Sprintf("bytes=%d-", off), f.h.Keep)
		if err != nil {
			return err
		}
		if r.status == 416 && f.size < 0 && strings.HasSuffix(r.contentRange, "*/0") { // an empty file has no first byte
			f.size = 0
			return r.body.Close()
		}
		if r.status == 206 {
			from, to, size, err := parseContentRange(r.contentRange)
			if err == nil && from == off && to == size-1 && (f.size < 0 || f.size == size) {
				f.size, f.ranges, f.pos = size, true, off
				f.open(r.body)
				return nil
			}
			r.body.Close()
			if f.size >= 0 {
				if err == nil {
					err = fmt.Errorf("got bytes %d-%d of %d, want %d-%d of %d: the file changed while it was read", from, to, size, off, f.size-1, f.size)
				}
				return err
			}
			// Another origin may hide Content-Range: only the whole file is sure.
		} else {
			if f.size >= 0 {
				r.body.Close()
				return statusError(r.status, 206)
			}
			return f.whole(r)
		}
	}
	r, err := fetch(f.h.context(), f.url, "", f.h.Keep)
	if err != nil {
		return err
	}
	return f.whole(r)
}

// whole takes a response that holds the file from its start.
func (f *httpFile) whole(r *response) error {
	if err := statusError(r.status, 200); err != nil {
		r.body.Close()
		return err
	}
	if f.size >= 0 && r.length >= 0 && r.length != f.size {
		r.body.Close()
		return fmt.Errorf("got %d bytes, want %d: the file changed while it was read", r.length, f.size)
	}
	if f.size < 0 {
		f.size = r.length
	}
	f.open(r.body)
	return nil
}

func (f *httpFile) open(body io.ReadCloser) {
	f.body = body
	f.h.use(f)
}

// stop ends the stream.
func (f *httpFile) stop() {
	if f.body != nil {
		f.body.Close()
		f.body = nil
	}
}

// Close ends the stream, if one is open.
func (f *httpFile) Close() error {
	f.h.forget(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.all, f.head = nil, nil
	return nil
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

// fill reads exactly len(p) bytes from the stream on, over connections that end early.
func (f *httpFile) fill(p []byte) error {
	for n := 0; n < len(p); {
		from := f.pos
		m, err := io.ReadFull(f.counted(), p[n:])
		n += m
		f.pos += int64(m)
		if n == len(p) {
			f.finish()
			return nil
		}
		if ctxErr := f.h.context().Err(); ctxErr != nil {
			return ctxErr
		}
		at := f.pos
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if !f.ranges || f.resumed == resumes || at == from && f.resumed > 0 {
			return fmt.Errorf("the connection ended after %d of %d bytes (%d %%), want all: load it again: %w", at, f.size, 100*at/f.size, err)
		}
		f.resumed++
		if again := f.ask(at); again != nil {
			return fmt.Errorf("the connection ended after %d of %d bytes (%d %%): %w; asking for the rest: %w", at, f.size, 100*at/f.size, err, again)
		}
	}
	return nil
}

// finish takes the end of a stream that was read whole, so that the connection can serve again.
func (f *httpFile) finish() {
	if f.pos == f.size {
		var end [1]byte
		f.body.Read(end[:])
		f.stop()
	}
}

func (f *httpFile) counted() io.Reader { return &counted{f.body, f.h} }

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
	for _, held := range [][]byte{f.all, f.head} {
		if off < int64(len(held)) {
			m := copy(p[n:], held[off:])
			n, off = n+m, off+int64(m)
		}
	}
	if want := min(int64(len(p)-n), f.size-off); want > 0 && f.all == nil {
		err := f.seek(off)
		if err == nil {
			err = f.fill(p[n:][:want])
		}
		if err != nil {
			return n, fmt.Errorf("http: GET %s: %w", f.url, err)
		}
		n += int(want)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// seek brings the stream to off.
func (f *httpFile) seek(off int64) error {
	if f.body == nil || off < f.pos || off-f.pos > skipMost && f.ranges {
		from := off
		if off <= skipMost && f.h.Keep {
			from = 0 // a file is kept if it is read from its start
		}
		if err := f.ask(from); err != nil {
			return err
		}
	}
	if f.pos == off {
		return nil
	}
	skip := make([]byte, min(off-f.pos, 64<<10))
	for f.pos < off {
		if err := f.fill(skip[:min(off-f.pos, int64(len(skip)))]); err != nil {
			return err
		}
	}
	return nil
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
