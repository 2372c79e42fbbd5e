package explain

import (
	"context"
	"io"
	"sync"
	"time"
)

// interruptible is standard input, which ends when a context does: a read of a pipe or a
// terminal cannot be broken off, so another goroutine does it. After the context has
// ended, what comes within a moment still counts: Ctrl-C also goes to the tcpdump at the
// other end, which then writes what it still has.
type interruptible struct {
	ctx     context.Context
	from    io.Reader
	full    chan chunk
	free    chan []byte
	done    chan struct{}
	begin   func()
	stop    func() // ends the goroutine, once its read has returned
	last    <-chan time.Time
	current chunk
	at      int // in current
}

// moment is how long after the end of the context input still counts.
const moment = time.Second

// chunk is what one read returned.
type chunk struct {
	buf []byte
	n   int
	err error
}

func newInterruptible(ctx context.Context, from io.Reader) *interruptible {
	r := &interruptible{ctx: ctx, from: from, full: make(chan chunk), free: make(chan []byte, 2), done: make(chan struct{})}
	r.begin = sync.OnceFunc(func() {
		const size = 256 << 10
		r.free <- make([]byte, size)
		r.free <- make([]byte, size)
		go r.pump()
	})
	r.stop = sync.OnceFunc(func() { close(r.done) })
	return r
}

func (r *interruptible) pump() {
	for {
		var buf []byte
		select {
		case buf = <-r.free:
		case <-r.done:
			return
		}
		n, err := r.from.Read(buf)
		select {
		case r.full <- chunk{buf, n, err}:
		case <-r.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read implements [io.Reader].
func (r *interruptible) Read(p []byte) (int, error) {
	r.begin()
	for r.at == r.current.n {
		if r.current.err != nil {
			return 0, r.current.err
		}
		r.next()
	}
	n := copy(p, r.current.buf[r.at:r.current.n])
	r.at += n
	return n, nil
}

// next waits for more, or for the end.
func (r *interruptible) next() {
	if r.current.buf != nil {
		r.free <- r.current.buf // there are two, and place for two
	}
	r.current, r.at = chunk{}, 0
	ended := r.ctx.Done()
	if r.last != nil {
		ended = nil
	}
	select {
	case r.current = <-r.full:
	case <-ended:
		r.last = time.After(moment)
	case <-r.last:
		r.current.err = io.EOF
	}
}
