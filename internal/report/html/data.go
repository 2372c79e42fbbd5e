package html

import (
	"encoding/json"
	"math"

	"taper.dev/taper/internal/report"
)

// data is what page.js draws, in the page as JSON. Lists of one arm are as long
// as each other.
type data struct {
	Arms []arm `json:"arms"`
	// Lines are charts of all arms over one axis.
	Lines []lines `json:"lines"`
	// ByKind tells that there are kinds of endpoints in the place of endpoints.
	ByKind bool `json:"-"`
}

type arm struct {
	Name      string     `json:"name"`
	Curve     curve      `json:"curve"`
	Endpoints []endpoint `json:"endpoints"`
	// Equal is the share of each if all have the same.
	Equal     number     `json:"equal"`
	Decisions []decision `json:"decisions"`
}

// curve is latency, in milliseconds, over quantile.
type curve struct {
	Quantiles []number `json:"quantiles"`
	Latencies []number `json:"latencies"`
}

type endpoint struct {
	Address  string `json:"address"`
	Demand   string `json:"demand"`
	Requests number `json:"requests_per_s"`
	CPU      number `json:"cpu_cores"`
}

// decision has a share per endpoint.
type decision struct {
	At     number   `json:"at_s"`
	Shares []number `json:"shares"`
	Held   string   `json:"held"`
}

// number is null in JSON when it is not finite: a gap in a chart, not a zero.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// maxDrawn is how many endpoints a chart has room for.
const maxDrawn = 60

func newData(e *report.Experiment) data {
	d := data{Arms: []arm{}, Lines: overTime(e)}
	endpoints := 0
	for _, a := range e.Arms {
		endpoints = max(endpoints, len(a.Endpoints))
		d.ByKind = d.ByKind || crowded(&a, maxDrawn)
	}
	if e.Simulation != nil {
		endpoints = e.Simulation.Endpoints
	}
	for i := range e.Arms {
		a := &e.Arms[i]
		if d.ByKind {
			a = a.ByKind()
		}
		d.Arms = append(d.Arms, arm{
			Name:      a.Name,
			Curve:     newCurve(a.Percentiles),
			Endpoints: newEndpoints(a.Endpoints),
			Equal:     number(1 / float64(endpoints)),
			Decisions: newDecisions(a.Weights, len(a.Endpoints)),
		})
	}
	return d
}

// crowded tells whether an arm has kinds to show in the place of its endpoints: more than
// there is room for, or as many as are not listed.
func crowded(a *report.Arm, room int) bool {
	return len(a.Kinds) > 0 && (len(a.Endpoints) > room || len(a.Endpoints) == 0)
}

// newCurve leaves out what has no place on logarithmic axes: the largest
// latency of all, at quantile 1, and latencies that were not measured.
func newCurve(points []report.Percentile) curve {
	c := curve{Quantiles: []number{}, Latencies: []number{}}
	for _, p := range points {
		if p.Quantile >= 0 && p.Quantile < 1 && p.Latency > 0 && !math.IsInf(p.Latency, 0) {
			c.Quantiles = append(c.Quantiles, number(p.Quantile))
			c.Latencies = append(c.Latencies, number(p.Latency))
		}
	}
	return c
}

func newEndpoints(all []report.Endpoint) []endpoint {
	endpoints := []endpoint{}
	for _, e := range all {
		endpoints = append(endpoints, endpoint{
			Address: e.Address, Demand: e.Demand, Requests: number(e.Requests), CPU: number(e.CPU),
		})
	}
	return endpoints
}

// newDecisions keeps the decisions that have a time, with a share for each endpoint.
func newDecisions(all []report.WeightsAt, endpoints int) []decision {
	decisions := []decision{}
	for _, w := range all {
		if math.IsNaN(w.At) || math.IsInf(w.At, 0) {
			continue
		}
		shares := make([]number, endpoints)
		for i := range shares {
			shares[i] = number(math.NaN())
			if i < len(w.Shares) {
				shares[i] = number(w.Shares[i])
			}
		}
		decisions = append(decisions, decision{At: number(w.At), Shares: shares, Held: w.Held})
	}
	return decisions
}

// Curves tells whether there is a latency curve to draw.
func (d data) Curves() bool {
	for _, a := range d.Arms {
		if len(a.Curve.Quantiles) > 1 {
			return true
		}
	}
	return false
}

// Endpoints tells whether there are bars to draw.
func (d data) Endpoints() bool {
	for _, a := range d.Arms {
		if len(a.Endpoints) > 0 {
			return true
		}
	}
	return false
}
