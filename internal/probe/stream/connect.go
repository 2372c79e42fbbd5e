package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// The first byte of a conn message, or of a connection in a responsiveness trial.
const (
	kindQuestion = 'q' // to be answered
	kindOver     = 'x' // the near end is done
	kindOut      = 'o' // carries load to the far end
	kindIn       = 'i' // carries load to the near end
)

// failures is how many connections in a row may go wrong before a conn trial is given up.
const failures = 10

// errNoPort is told with its cure: the near end resets its connections, but those of
// others may wait.
var errNoPort = errors.New("no local port is free to connect from: see ss -s, and widen net.ipv4.ip_local_port_range")

// caller is one thread of the near end of conn. Options of the socket are set before the
// clock is read, and closing comes after the answer, so that neither is in the figures:
// a round trip is connecting, asking and being answered. In an open loop, all of it
// counts from when the connection was meant to be opened.
type caller struct {
	*end
	line     probe.Line
	peer     unix.Sockaddr
	question []byte
	buf      []byte
	rtt      *probe.Distribution
	connect  *probe.Distribution
	tally    *tally
}

// newCaller asks questions of so many bytes, for answers of so many.
func (e *end) newCaller(line probe.Line, asked, answered int) *caller {
	question := payload(asked)
	question[0] = kindQuestion
	return &caller{
		end: e, line: line, peer: socket.Address(line.Peer), // not shared: calls to the kernel write to it
		question: append(append([]byte(nil), line.Hello...), question...), buf: buffer(answered),
		rtt: probe.NewDistribution(), connect: probe.NewDistribution(), tally: newTally(0),
	}
}

// timing is when the steps of one connection were done.
type timing struct{ began, connected, answered time.Time }

// call opens a connection, asks for an answer of n bytes, and resets the connection.
func (c *caller) call(n int) (timing, error) {
	var t timing
	fd, err := socket.New("tcp", c.line.Peer, c.line.Local)
	if err != nil {
		return t, err
	}
	c.group.Add(fd)
	defer c.group.Drop(fd)
	if err := errors.Join(socket.SetTimeouts(fd, patience), socket.ResetOnClose(fd)); err != nil {
		return t, err
	}
	t.began = time.Now()
	if err := socket.Connect(fd, c.peer); err != nil {
		return t, err
	}
	t.connected = time.Now()
	if _, err := socket.Write(fd, c.question); err != nil {
		return t, err
	}
	if err := c.message(fd, c.buf, n, true); err != nil {
		return t, err
	}
	t.answered = time.Now()
	return t, nil
}

// connectAll is the near end of conn.
func (e *end) connectAll(line probe.Line) (outcome, error) {
	callers := make([]*caller, e.spec.Streams)
	for i := range callers {
		callers[i] = e.newCaller(line, e.spec.MessageBytes, e.spec.ReplyBytes)
	}
	s := e.schedule()
	var next atomic.Int64
	usage, err := e.threads(len(callers), func(i int) error { return callers[i].run(s, &next) })
	e.over(line)
	got := outcome{rtt: probe.NewDistribution(), connect: probe.NewDistribution()}
	var all []*tally
	for _, c := range callers {
		countBytes(c.tally, e.spec.MessageBytes, e.spec.ReplyBytes)
		all = append(all, c.tally)
		got.rtt.Add(c.rtt)
		got.connect.Add(c.connect)
	}
	got.side = side(all, usage)
	got.unanswered = got.side.Sent - got.side.Received
	if e.spec.RatePerS > 0 {
		got.unanswered = s.due(time.Now()) - got.side.Received
	}
	if got.side.Received == 0 && err != nil {
		err = fmt.Errorf("no connection to %s was answered: %v", line.Peer, err)
	}
	return got, err
}

// run makes connections one after another until the trial is over, or whichever of the
// schedule's is next.
func (c *caller) run(s schedule, next *atomic.Int64) error {
	undo, err := socket.Punctual()
	if err != nil {
		return err
	}
	defer undo()
	failed := 0
	for {
		meant := time.Now()
		if c.spec.RatePerS > 0 {
			k := next.Add(1) - 1
			if k >= s.total {
				return nil
			}
			meant = s.at(k)
			if err := socket.Until(c.ctx, meant); err != nil {
				return c.broken(err, time.Since(s.start))
			}
			if time.Since(s.start) > c.spec.Duration+settling {
				return c.unanswered(errLate, time.Since(s.start))
			}
		} else if meant.Sub(s.start) >= c.spec.Duration {
			return nil
		}
		if failed, err = c.count(meant, s.start, failed); err != nil {
			return err
		}
	}
}

// count makes one connection and counts it. It fails if that makes no sense any more.
func (c *caller) count(meant, start time.Time, failed int) (int, error) {
	c.tally.sent++
	t, err := c.call(c.spec.ReplyBytes)
	if err == nil {
		if c.spec.RatePerS == 0 {
			meant = t.began
		}
		c.connect.Record(t.connected.Sub(t.began))
		c.rtt.Record(t.answered.Sub(meant))
		c.tally.received++
		c.tally.elapsed = t.answered.Sub(start)
		return 0, nil
	}
	failed++
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		err = errNoPort
	case failed < failures && c.ctx.Err() == nil:
		return failed, nil
	}
	return failed, c.broken(err, time.Since(start))
}

// over tells the far end that no more connections come, and waits a moment for it to
// take notice. Without, it ends by itself, later.
func (e *end) over(line probe.Line) {
	limit := settling
	if e.ctx.Err() != nil {
		limit = goodbye
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), limit)
	defer cancel()
	fd, err := socket.Dial(ctx, "tcp", line.Peer, line.Local)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }() // nothing can be done about it
	last := append(append([]byte(nil), line.Hello...), kindOver)
	if socket.SetTimeouts(fd, limit) != nil {
		return
	}
	if _, err := socket.Write(fd, last); err == nil {
		_, _ = socket.Read(fd, last) // the far end closes
	}
}

// goodbye is how long ending a trial in order may take that was given up.
const goodbye = 100 * time.Millisecond

// acceptAll is the far end of conn.
func (e *end) acceptAll(in probe.Arrivals) (outcome, error) {
	all := tallies(e.spec.Streams, 0)
	a := &acceptor{end: e, in: in, over: make(chan struct{})}
	a.latest.Store(int64(e.now()))
	usage, err := e.threads(len(all), func(i int) error { return a.run(all[i]) })
	for _, t := range all {
		countBytes(t, e.spec.ReplyBytes, e.spec.MessageBytes)
	}
	return outcome{side: side(all, usage)}, err
}

// acceptor is what the threads of conn's far end share.
type acceptor struct {
	*end
	in     probe.Arrivals
	latest atomic.Int64 // when a connection last came, ns since the end's base
	ending sync.Once
	over   chan struct{} // closed when the near end is done
}

// run answers connections until the near end is done.
func (a *acceptor) run(t *tally) error {
	reply, buf := payload(a.spec.ReplyBytes), buffer(a.spec.MessageBytes)
	silent := time.NewTimer(a.quiet)
	defer silent.Stop()
	for {
		select {
		case conn, ok := <-a.in.Streams:
			if !ok {
				return a.broken(errGone, a.now())
			}
			a.latest.Store(int64(a.now()))
			a.serve(conn, reply, buf, t)
		case <-a.over:
			return nil
		case <-silent.C:
			left := a.quiet - (a.now() - time.Duration(a.latest.Load()))
			if left <= 0 {
				return a.broken(fmt.Errorf("no connection came for %v", a.quiet), a.now())
			}
			silent.Reset(left)
		case <-a.ctx.Done():
			return a.broken(context.Cause(a.ctx), a.now())
		}
	}
}

// serve answers one connection. One that goes wrong is the near end's to count.
func (a *acceptor) serve(conn *net.TCPConn, reply, buf []byte, t *tally) {
	defer func() { _ = conn.Close() }() // the descriptor was the connection
	fd, err := socket.FD(conn)
	if err != nil {
		return
	}
	defer a.group.Drop(fd)
	if a.own(fd) != nil {
		return
	}
	n, err := a.read(fd, buf)
	if err != nil {
		return
	}
	if buf[0] == kindOver {
		a.ending.Do(func() { close(a.over) })
		return
	}
	if err := a.message(fd, buf, a.spec.MessageBytes-n, false); err != nil {
		return
	}
	t.received++
	if _, err := socket.Write(fd, reply); err == nil {
		t.sent++
	}
	a.spend(t, a.spec.MessageBytes+a.spec.ReplyBytes)
	t.elapsed = a.now()
}
