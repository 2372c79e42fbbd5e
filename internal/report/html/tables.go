package html

import (
	"fmt"
	"math"

	"taper.dev/taper/internal/report"
)

// changes is what one arm made of the endpoints.
type changes struct {
	// Before is nil for an experiment of a single arm.
	Before, After *report.Arm
	Rows          []row
	// Open tells whether the table is unfolded at first.
	Open bool
}

type row struct{ report.EndpointRow }

// Figures are in the order of the table's columns.
func (r row) Figures() []report.BeforeAfter {
	return []report.BeforeAfter{r.Requests, r.CPU, r.P99}
}

func allChanges(e *report.Experiment) []changes {
	before, subject := e.Compared()
	switch {
	case before == nil:
		return nil
	case subject == nil:
		single := newChanges(before, before)
		single.Before, single.Open = nil, true
		return []changes{single}
	}
	all := []changes{newChanges(before, subject)}
	all[0].Open = true
	for i := range e.Arms[1:] {
		if arm := &e.Arms[i+1]; arm != subject {
			all = append(all, newChanges(before, arm))
		}
	}
	return all
}

// maxRows is how many endpoints a table has room for.
const maxRows = 200

func newChanges(before, after *report.Arm) changes {
	if crowded(after, maxRows) {
		before, after = before.ByKind(), after.ByKind()
	}
	c := changes{Before: before, After: after}
	for _, endpoint := range report.EndpointRows(before, after) {
		c.Rows = append(c.Rows, row{endpoint})
	}
	return c
}

// setting is one condition of the experiment.
type setting struct{ Name, Value string }

// recorded leaves out what was not recorded.
func recorded(s report.Settings, simulation *report.Simulation) []setting {
	var all []setting
	add := func(known bool, name, format string, values ...any) {
		if known {
			all = append(all, setting{name, fmt.Sprintf(format, values...)})
		}
	}
	add(s.EndpointKind != "", "endpoints", "%s", s.EndpointKind)
	add(s.Store != "", "store", "%s", s.Store)
	add(s.ProxyVersion != "", "proxy", "%s", s.ProxyVersion)
	add(s.Proxies > 0, "proxies", "%d", s.Proxies)
	add(positive(s.RatePerS), "load", "%s requests/s", report.Number(s.RatePerS))
	add(s.Rounds > 0, "rounds", "%d", s.Rounds)
	add(positive(s.MeasureS), "measured", "%v s per arm and round", s.MeasureS)
	if simulation != nil {
		add(true, "number of endpoints", "%s", report.Count(uint64(simulation.Endpoints)))
		add(positive(simulation.WarmUp), "warm-up", "%v s before each", simulation.WarmUp)
	}
	add(positive(s.IntervalS), "control interval", "%v s", s.IntervalS)
	add(true, "seed", "%d", s.Seed)
	return all
}

// positive tells a recorded rate or time from none.
func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
