package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"taper.dev/taper/internal/probe"
)

// run is one measurement under way.
type run struct {
	Options
	started time.Time
	paths   []*measured
}

// measured is what one path has given.
type measured struct {
	Path
	records []*record // as Options.Specs
	// sustain are the trials that looked for shaping, tools the bandwidth as tools have it.
	sustain map[probe.Direction]*probe.Trial
	tools   map[probe.Tool]float64
	usage   []usage
	// lost is why tests over a transport are not measured any more, failures how often in a
	// row they failed; gone is why nothing is.
	lost     map[transport]string
	failures map[transport]int
	gone     string
}

// transport is what a firewall lets through or not.
type transport string

const (
	tcp transport = "TCP"
	udp transport = "UDP"
)

func transportOf(t probe.Test) transport {
	if t.Datagrams() {
		return udp
	}
	return tcp
}

// giveUpAfter failures in a row tests are left out: a dead peer would cost a timeout each.
const giveUpAfter = 3

// Run measures. If ctx ends, or all paths fail, what was measured is returned, marked as
// incomplete; an error means that nothing was.
func Run(ctx context.Context, o Options) (*probe.Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &run{Options: o, started: time.Now()}
	for _, p := range o.Paths {
		m := &measured{
			Path: p, sustain: map[probe.Direction]*probe.Trial{}, tools: map[probe.Tool]float64{},
			lost: map[transport]string{}, failures: map[transport]int{},
		}
		for _, s := range o.Specs {
			m.records = append(m.records, &record{spec: s})
		}
		r.paths = append(r.paths, m)
	}
	for _, step := range []func(context.Context){r.lookForShaping, r.once, r.rounds, r.asTools} {
		if ctx.Err() == nil {
			step(ctx)
		}
	}
	return r.result(ctx)
}

// figure measures once, into a record. NaN is a trial without a figure.
func (r *run) figure(ctx context.Context, m *measured, s probe.Spec, into *record) float64 {
	t, ok := r.trial(ctx, m, s)
	if !ok {
		return math.NaN()
	}
	return into.add(t)
}

// trial measures once. It is false if nothing was measured, or the end of ctx cut it short:
// what there is then is the reader's doing, not the path's.
func (r *run) trial(ctx context.Context, m *measured, s probe.Spec) (probe.Trial, bool) {
	over := transportOf(s.Test)
	if m.lost[over] != "" || ctx.Err() != nil {
		return probe.Trial{}, false
	}
	t, err := m.Prober.Run(ctx, s)
	if err != nil {
		t.Spec, t.Incomplete = s, err.Error()
	}
	if ctx.Err() != nil {
		return t, false
	}
	m.usage = append(m.usage, usageOf(t))
	if errors.Is(err, probe.ErrBusy) {
		r.giveUp(m, tcp, t.Incomplete)
		r.giveUp(m, udp, t.Incomplete)
	} else if t.Incomplete == "" {
		m.failures[over] = 0
	} else if m.failures[over]++; m.failures[over] == giveUpAfter {
		r.giveUp(m, over, fmt.Sprintf("given up after %d failures in a row: %s", giveUpAfter, t.Incomplete))
	}
	return t, true
}

// giveUp leaves out tests over one transport: a firewall that drops UDP lets TCP through.
// The path is gone if nothing else is measured.
func (r *run) giveUp(m *measured, over transport, why string) {
	m.lost[over] = why
	for _, s := range r.Specs {
		if m.lost[transportOf(s.Test)] == "" {
			return
		}
	}
	m.gone = m.lost[over]
}

// lookForShaping sends for longer, each way, before trials empty any bucket.
func (r *run) lookForShaping(ctx context.Context) {
	if r.Sustain == 0 {
		return
	}
	for _, s := range r.Specs {
		if s.Test != probe.TCPBandwidth {
			continue
		}
		s.Duration = r.Sustain
		for _, m := range r.paths {
			if m.sustain[s.Direction] != nil {
				continue // the same way with another message size
			}
			r.Progress(fmt.Sprintf("%s: looking for shaping, %s for %v", m.Name, s.Direction, r.Sustain))
			t, ok := r.trial(ctx, m, s)
			_, receiver := sides(t)
			// What an interrupt leaves is kept: it may have taken minutes.
			if ok && t.Incomplete == "" || !ok && len(receiver.Bins) > 0 {
				m.sustain[s.Direction] = &t
			}
		}
	}
}
