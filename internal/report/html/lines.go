package html

import (
	"math"

	"taper.dev/taper/internal/report"
)

// lines is a chart with a line for each arm over one axis.
type lines struct {
	ID string `json:"id"`
	// Title and About are for people, and in the page itself.
	Title string   `json:"-"`
	About string   `json:"-"`
	X     []number `json:"x"`
	// XName and XUnit stand around a value of X.
	XName string `json:"x_name"`
	XUnit string `json:"x_unit"`
	// Each names every value of X on its axis, and marks it on each line.
	Each bool   `json:"each"`
	Unit string `json:"unit"`
	// Wide lets the axis of values be logarithmic where they differ much.
	Wide bool `json:"wide"`
	// Until is where the warm-up ends, null where there is none.
	Until number `json:"until"`
	// Lines leaves out arms without any value.
	Lines []line `json:"lines"`
}

// line is an arm, by its place among the arms, with a value at each of X.
type line struct {
	Arm    int      `json:"arm"`
	Values []number `json:"values"`
	// Low and High are the spread of the rounds, if there is one to show.
	Low  []number `json:"low,omitempty"`
	High []number `json:"high,omitempty"`
}

// unmeasured is what a chart leaves out.
var unmeasured = number(math.NaN())

// above0 is a figure that is never 0 if it was measured.
func above0(v float64) number {
	if !positive(v) {
		return unmeasured
	}
	return number(v)
}

// overTime are the charts of a simulation's series.
func overTime(e *report.Experiment) []lines {
	all := []lines{}
	if e.Simulation == nil {
		return all
	}
	add := func(c lines, of func(report.Step) number) {
		c.XUnit, c.Until = " s", above0(e.Simulation.WarmUp)
		c.fill(e.Arms, of)
		if len(c.X) > 1 {
			all = append(all, c)
		}
	}
	add(lines{ID: "p99", Title: "p99 over time", About: "Of the requests that were answered in each stretch.", Unit: " ms", Wide: true},
		func(s report.Step) number { return above0(s.P99) })
	add(lines{ID: "cores", Title: "CPU over time", About: "Cores in use on all endpoints together.", Unit: " cores"},
		func(s report.Step) number { return number(s.CPU) })
	add(lines{ID: "in-flight", Title: "Requests in flight", About: "On all endpoints together, at the end of each stretch."},
		func(s report.Step) number { return number(s.InFlight) })
	add(lines{ID: "rate", Title: "Requests over time", About: "Requests per second that came to an end.", Unit: " /s"},
		func(s report.Step) number { return number(s.Requests) })
	return all
}

// fill draws the arms that have a series as long as the first one's.
func (c *lines) fill(arms []report.Arm, of func(report.Step) number) {
	for i, a := range arms {
		if len(c.Lines) == 0 {
			for _, s := range a.Series {
				c.X = append(c.X, number(s.At))
			}
		}
		if len(a.Series) == 0 || len(a.Series) != len(c.X) {
			continue
		}
		l := line{Arm: i}
		for _, s := range a.Series {
			l.Values = append(l.Values, of(s))
		}
		c.Lines = append(c.Lines, l)
	}
}

// overValues are the charts of a sweep.
func overValues(s *report.Sweep) []lines {
	all := []lines{}
	if len(s.Values) == 0 {
		return all
	}
	for _, q := range report.Quantities {
		c := lines{
			ID: q.ID, Title: q.Name, Unit: " " + q.Unit, Wide: q.Unit == "ms",
			Lines: []line{}, About: "Median of the rounds; the bars reach from the lowest to the highest.",
			XName: s.Parameter + " ", Each: true, Until: unmeasured,
		}
		for _, v := range s.Values {
			c.X = append(c.X, number(v))
		}
		for i, a := range s.Arms {
			l := line{Arm: i}
			for _, p := range a.Points[:min(len(a.Points), len(c.X))] {
				spread := q.Of(p)
				l.Values = append(l.Values, above0(spread.Median))
				l.Low, l.High = append(l.Low, above0(spread.Low)), append(l.High, above0(spread.High))
			}
			if len(l.Values) > 0 {
				c.Lines = append(c.Lines, l)
			}
		}
		all = append(all, c)
	}
	return all
}
