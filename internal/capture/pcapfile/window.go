package pcapfile

import (
	"errors"
	"io"
)

const (
	// windowSize is how much is asked of a file at once. It fits into a core's cache.
	windowSize = 256 << 10
	// maxWindow bounds a window: the largest block that is looked at as a whole.
	maxWindow = 16 << 20
	// emptyReads is how often a reader may return nothing before it counts as broken.
	emptyReads = 100
)

// window is a part of a stream, in which packets are looked at without copying them.
type window struct {
	r          io.Reader
	buf        []byte
	start, end int
	// offset is the position of buf[start] in the (decompressed) stream.
	offset int64
	err    error // from r; sticky
}

func newWindow(r io.Reader) *window {
	return &window{r: r, buf: make([]byte, windowSize)}
}

// peek returns the next n bytes without consuming them, valid until the next call. At
// the end of the stream it returns those that are left, and io.EOF if there are none or
// io.ErrUnexpectedEOF; n is at most maxWindow.
func (w *window) peek(n int) ([]byte, error) {
	if w.end-w.start >= n {
		return w.buf[w.start : w.start+n], nil
	}
	return w.fill(n)
}

func (w *window) fill(n int) ([]byte, error) {
	w.room(n)
	for empty := 0; w.end-w.start < n && w.err == nil; {
		var k int
		k, w.err = w.r.Read(w.buf[w.end:])
		w.end += k
		if k > 0 {
			empty = 0
		} else if empty++; empty == emptyReads && w.err == nil {
			w.err = io.ErrNoProgress
		}
	}
	have := w.buf[w.start:w.end]
	switch {
	case len(have) >= n:
		return have[:n], nil
	case !errors.Is(w.err, io.EOF):
		return have, w.err
	case len(have) == 0:
		return nil, io.EOF
	}
	return have, io.ErrUnexpectedEOF
}

// room makes the buffer hold n bytes from start on.
func (w *window) room(n int) {
	if w.start == w.end {
		w.start, w.end = 0, 0
	}
	if w.start+n <= len(w.buf) {
		return
	}
	to := w.buf
	if n > len(w.buf) {
		to = make([]byte, n)
	}
	w.end = copy(to, w.buf[w.start:w.end])
	w.buf, w.start = to, 0
}

// skip consumes n bytes that were peeked.
func (w *window) skip(n int) {
	w.start += n
	w.offset += int64(n)
}

// discard consumes n bytes, peeked or not, of any number.
func (w *window) discard(n int64) error {
	for n > 0 {
		part := int(min(n, windowSize))
		if _, err := w.peek(part); err != nil {
			return err
		}
		w.skip(part)
		n -= int64(part)
	}
	return nil
}
