package explain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestInterruptibleReadsAll(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)), "with the end": iotest.DataErrReader(bytes.NewReader(want)),
	} {
		r := newInterruptible(t.Context(), from)
		got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 100)))
		rest, restErr := io.ReadAll(r)
		if err := errors.Join(err, restErr); err != nil || !bytes.Equal(append(got, rest...), want) {
			t.Errorf("%s: %d bytes, %v", name, len(got)+len(rest), err)
		}
		r.stop()
	}
}

func TestInterruptibleTellsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := newInterruptible(t.Context(), iotest.ErrReader(broken))
	defer r.stop()
	for range 2 {
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}

// The end of the context ends a read that waits, a moment later.
func TestInterruptibleEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		from, to := io.Pipe()
		r := newInterruptible(ctx, from)
		go func() {
			_, _ = to.Write([]byte("before "))
			cancel()
			time.Sleep(moment / 2)
			_, _ = to.Write([]byte("and after"))
		}()
		began := time.Now()
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "before and after" {
			t.Errorf("read %q, %v", got, err)
		}
		if took := time.Since(began); took != moment {
			t.Errorf("it ended after %s, want %s", took, moment)
		}
		r.stop()
		to.Close() // ends the goroutine's read; synctest fails if it stays
	})
}
