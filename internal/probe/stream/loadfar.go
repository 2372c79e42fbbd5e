package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// spare is how many connections of probes a far end serves at once, beside those with load.
const spare = 64

// host is the far end of a responsiveness trial.
type host struct {
	*end
	crew *crew
	span span // from the first connection with load on
	over chan struct{}
	// ending guards over, which is closed when the near end is done.
	ending sync.Once
	places chan struct{} // one for each connection that may be open

	mu      sync.Mutex
	tallies []*tally
	loaded  atomic.Int64 // connections with load
}

// carry is the far end of responsiveness.
func (e *end) carry(in probe.Arrivals) (outcome, error) {
	h := &host{
		end: e, crew: newCrew(e.cpu, e.group.Shutdown), over: make(chan struct{}),
		places: make(chan struct{}, 2*e.spec.Streams+spare),
	}
	var serving sync.WaitGroup
	err := h.admit(in, &serving)
	e.group.Shutdown()
	serving.Wait()
	usage, _ := h.crew.wait() // what failed is in err; the rest was shut down
	return outcome{side: side(h.tallies, usage)}, err
}

// admit takes connections until the near end is done, or the trial cannot go on.
func (h *host) admit(in probe.Arrivals, serving *sync.WaitGroup) error {
	for {
		select {
		case conn, ok := <-in.Streams:
			if !ok {
				return h.broken(errGone, h.now())
			}
			select {
			case h.places <- struct{}{}:
				serving.Go(func() {
					h.serve(conn)
					<-h.places
				})
			default:
				_ = conn.Close() // there are too many: it is the near end's to count
			}
		case <-h.over:
			return nil
		case <-h.crew.failed:
			return h.crew.failure()
		case <-h.ctx.Done():
			return h.broken(context.Cause(h.ctx), h.now())
		}
	}
}

// serve does what a connection is for.
func (h *host) serve(conn *net.TCPConn) {
	fd, err := h.take(conn)
	if fd < 0 {
		return
	}
	defer h.group.Drop(fd)
	var kind [1]byte
	if err != nil {
		return
	}
	if _, err := socket.ReadFull(fd, kind[:]); err != nil {
		return
	}
	switch kind[0] {
	case kindQuestion:
		// One that cannot be answered is the near end's to count.
		_, _ = socket.Write(fd, kind[:])
	case kindOver:
		h.ending.Do(func() { close(h.over) })
	case kindIn, kindOut:
		if h.loaded.Add(1) > int64(2*h.spec.Streams) {
			return
		}
		h.crew.run(func() error { return h.bear(fd, kind[0]) })
	}
}

// bear is one connection's load.
func (h *host) bear(fd int, kind byte) error {
	t := newTally(h.spec.Duration)
	h.mu.Lock()
	if len(h.tallies) == 0 {
		h.span.open(h.now(), h.spec.Duration)
	}
	h.tallies = append(h.tallies, t)
	h.mu.Unlock()
	defer t.explain(fd)
	var err error
	if kind == kindIn {
		err = h.write(fd, t)
	} else {
		err = h.read(fd, t)
	}
	select {
	case <-h.over:
		return nil
	default:
		return h.broken(err, h.now())
	}
}

// write sends load, with the marks of the probes that were asked.
func (h *host) write(fd int, t *tally) error {
	if err := socket.LimitUnsent(fd, unsent); err != nil {
		return err
	}
	frame := payload(frameBytes(h.spec.MessageBytes))
	var asked [headerBytes]byte
	got := 0
	for {
		mark(frame, 0)
		n, err := socket.TryRead(fd, asked[got:])
		got += n
		switch {
		case got == headerBytes:
			copy(frame, asked[:])
			got = 0
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		n, err = socket.Write(fd, frame)
		h.put(t, n, &t.sentBytes)
		if err != nil {
			return err
		}
	}
}

// read takes load, and answers the probes in it.
func (h *host) read(fd int, t *tally) error {
	buf := make([]byte, leastBuffer)
	m := marks{length: frameBytes(h.spec.MessageBytes)}
	var answer [headerBytes]byte
	for {
		n, err := socket.Read(fd, buf)
		if at, ok := h.put(t, n, &t.receivedBytes); ok {
			t.bin(at, n)
		}
		for v, rest, ok := m.next(buf[:n]); ok && err == nil; v, rest, ok = m.next(rest) {
			binary.LittleEndian.PutUint64(answer[:], uint64(v))
			_, err = socket.Write(fd, answer[:])
		}
		if err != nil {
			return err
		}
	}
}

// put counts bytes that have just gone, if this is the time.
func (h *host) put(t *tally, n int, counter *int64) (time.Duration, bool) {
	h.spend(t, n)
	at, ok := h.span.at(h.now())
	if ok {
		*counter += int64(n)
		t.elapsed = at
	}
	return at, ok
}
