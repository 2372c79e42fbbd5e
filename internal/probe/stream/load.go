package stream

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// unsent is what a loaded connection has waiting in its own machine at most, as the draft
// asks for: else that would be what is measured, and not the network.
const unsent = 128 << 10

// errMark is a peer that answers what was never asked.
var errMark = errors.New("the peer answered a probe that was never sent")

// carrier is the near end of one connection that carries load, and of the probes within it.
type carrier struct {
	*end
	fd int
	// wanted is the mark of a probe to be sent with the next frame; asked that of the one
	// under way. A mark is the time of asking, ns since the end's base; 0 is none.
	wanted, asked atomic.Int64
	// moved counts bytes for those who watch, the tally those within the span.
	moved    atomic.Int64
	span     *span
	tally    *tally
	rtt      *probe.Distribution
	outgoing bool
}

// span is the time in which load is counted, ns since the base of an end.
type span struct{ from, to atomic.Int64 } // ns; 0 for not yet

// open begins the span now, for that long.
func (s *span) open(now, length time.Duration) {
	s.to.Store(int64(now + length))
	s.from.Store(int64(now))
}

// at is the time within the span; false if that is not the time.
func (s *span) at(now time.Duration) (time.Duration, bool) {
	from := time.Duration(s.from.Load())
	return now - from, from > 0 && now >= from && now < time.Duration(s.to.Load())
}

// put counts bytes that have just gone, if this is the time.
func (c *carrier) put(n int) {
	c.moved.Add(int64(n))
	at, ok := c.span.at(c.now())
	switch {
	case !ok:
		return
	case c.outgoing:
		c.tally.sentBytes += int64(n)
	default:
		c.tally.receivedBytes += int64(n)
		c.tally.bin(at, n)
	}
	c.tally.elapsed = at
}

// ask has a probe sent within the load, unless one is under way.
func (c *carrier) ask() error {
	now := int64(c.now())
	if !c.asked.CompareAndSwap(0, now) {
		return nil
	}
	if c.outgoing {
		c.wanted.Store(now)
		return nil
	}
	var b [headerBytes]byte
	mark(b[:], now)
	_, err := socket.Write(c.fd, b[:])
	return err
}

// answered takes the answer to the probe under way.
func (c *carrier) answered(m int64) error {
	if !c.asked.CompareAndSwap(m, 0) {
		return errMark
	}
	// Probes of the time before are not of working conditions.
	if _, ok := c.span.at(time.Duration(m)); ok {
		c.rtt.Record(c.now() - time.Duration(m))
	}
	return nil
}

// write sends load, with marks where probes are wanted.
func (c *carrier) write() error {
	frame := payload(frameBytes(c.spec.MessageBytes))
	for {
		mark(frame, c.wanted.Swap(0))
		n, err := socket.Write(c.fd, frame)
		c.put(n)
		if err != nil {
			c.tally.explain(c.fd)
			return c.broken(err, c.now())
		}
	}
}

// readAnswers takes answers that are all that comes back on a connection.
func (c *carrier) readAnswers() error {
	var b [headerBytes]byte
	for {
		n, err := socket.ReadFull(c.fd, b[:])
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // others were asked
		}
		if err == nil {
			err = c.answered(int64(binary.LittleEndian.Uint64(b[:])))
		}
		if err != nil {
			return c.broken(err, c.now())
		}
	}
}

// read takes load, and the answers in it.
func (c *carrier) read() error {
	buf := make([]byte, leastBuffer)
	m := marks{length: frameBytes(c.spec.MessageBytes)}
	for {
		n, err := socket.Read(c.fd, buf)
		c.put(n)
		for v, rest, ok := m.next(buf[:n]); ok; v, rest, ok = m.next(rest) {
			err = errors.Join(err, c.answered(v))
		}
		if err != nil {
			c.tally.explain(c.fd)
			return c.broken(err, c.now())
		}
	}
}
