package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockedFor is how long another run may write to the file before we give up. It takes
	// a fraction of a second.
	lockedFor = 10 * time.Second
	lockAgain = 10 * time.Millisecond
)

// Writable finds out whether a file can be appended to, and makes it if it is not there.
func Writable(path string) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Append adds a run to the file as one line, and returns when it is on the disk. If that
// fails, a full disk among others, the file is as it was before.
func Append[T Kept](ctx context.Context, path string, kept *T) error {
	b, err := line(entry(kept))
	if err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(ctx, f); err != nil {
		return fmt.Errorf("the history %s cannot be written to: %w", path, err)
	}
	if err := add(f, b); err != nil {
		return fmt.Errorf("this run is not in the history %s, which is as it was: %w", path, err)
	}
	return nil
}

func open(path string) (*os.File, error) {
	// Without O_NONBLOCK a named pipe would keep us until somebody reads it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file")
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the history cannot be written to %s: %w; name another file with --history", path, err)
	}
	return f, nil
}

// lock waits until no other run writes. The lock ends with the file.
func lock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, lockedFor)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("locking it: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another program has it locked: %w", ctx.Err())
		case <-time.After(lockAgain):
		}
	}
}

// add writes a line in one piece, or takes back what was written of it.
func add(f *os.File, b []byte) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	torn, err := endsTorn(f, size)
	if err != nil {
		return err
	}
	if torn {
		b = append([]byte{'\n'}, b...)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		return nil
	}
	if back := f.Truncate(size); back != nil {
		return fmt.Errorf("%w; nor could the half line be taken back: %w (reading leaves it out)", err, back)
	}
	return errors.Join(err, f.Sync())
}

// endsTorn tells whether the last line has no end: its writer was stopped.
func endsTorn(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil {
		return false, fmt.Errorf("reading its end: %w", err)
	}
	return last[0] != '\n', nil
}
