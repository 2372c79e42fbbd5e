package pcapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"taper.dev/taper/internal/capture"
)

// maxZstdWindow is how far back a zstd stream may refer: what `zstd --long` uses.
const maxZstdWindow = 128 << 20

// stream is one file's packets.
type stream struct {
	format format
	packed bool // compressed
	// closers end decompression and close the file.
	closers []func() error
	// ahead is the first packet, read to know its time; err is what reading it returned.
	ahead   capture.Packet
	err     error
	isAhead bool
}

// format reads packets of a format.
type format interface {
	// next reads a packet, whose Number is that within the file. Its error is io.EOF or a
	// *broken.
	next(*capture.Packet) error
	// numbered is how many numbers were given so far.
	numbered() uint64
}

// counter counts what is read of a file, or of all.
type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// errEmpty is a file without a byte.
var errEmpty = errors.New("is empty")

// newStream finds out what r holds.
func newStream(r io.Reader, shared *shared, read *atomic.Int64) (*stream, error) {
	s := &stream{}
	if err := s.detect(newWindow(counter{r, read}), shared); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stream) detect(w *window, shared *shared) error {
	magic, err := begin(w)
	if err != nil {
		return err
	}
	plain, err := s.decompress(magic, w)
	if err != nil {
		return err
	}
	if plain != nil {
		s.packed = true
		w = newWindow(plain)
		if magic, err = begin(w); err != nil {
			return fmt.Errorf("cannot be decompressed into a capture: what is in it %w", err)
		}
	}
	s.format, err = newFormat(magic, w, shared)
	return err
}

// begin peeks at the bytes that tell formats apart.
func begin(w *window) ([]byte, error) {
	magic, err := w.peek(4)
	switch {
	case err == io.EOF:
		return nil, errEmpty
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("has %d bytes, which is too short for a capture", len(magic))
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return magic, nil
}

func newFormat(magic []byte, w *window, shared *shared) (format, error) {
	switch {
	case isPcap(magic):
		return newPcapStream(w)
	case order{}.uint32(magic) == blockSection:
		return newNgStream(w, shared)
	}
	return nil, notCapture(w.buf[w.start:w.end])
}

// decompress returns nil if there is nothing to do.
func (s *stream) decompress(magic []byte, w *window) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(&windowReader{w})
		if err != nil {
			return nil, fmt.Errorf("begins as gzip does, but: %w", err)
		}
		return z, nil // closing it would tell of reading's errors again
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(&windowReader{w}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, fmt.Errorf("begins as zstd does, but: %w", err)
		}
		s.closers = append(s.closers, func() error { z.Close(); return nil })
		return z, nil
	}
	return nil, nil
}

// windowReader reads a window's bytes.
type windowReader struct{ w *window }

func (r *windowReader) Read(b []byte) (int, error) {
	if _, err := r.w.peek(1); err != nil {
		return 0, err
	}
	n := copy(b, r.w.buf[r.w.start:r.w.end])
	r.w.skip(n)
	return n, nil
}

// ReadByte lets gzip read no further than its member.
func (r *windowReader) ReadByte() (byte, error) {
	have, err := r.w.peek(1)
	if err != nil {
		return 0, err
	}
	c := have[0]
	r.w.skip(1)
	return c, nil
}

// first reads the first packet, to know its time; next returns it once more.
func (s *stream) first() capture.Time {
	s.err = s.format.next(&s.ahead)
	s.isAhead = true
	if s.err != nil {
		return 0
	}
	return s.ahead.Time
}

func (s *stream) next(p *capture.Packet) error {
	if s.isAhead {
		s.isAhead = false
		*p = s.ahead
		return s.err
	}
	return s.format.next(p)
}

// skipped is how many blocks were passed over, and why the first was.
func (s *stream) skipped() (uint64, *broken) {
	if ng, ok := s.format.(*ngStream); ok {
		return ng.bad.count, ng.bad.first
	}
	return 0, nil
}

func (s *stream) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}
