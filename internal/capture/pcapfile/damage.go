package pcapfile

import (
	"errors"
	"fmt"
	"io"
)

// broken says where and why a file can be read no further.
type broken struct {
	offset int64 // in the decompressed stream
	what   string
	cause  error // of the reading itself; nil if the content is at fault
}

func (b *broken) Error() string {
	text := fmt.Sprintf("at byte %d: %s", b.offset, b.what)
	if b.cause != nil {
		text += ": " + b.cause.Error()
	}
	return text
}

func (b *broken) Unwrap() error { return b.cause }

// breakOff is the end of a stream inside of something.
func breakOff(w *window, what string, have, want int, err error) error {
	b := &broken{offset: w.offset}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		b.what = fmt.Sprintf("the file ends within %s, after %d of its %d bytes", what, have, want)
	} else {
		b.what, b.cause = fmt.Sprintf("reading %s failed after %d of its %d bytes", what, have, want), err
	}
	return b
}
