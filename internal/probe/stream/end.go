package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// patience is for how long a peer may be silent at least, and a connection take to open.
// Tests have less.
var patience = 5 * time.Second

// settling is how long answers are waited for when the last message should have been sent.
const settling = 2 * time.Second

// errOverdue ends a trial whose peer does not end it.
var errOverdue = errors.New("the trial took much longer than it should have")

// end is one end of a trial.
type end struct {
	ctx    context.Context
	cancel context.CancelFunc
	// enough ends the trial when a stream has carried its share of what that may.
	enough context.CancelCauseFunc
	share  int64
	spec   probe.Spec
	cpu    *int
	// group has all sockets: they are shut down when ctx ends.
	group *socket.Group
	// quiet is for how long a peer may be silent.
	quiet time.Duration
	// silent is set if the peer was, for as long as quiet.
	silent atomic.Bool
	// base is what times within the trial count from.
	base time.Time
	// began is when this end knew that all connections were there.
	began time.Duration
}

// newEnd begins one end of a trial, on that CPU if one is given. It needs close.
func newEnd(ctx context.Context, spec probe.Spec, cpu *int) *end {
	ctx, enough := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Duration+2*patience, errOverdue)
	return &end{
		ctx: ctx, cancel: cancel, enough: enough, share: spec.Share(), spec: spec, cpu: cpu, quiet: quiet(spec),
		group: socket.NewGroup(ctx), base: time.Now(),
	}
}

// quiet is longer where messages are seldom.
func quiet(spec probe.Spec) time.Duration {
	if spec.RatePerS <= 0 {
		return patience
	}
	between := float64(spec.Streams) / spec.RatePerS
	return patience + time.Duration(min(between, spec.Duration.Seconds())*float64(time.Second))
}

func (e *end) close() {
	e.cancel()
	e.enough(nil)
	e.group.Close()
}

// spend notes that a stream has carried so many bytes, of those that the trial may.
func (e *end) spend(t *tally, n int) {
	if t.carried += int64(n); t.carried >= e.share {
		e.enough(probe.ErrEnough)
	}
}

// now is the time since the trial began here.
func (e *end) now() time.Duration { return time.Since(e.base) }

// own makes a socket the trial's, with the timeouts of one, and without delays where
// latency is measured. For bandwidth it is left as the tools leave it.
func (e *end) own(fd int) error {
	e.group.Add(fd)
	err := socket.SetTimeouts(fd, e.quiet)
	if e.spec.Test != probe.TCPBandwidth {
		err = errors.Join(err, socket.NoDelay(fd))
	}
	return err
}

// watch has the streams of a trial that is about to begin watched for silence, instead of
// with timeouts, which would cost some percent of a round trip. It must be told which
// streams only send.
func (e *end) watch(fds []int, sends bool) (stop func(), err error) {
	for _, fd := range fds {
		err = errors.Join(err, socket.SetTimeouts(fd, 0))
	}
	return e.group.Watch(e.quiet, sends, func() { e.silent.Store(true) }), err
}

// read reads what is there, waiting as the trial's mode says.
func (e *end) read(fd int, b []byte) (int, error) {
	if e.spec.Mode == probe.Hot {
		return socket.Spin(fd, b, e.quiet)
	}
	return socket.Read(fd, b)
}

// errTooMuch is a peer that does not keep to the test.
var errTooMuch = errors.New("the peer sent more than it was asked for")

// message reads n bytes through a buffer and throws them away. With alone, nothing may
// come behind them.
func (e *end) message(fd int, buf []byte, n int, alone bool) error {
	for done := 0; done < n; {
		most := min(len(buf), n-done)
		if alone {
			most = min(len(buf), n-done+1)
		}
		got, err := e.read(fd, buf[:most])
		done += got
		switch {
		case err == io.EOF && done > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case done > n:
			return errTooMuch
		}
	}
	return nil
}

// early is why a trial ended before its time, in words.
type early string

func (e early) Error() string { return string(e) }

// ended is nil if a loop was ended by the peer when that was to be expected: at a time of
// its own, of so long. Else it says why the loop ended.
func (e *end) ended(err error, at, of time.Duration) error {
	if lost(err) && whole(at, of) {
		return nil
	}
	return e.broken(err, at)
}

// broken says in words why a loop did not go on at a time of its own.
func (e *end) broken(err error, at time.Duration) error {
	when := fmt.Sprintf("after %v of %v", at.Round(time.Millisecond), e.spec.Duration)
	switch {
	case e.ctx.Err() != nil:
		return early(fmt.Sprintf("stopped %s: %v", when, context.Cause(e.ctx)))
	case e.silent.Load(), errors.Is(err, os.ErrDeadlineExceeded):
		return early(fmt.Sprintf("the peer was silent for %v, %s", e.quiet, when))
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return early("the peer broke the connection off " + when)
	case lost(err):
		return early("the peer ended the connection " + when)
	default:
		return early(fmt.Sprintf("%v, %s", err, when))
	}
}

// lost tells whether the connection was ended, in whatever way.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// whole tells whether a loop ended when it should have. Ends have clocks of their own,
// threads begin when there is a CPU, and the last message takes its time.
func whole(at, of time.Duration) bool {
	const beginning = 50 * time.Millisecond
	return at >= of-min(of/2, of/20+beginning)
}

// payload is a message of n bytes that no link can compress.
func payload(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

// mostBuffer bounds what is read at once, and so what many streams of large messages take.
const mostBuffer = 1 << 20
