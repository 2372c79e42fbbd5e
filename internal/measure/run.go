package measure

import (
	"context"
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
	// gone is why the path is not measured any more, failures how often in a row it failed.
	gone     string
	failures int
}

// giveUpAfter failures in a row a path is left out: a dead peer would cost a timeout each.
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
		m := &measured{Path: p, sustain: map[probe.Direction]*probe.Trial{}, tools: map[probe.Tool]float64{}}
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

// trial measures once. NaN is a trial without a figure.
func (r *run) trial(ctx context.Context, m *measured, s probe.Spec, into func(probe.Trial) float64) float64 {
	if m.gone != "" || ctx.Err() != nil {
		return math.NaN()
	}
	t, err := m.Prober.Run(ctx, s)
	if err != nil {
		t.Spec, t.Incomplete = s, err.Error()
	}
	if ctx.Err() != nil {
		return math.NaN() // the reader's doing, not the path's
	}
	m.usage = append(m.usage, usageOf(t))
	if t.Incomplete == "" {
		m.failures = 0
	} else if m.failures++; m.failures == giveUpAfter {
		m.gone = fmt.Sprintf("given up after %d failures in a row: %s", giveUpAfter, t.Incomplete)
	}
	return into(t)
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
			r.trial(ctx, m, s, func(t probe.Trial) float64 {
				if t.Incomplete == "" {
					m.sustain[s.Direction] = &t
				}
				return 0
			})
		}
	}
}
