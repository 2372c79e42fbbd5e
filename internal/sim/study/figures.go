package study

import (
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
)

const milliseconds = 1000 // of a second

// figures are what a round of an arm is reported by.
func figures(r *sim.Result) report.Round {
	at := func(quantile float64) float64 { return milliseconds * r.Latency.Quantile(quantile) }
	return report.Round{
		Requests: r.Requests, Errors: r.Errors,
		P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), CPU: r.CPU(),
		Simulated: report.Simulated{
			Mean: milliseconds * r.Latency.Mean(), Unfinished: r.Left, Grows: len(r.Saturated) > 0, Saturated: len(r.Saturated),
		},
	}
}

// kept is what is kept of one sim.Result: it may be large, and there may be many.
type kept struct {
	round     report.Round
	latency   *sim.Histogram
	endpoints []report.Endpoint
	kinds     []report.Kind
	steps     []report.Step
	// weights and settled are the control loop's.
	weights []report.WeightsAt
	settled *int
}

// take keeps what an experiment reports of a run.
func (c *cast) take(t *trial, r *sim.Result) kept {
	k := kept{round: figures(r), latency: r.Latency, endpoints: c.endpoints(r), kinds: c.sum(r), steps: steps(t, r)}
	if t.round == 0 {
		k.weights, k.settled = c.decisions(r)
	}
	return k
}

// endpoints are what each did, as far as each is reported.
func (c *cast) endpoints(r *sim.Result) []report.Endpoint {
	if len(c.servers) > report.MaxEndpoints {
		return nil
	}
	all := make([]report.Endpoint, len(c.servers))
	byAddress := make(map[string]*report.Endpoint, len(c.servers))
	for i, s := range c.servers {
		did := r.Servers[i]
		all[i] = report.Endpoint{
			Address: s.Address, Demand: s.Kind, Requests: float64(did.Served) / r.Seconds, CPU: did.CPU, Weight: did.Weight,
			P50: milliseconds * did.Latency.Quantile(0.5), P99: milliseconds * did.Latency.Quantile(0.99),
		}
		byAddress[s.Address] = &all[i]
	}
	if len(all) <= report.MaxExplained {
		for _, v := range r.Verdicts {
			if e := byAddress[v.Address]; e != nil {
				e.Why = v.Why()
			}
		}
	}
	return all
}

// steps are the run's series.
func steps(t *trial, r *sim.Result) []report.Step {
	all := make([]report.Step, len(r.Series))
	length := (t.scenario.Service.WarmUp + t.scenario.Service.Measure) / float64(len(r.Series))
	for i, s := range r.Series {
		all[i] = report.Step{
			At: s.At, Requests: float64(s.Requests) / length, Errors: s.Errors, CPU: s.CPU, InFlight: float64(s.InFlight),
			P50: milliseconds * s.Latency.Quantile(0.5), P99: milliseconds * s.Latency.Quantile(0.99),
		}
	}
	return all
}

// decisions are the control loop's, and after how many of them it settled.
func (c *cast) decisions(r *sim.Result) ([]report.WeightsAt, *int) {
	var all []report.WeightsAt
	var byKind [][]float64
	each := len(c.servers)*len(r.Decisions) <= report.MaxShares && len(c.servers) <= report.MaxEndpoints
	for _, d := range r.Decisions {
		at := report.WeightsAt{At: d.At, Held: string(d.Hold.Reason), Shares: []float64{}, KindShares: make([]float64, len(c.kinds))}
		var total float64
		for _, w := range d.Weights {
			total += float64(w)
		}
		for i, w := range d.Weights {
			share := float64(w) / max(1, total)
			at.KindShares[c.kindOf[i]] += share
			if each {
				at.Shares = append(at.Shares, share)
			}
		}
		all, byKind = append(all, at), append(byKind, at.KindShares)
	}
	if n, ok := report.SettledAfter(byKind); ok {
		return all, &n
	}
	return all, nil
}
