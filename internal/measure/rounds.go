package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// repeated tells whether a test is measured in rounds: not what takes long, or always says
// the same.
func repeated(t probe.Test) bool { return t != probe.Responsiveness && t != probe.PathMTU }

// once measures what is not repeated, on all paths in random order.
func (r *run) once(ctx context.Context) {
	for i, s := range r.Specs {
		if repeated(s.Test) {
			continue
		}
		for _, m := range verdict.Order(i, r.paths, r.Seed) {
			rec := m.records[i]
			r.Progress(fmt.Sprintf("%s, %s", s.Test, m.Name))
			rec.figures = append(rec.figures, r.figure(ctx, m, s, rec))
		}
	}
}

// rounds measures all paths in turn, until intervals are narrow or the budget is spent.
func (r *run) rounds(ctx context.Context) {
	began := time.Now()
	for round := 0; ctx.Err() == nil && r.alive() && r.repeats(); round++ {
		p := verdict.Progress{Rounds: round, Spent: time.Since(began), Budget: r.Budget}
		if round > 0 && verdict.Enough(p, round >= r.Rounds && r.precise()) {
			return
		}
		for i, s := range r.Specs {
			if repeated(s.Test) {
				r.round(ctx, round, i)
			}
		}
	}
}

func (r *run) repeats() bool {
	return slices.ContainsFunc(r.Specs, func(s probe.Spec) bool { return repeated(s.Test) })
}

func (r *run) alive() bool {
	for _, m := range r.paths {
		if m.gone == "" {
			return true
		}
	}
	return false
}

// turn is a place in a round's order: again is the first path's second.
type turn struct {
	*measured
	again bool
}

// turns are those of a round. A single path is its own noise floor: its trials follow each
// other.
func (r *run) turns() []turn {
	var turns []turn
	for _, m := range r.paths {
		turns = append(turns, turn{m, false})
	}
	if len(r.paths) > 1 {
		turns = append(turns, turn{r.paths[0], true})
	}
	return turns
}

// round measures one spec on all paths in random order.
func (r *run) round(ctx context.Context, round, spec int) {
	for _, t := range verdict.Order(round*len(r.Specs)+spec, r.turns(), r.Seed) {
		rec := t.records[spec]
		r.Progress(fmt.Sprintf("round %d: %s %s, %s", round+1, rec.spec.Test, rec.spec.Direction, t.Name))
		figure := r.figure(ctx, t.measured, rec.spec, rec)
		if t.again {
			rec.again = append(rec.again, figure)
			continue
		}
		rec.figures = append(rec.figures, figure)
		if s := rec.spec; timed(s) {
			s.RatePerS = r.RatePerS
			r.figure(ctx, t.measured, s, rec)
		}
	}
}

// timed tells whether a test has percentiles, which want messages at a rate.
func timed(s probe.Spec) bool {
	switch s.Test {
	case probe.TCPLatency, probe.UDPLatency, probe.Connect:
		return s.RatePerS == 0
	}
	return false
}

// precise tells whether a difference as large as the goal would be told by now, in every
// test.
func (r *run) precise() bool {
	for i, s := range r.Specs {
		if !repeated(s.Test) {
			continue
		}
		goal := r.goal(s.Test)
		for _, m := range r.paths {
			if m.lost[transportOf(s.Test)] != "" {
				continue
			}
			if m == r.paths[0] {
				if l, ok := verdict.Estimate(m.records[i].figures); ok && !l.Precise(goal) {
					return false
				}
				continue
			}
			if c := r.compare(m, i); !c.Precise(goal) {
				return false
			}
		}
	}
	return true
}

// goal is what difference is worth telling in a test.
func (r *run) goal(t probe.Test) verdict.Goal {
	g := verdict.Goal{Share: r.Difference, LowerIsBetter: t.LowerIsBetter(), Comparisons: (len(r.paths) - 1) * len(r.Specs)}
	if g.LowerIsBetter {
		g.Absolute = float64(r.DifferenceLatency) / 1e3 // µs, as figures are
	}
	return g
}

// compare compares a path with the first.
func (r *run) compare(m *measured, spec int) verdict.Comparison {
	first := r.paths[0].records[spec]
	return verdict.Compare(first.figures, first.again, m.records[spec].figures, r.goal(first.spec.Test))
}

// asTools measures bandwidth as tools do; what they call latency follows from any trial.
func (r *run) asTools(ctx context.Context) {
	for i, tool := range r.Tools {
		s, ok := probe.As(tool, probe.TCPBandwidth)
		if !ok {
			continue
		}
		for _, m := range verdict.Order(i, r.paths, r.Seed) {
			r.Progress(fmt.Sprintf("%s: as %s, %v", m.Name, tool, s.Duration))
			m.tools[tool] = r.figure(ctx, m, s, &record{spec: s})
		}
	}
}
