package matrix

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
	"taper.dev/taper/internal/verdict"
)

// visit is the turn of a pair in a round: from sends, or asks.
type visit struct {
	from, to int
	tests    []probe.Spec
	// door is the address of a shared service behind which from finds to; empty for none.
	door string
}

// holds tells whether distributions of latency are held while it lasts.
func (v visit) holds() bool {
	return slices.ContainsFunc(v.tests, func(s probe.Spec) bool { return s.Test == probe.TCPLatency })
}

// way is one path between the agents of a visit.
type way struct {
	path      probe.Path
	near, far *station
	target    string
}

// ways are the paths on which both agents can be asked.
func (r *run) ways(v visit) []way {
	from, to := r.rows[v.from], r.rows[v.to]
	var list []way
	for _, path := range measuredPaths {
		target := to.Addresses[path]
		if path == probe.ServicePath && v.door != "" {
			target = v.door
		}
		w := way{path: path, near: from.on(path), far: to.on(path), target: target}
		if target != "" && w.near.here() && w.far.here() {
			list = append(list, w)
		}
	}
	return list
}

// attempt is what the trials of one test on one way gave.
type attempt struct {
	way
	spec probe.Spec
	// to is who answered: not always whom the visit is to, behind a service.
	to      int
	figures []float64 // bytes per second, or microseconds
	rtt     *probe.Distribution
	problem string // of the last trial that failed
	// over is set if there is no use in trying again.
	over bool
}

// measure measures a pair on all its paths, in random order within each of its trials. What
// failed on a path is not tried there again, for it would only take as long, unless it was
// the connection of this process that was lost.
func (r *run) measure(ctx context.Context, v visit) {
	var attempts []*attempt
	for _, spec := range v.tests {
		for _, w := range r.ways(v) {
			attempts = append(attempts, &attempt{way: w, spec: spec, to: v.to})
		}
	}
	r.mu.Lock()
	seed := r.Seed + uint64(r.visits)
	r.visits++
	r.mu.Unlock()
	for trial := range r.Trials {
		for _, a := range verdict.Order(trial, attempts, seed) {
			if !a.over && a.near.here() && a.far.here() && ctx.Err() == nil {
				r.try(ctx, v, a)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(v, attempts)
}

// try runs one trial.
func (r *run) try(ctx context.Context, v visit, a *attempt) {
	t, err := a.near.conn.Delegate(ctx, agent.Target{Address: a.target}, a.spec)
	if ctx.Err() != nil {
		return // the reader's doing, not the pair's
	}
	if err == nil && t.Incomplete == "" {
		if a.path == probe.ServicePath {
			err = r.answered(v, a, t.FarHost)
		}
		if figure := figureOf(t); err == nil && !math.IsNaN(figure) {
			a.figures = append(a.figures, figure)
			if t.RTT != nil && a.spec.Test == probe.TCPLatency {
				if a.rtt == nil {
					a.rtt = probe.NewDistribution()
				}
				a.rtt.Add(t.RTT)
			}
			return
		}
	}
	switch {
	case err != nil:
		a.problem = err.Error()
	case t.Incomplete != "":
		a.problem = t.Incomplete
	default:
		a.problem = "nothing arrived in time"
		return // the agents are there, and it took no longer than any trial
	}
	a.over = !r.examine(ctx, a.near)
	r.examine(ctx, a.far)
}

// errNameless is for agents that do not tell of the far end.
var errNameless = errors.New("the agent does not say who answered: use the same release of taper everywhere")

// answered finds out who answered behind a service.
func (r *run) answered(v visit, a *attempt, host *probe.Host) error {
	if host == nil {
		return fmt.Errorf("%s: %w", a.target, errNameless)
	}
	to, err := r.find(identityOf(*host))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", a.target, err)
	case to == v.from:
		return fmt.Errorf("%s leads back to the agent that asks", a.target)
	case len(a.figures) > 0 && to != a.to:
		return fmt.Errorf("%s leads to %s and to %s: without session affinity (ClientIP) it is nobody's figure", a.target, r.rows[a.to].Name, r.rows[to].Name)
	}
	a.to = to
	return nil
}

// figureOf is the number that a trial is about: bytes received per second, or the median
// round trip in microseconds. NaN if the trial does not have it.
func figureOf(t probe.Trial) float64 {
	if t.Spec.Test == probe.TCPBandwidth {
		if t.Far.Elapsed <= 0 || t.Far.ReceivedBytes <= 0 {
			return math.NaN()
		}
		return float64(t.Far.ReceivedBytes) / t.Far.Elapsed.Seconds()
	}
	if t.RTT != nil {
		if median, ok := t.RTT.Percentile(50); ok {
			return float64(median) / float64(time.Microsecond)
		}
	}
	return math.NaN()
}
