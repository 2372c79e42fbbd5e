package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// Far runs the far end of a trial on the connections that arrive, and returns when they
// have ended, when the trial should have been over for a while, or when ctx ends. The Side
// has what was counted, also beside an error, which says why that is not all.
func Far(ctx context.Context, spec probe.Spec, in probe.Arrivals) (probe.Side, error) {
	if err := check(spec); err != nil {
		return probe.Side{}, err
	}
	e := newEnd(ctx, spec, spec.FarCPU)
	defer e.close()
	got, err := e.far(in)
	return got.side, err
}

func (e *end) far(in probe.Arrivals) (outcome, error) {
	switch e.spec.Test {
	case probe.Connect:
		return e.acceptAll(in)
	case probe.Responsiveness:
		return e.carry(in)
	}
	fds, err := e.gather(in)
	if err != nil {
		return outcome{}, err
	}
	sends := e.spec.Test == probe.TCPBandwidth && e.spec.Direction == probe.In
	stop, err := e.watch(fds, sends)
	defer stop()
	if err != nil {
		return outcome{}, err
	}
	if e.spec.Test == probe.TCPLatency {
		return e.answers(fds)
	}
	return e.bulk(fds, sends)
}

// gather takes the trial's connections, and tells the near end once all are there.
func (e *end) gather(in probe.Arrivals) ([]int, error) {
	fds := make([]int, 0, e.spec.Streams)
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(fds) < e.spec.Streams {
		select {
		case conn, ok := <-in.Streams:
			if !ok {
				return nil, errors.New("the near end went before its connections were there")
			}
			fd, err := e.take(conn)
			if err != nil {
				return nil, err
			}
			fds = append(fds, fd)
		case <-late.C:
			return nil, fmt.Errorf("%d of %d connections came within %v", len(fds), e.spec.Streams, patience)
		case <-e.ctx.Done():
			return nil, e.broken(context.Cause(e.ctx), e.now())
		}
	}
	e.began = e.now()
	for _, fd := range fds {
		if _, err := socket.Write(fd, []byte{ready}); err != nil {
			return nil, fmt.Errorf("telling the near end to begin: %w", err)
		}
	}
	return fds, nil
}

// ready is what a far end says once it has all connections. Near ends take any byte.
const ready = '!'

// take makes a connection the trial's.
func (e *end) take(conn *net.TCPConn) (int, error) {
	fd, err := socket.FD(conn)
	// The descriptor keeps the connection open.
	err = errors.Join(err, conn.Close())
	if fd < 0 {
		return -1, err
	}
	return fd, errors.Join(err, e.own(fd))
}
