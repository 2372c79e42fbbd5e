package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// outcome is what one end found.
type outcome struct {
	side                     probe.Side
	rtt, connect, load, idle *probe.Distribution
	unanswered               int64
}

// Near runs the near end of a trial and opens its connections to line's peer. The far
// end's Side is left for others to fill in. A trial that ended early has what was measured
// until then, and says why in Incomplete; an error means that nothing was measured.
func Near(ctx context.Context, spec probe.Spec, line probe.Line) (probe.Trial, error) {
	trial := probe.Trial{Spec: spec, Start: time.Now()}
	if err := check(spec); err != nil {
		return trial, err
	}
	if len(line.Hello) != probe.HelloBytes {
		return trial, fmt.Errorf("a hello of %d bytes is not possible: it has %d", len(line.Hello), probe.HelloBytes)
	}
	e := newEnd(ctx, spec, spec.NearCPU)
	defer e.close()
	got, err := e.near(line)
	trial.Near = got.side
	trial.RTT, trial.Connect, trial.Load, trial.Idle = got.rtt, got.connect, got.load, got.idle
	trial.Unanswered = got.unanswered
	var why early
	if errors.As(err, &why) {
		trial.Incomplete = string(why)
		return trial, nil
	}
	return trial, err
}

func (e *end) near(line probe.Line) (outcome, error) {
	switch e.spec.Test {
	case probe.Connect:
		return e.connectAll(line)
	case probe.Responsiveness:
		return e.underLoad(line)
	}
	fds, err := e.open(line)
	if err != nil {
		return outcome{}, err
	}
	sends := e.spec.Test == probe.TCPBandwidth && e.spec.Direction == probe.Out
	stop, err := e.watch(fds, sends)
	defer stop()
	if err != nil {
		return outcome{}, err
	}
	if e.spec.Test == probe.TCPLatency {
		return e.latency(fds)
	}
	return e.bulk(fds, sends)
}

// check says why a spec cannot be one of this package's.
func check(spec probe.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	switch spec.Test {
	case probe.TCPBandwidth, probe.Responsiveness:
		return nil
	case probe.TCPLatency, probe.Connect:
		if spec.ReplyBytes < 1 {
			return fmt.Errorf("%s without an answer is not possible: it must have 1 byte at least", spec.Test)
		}
		return nil
	}
	return fmt.Errorf("%s is not a test over TCP", spec.Test)
}

// open opens the trial's connections and waits until the far end has them all.
func (e *end) open(line probe.Line) ([]int, error) {
	fds := make([]int, e.spec.Streams)
	for i := range fds {
		fd, err := e.dial(e.ctx, line)
		if err != nil {
			return nil, err
		}
		fds[i] = fd
	}
	for _, fd := range fds {
		if _, err := socket.ReadFull(fd, make([]byte, 1)); err != nil {
			if cause := context.Cause(e.ctx); cause != nil {
				err = cause
			}
			return nil, fmt.Errorf("%s took the connections but did not begin the trial: %w", line.Peer, err)
		}
	}
	e.began = e.now()
	return fds, nil
}

// dial opens one connection, with the hello and what comes right behind it.
func (e *end) dial(ctx context.Context, line probe.Line, first ...byte) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("there was no answer within %v: is there a firewall in between?", patience))
	defer cancel()
	fd, err := socket.Dial(ctx, "tcp", line.Peer, line.Local)
	if err != nil {
		return -1, err
	}
	if err := e.own(fd); err != nil {
		return -1, err
	}
	if _, err := socket.Write(fd, append(append([]byte(nil), line.Hello...), first...)); err != nil {
		return -1, fmt.Errorf("saying hello to %s: %w", line.Peer, err)
	}
	return fd, nil
}
