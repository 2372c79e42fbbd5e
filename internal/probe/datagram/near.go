package datagram

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// Near runs the near end of a trial against the far end that line leads to. A trial that
// ends early (the far end is gone, or silent, or ctx has ended) says why in Incomplete,
// and has what there is; an error means that there was no trial. What the far end saw is
// not in it: that is the far end's to tell.
//
// The spec in the trial is what was done: messages that could not hold their number were
// made longer, see [fit].
func Near(ctx context.Context, spec probe.Spec, line probe.Line) (probe.Trial, error) {
	spec, err := fit(spec)
	if err != nil {
		return probe.Trial{}, err
	}
	if len(line.Hello) != probe.HelloBytes {
		return probe.Trial{}, fmt.Errorf("a hello of %d bytes is not possible: it must have %d", len(line.Hello), probe.HelloBytes)
	}
	p := newParty(ctx, spec)
	defer p.close()
	for range spec.Streams {
		fd, err := socket.Dial(ctx, "udp", line.Peer, line.Local)
		if err != nil {
			return probe.Trial{}, err
		}
		e, err := p.add(fd, line.Peer)
		if err != nil {
			return probe.Trial{}, err
		}
		e.introduce(line.Hello)
	}
	trial := probe.Trial{Spec: spec, Start: time.Now()}
	rtts, err := p.greet()
	if err == nil {
		err = p.run(spec.NearCPU, func(i int, e *end, t *tally) error {
			switch {
			case spec.Test == probe.PathMTU:
				return e.findMTU(spec, rtts[i], t)
			case spec.Test == probe.UDPLatency:
				return e.call(spec, i, t)
			case spec.Direction == probe.In:
				return e.sink(spec, true, t)
			default:
				return e.blast(spec, i, t)
			}
		})
	}
	if err != nil {
		trial.Incomplete = err.Error()
	}
	p.report(&trial)
	return trial, nil
}

// report writes down what a near end saw.
func (p *party) report(trial *probe.Trial) {
	trial.Near = p.side()
	for _, t := range p.tallies {
		trial.Unanswered += t.unanswered
		if t.mtu != nil {
			trial.PathMTU = t.mtu
		}
		if t.rtt == nil {
			continue
		}
		if trial.RTT == nil {
			trial.RTT = probe.NewDistribution()
		}
		trial.RTT.Add(t.rtt)
	}
}
