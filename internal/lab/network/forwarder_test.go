package network

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
)

func TestCarryDropsWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	closed := &net.OpError{Op: "read", Err: net.ErrClosed}
	refused := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		end, want error
	}{
		"a socket that is closed": {closed, nil},
		"a device that is closed": {&os.PathError{Op: "read", Path: "tun", Err: os.ErrClosed}, nil},
		"trouble":                 {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
	} {
		steps := []any{"one", refused, "two", "three", c.end}
		read := func(b []byte) (int, error) {
			step := steps[0]
			steps = steps[1:]
			if err, ok := step.(error); ok {
				return 0, err
			}
			return copy(b, step.(string)), nil
		}
		var written []string
		write := func(b []byte) (int, error) {
			written = append(written, string(b))
			if len(written) == 2 {
				return 0, syscall.ENOBUFS
			}
			return len(b), nil
		}
		if err := carry(write, read); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if !slices.Equal(written, []string{"one", "two", "three"}) {
			t.Errorf("%s: it wrote %q", name, written)
		}
	}
}
