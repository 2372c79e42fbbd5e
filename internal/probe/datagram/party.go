package datagram

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// party is the streams of one end of a trial.
type party struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	spec    probe.Spec
	stop    atomic.Bool
	unwatch func() bool
	origin  origin
	ends    []*end
	tallies []*tally
	usages  []probe.Usage
}

func newParty(ctx context.Context, spec probe.Spec) *party {
	p := &party{spec: spec}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.unwatch = context.AfterFunc(p.ctx, func() { p.stop.Store(true) })
	return p
}

// add makes a connected socket one of the party's.
func (p *party) add(fd int, peer netip.AddrPort) (*end, error) {
	e := newEnd(fd, peer, p.spec.Mode, &p.stop)
	p.ends = append(p.ends, e)
	p.tallies = append(p.tallies, newTally(p.spec, &p.origin, p.cancel))
	p.usages = append(p.usages, probe.Usage{})
	return e, socket.SetTimeouts(fd, tick)
}

// close closes all sockets. Nobody may use them any more.
func (p *party) close() {
	p.unwatch()
	p.cancel(nil)
	for _, e := range p.ends {
		e.close()
	}
}

// greet has all streams greeted at once, and returns about how long a round trip takes.
func (p *party) greet() ([]time.Duration, error) {
	rtts, errs := make([]time.Duration, len(p.ends)), make([]error, len(p.ends))
	var all sync.WaitGroup
	for i, e := range p.ends {
		all.Go(func() { rtts[i], errs[i] = e.greet() })
	}
	all.Wait()
	return rtts, p.first(errs)
}

// run has each stream do its part on a thread of its own.
func (p *party) run(cpu *int, part func(i int, e *end, t *tally) error) error {
	errs := make([]error, len(p.ends))
	var all sync.WaitGroup
	for i := range p.ends {
		all.Go(func() { errs[i] = p.one(i, cpu, part) })
	}
	all.Wait()
	return p.first(errs)
}

// one has a stream do its part. If that ends early the other end is told, which may
// still be there.
func (p *party) one(i int, cpu *int, part func(i int, e *end, t *tally) error) (err error) {
	e, t := p.ends[i], p.tallies[i]
	p.usages[i], err = socket.Thread(cpu, func() error {
		if p.spec.RatePerS > 0 {
			undo, err := socket.Punctual()
			if err != nil {
				return err
			}
			defer undo()
		}
		return part(i, e, t)
	})
	t.Foreign = e.foreign
	if err != nil {
		e.dismiss()
	}
	return err
}

// first is the first error, in words.
func (p *party) first(errs []error) error {
	for _, err := range errs {
		if err == errStopped {
			return fmt.Errorf("%w: %w", err, context.Cause(p.ctx))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// side is what this end saw.
func (p *party) side() probe.Side {
	s := sum(p.tallies)
	s.Usage = socket.Total(p.usages...)
	return s
}
