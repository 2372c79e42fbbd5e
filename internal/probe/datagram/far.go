package datagram

import (
	"context"
	"fmt"
	"net"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// Far runs the far end of a trial on the sockets that arrive. If that ends early (the
// near end is gone, or silent, or ctx has ended) the error says why, and the side has what
// there is. It ends within [Limit].
func Far(ctx context.Context, spec probe.Spec, in probe.Arrivals) (probe.Side, error) {
	spec, err := fit(spec)
	if err != nil {
		return probe.Side{}, err
	}
	p := newParty(ctx, spec)
	defer p.close()
	if err := p.gather(in.Datagrams); err != nil {
		return probe.Side{}, err
	}
	err = p.run(spec.FarCPU, func(i int, e *end, t *tally) error {
		if err := e.welcome(); err != nil {
			return err
		}
		switch {
		case spec.Test == probe.PathMTU:
			return e.sizes(spec, t)
		case spec.Test == probe.UDPLatency:
			return e.echo(spec, t)
		case spec.Direction == probe.Out:
			return e.sink(spec, false, t)
		default:
			return e.blastWhenAsked(spec, i, t)
		}
	})
	return p.side(), err
}

// gather takes as many sockets as the trial has streams.
func (p *party) gather(arrivals <-chan *net.UDPConn) error {
	late := time.NewTimer(2 * patience)
	defer late.Stop()
	for len(p.ends) < p.spec.Streams {
		select {
		case conn, ok := <-arrivals:
			if !ok {
				return fmt.Errorf("the near end has opened %d sockets of %d", len(p.ends), p.spec.Streams)
			}
			if err := p.take(conn); err != nil {
				return err
			}
		case <-late.C:
			return fmt.Errorf("the near end has opened %d sockets of %d within %v: are datagrams let through?", len(p.ends), p.spec.Streams, 2*patience)
		case <-p.ctx.Done():
			return p.first([]error{errStopped})
		}
	}
	return nil
}

// take makes a connection of the runtime's one of the party's.
func (p *party) take(conn *net.UDPConn) error {
	defer conn.Close()
	peer, ok := conn.RemoteAddr().(*net.UDPAddr)
	if !ok {
		return fmt.Errorf("a socket at %s is not connected to a near end", conn.LocalAddr())
	}
	fd, err := socket.FD(conn)
	if err != nil {
		return err
	}
	_, err = p.add(fd, peer.AddrPort())
	return err
}

// blastWhenAsked sends once the near end is ready to receive.
func (e *end) blastWhenAsked(spec probe.Spec, stream int, t *tally) error {
	asked, err := e.await(begin, patience)
	if err != nil {
		return err
	}
	if !asked {
		return fmt.Errorf("%s has not asked for datagrams within %v", e.peer, patience)
	}
	return e.blast(spec, stream, t)
}
