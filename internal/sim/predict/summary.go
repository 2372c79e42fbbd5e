package predict

import (
	"fmt"
	"math"
	"slices"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/report"
)

// report makes figures with intervals of what was simulated.
func (p *prediction) report() *report.Prediction {
	r := &report.Prediction{
		Service: p.Name, Strategy: string(p.Policy.Strategy), Observed: p.observed(), Assumed: p.assumed(),
		Calibration: p.hidden.fit, Draws: p.options.Draws, RequestsPerRun: p.requests(), Seed: p.options.Seed,
	}
	shares := map[string][]float64{}
	for k, a := range p.arms {
		arm := p.predicted(k)
		if a.strategy != "" {
			weights, decisions := p.settle(p.central, mean(p.rates), a.strategy)
			arm.SettlesAfter, shares[a.name] = decisions, parts(weights)
		}
		r.Arms = append(r.Arms, arm)
	}
	r.Endpoints, r.Warnings = p.endpoints(shares), p.warnings(r.Arms)
	return r
}

// predicted is one arm over all draws.
func (p *prediction) predicted(k int) report.PredictedArm {
	a := report.PredictedArm{Name: p.arms[k].name, Policy: p.arms[k].kind.Name, Bound: p.arms[k].name == AllKnowing}
	figure := func(of func(outcome) float64) report.Estimate {
		return p.over(func(o []outcome) float64 { return of(o[k]) })
	}
	p50, p99 := func(o outcome) float64 { return o.p50 }, func(o outcome) float64 { return o.p99 }
	cpu := func(o outcome) float64 { return o.cpu }
	a.CPU = figure(cpu)
	if !p.relative {
		a.P50, a.P99 = new(figure(p50)), new(figure(p99))
	}
	if k > 0 {
		ratio := func(of func(outcome) float64) report.Estimate {
			return p.over(func(o []outcome) float64 { return of(o[k]) / of(o[0]) })
		}
		a.Against = &report.PredictedRatio{P50: ratio(p50), P99: ratio(p99), CPU: ratio(cpu)}
	}
	for _, o := range p.outcomes {
		if o[k].saturated {
			a.Saturated += 1 / float64(len(p.outcomes))
		}
	}
	return a
}

// over is a figure of all draws.
func (p *prediction) over(of func([]outcome) float64) report.Estimate {
	values := make([]float64, len(p.outcomes))
	for i, o := range p.outcomes {
		values[i] = of(o)
	}
	return estimate(values)
}

// coverage is how often intervals hold the truth.
const coverage = 0.9

func estimate(values []float64) report.Estimate {
	slices.Sort(values)
	return report.Estimate{
		Median: quantile(values, 0.5), Low: quantile(values, (1-coverage)/2), High: quantile(values, (1+coverage)/2),
	}
}

// quantile is of sorted values, at q·(n+1) as Weibull's plotting position has it (type 6
// of Hyndman and Fan 1996): then a further value like them lies between two quantiles as
// often as they say, whatever the distribution.
func quantile(sorted []float64, q float64) float64 {
	at := q*float64(len(sorted)+1) - 1
	i := int(math.Floor(at))
	switch {
	case i < 0:
		return sorted[0]
	case i >= len(sorted)-1:
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func (p *prediction) observed() report.Observed {
	first, last := p.Windows[0], p.Windows[len(p.Windows)-1]
	o := report.Observed{
		From: first.End.Add(-p.Length).UTC(), Until: last.End.UTC(), Windows: len(p.Windows),
		WindowS: p.Length.Seconds(), Evidence: string(p.central.evidence),
	}
	if !p.relative {
		o.RatePerS = &report.Estimate{Median: mean(p.rates), Low: slices.Min(p.rates), High: slices.Max(p.rates)}
	}
	return o
}

func (p *prediction) assumed() report.Assumed {
	of := func(figure func(*draw) float64) report.Estimate {
		values := make([]float64, len(p.draws))
		for i := range p.draws {
			values[i] = figure(&p.draws[i])
		}
		return estimate(values)
	}
	a := report.Assumed{
		Policy: p.arms[0].kind.Name, ProxiesKnown: p.Proxies > 0,
		Proxies: of(func(d *draw) float64 { return float64(d.proxies) }), Sigma: of(func(d *draw) float64 { return d.sigma }),
		OverheadMS: 1000 * p.hidden.overhead,
	}
	if p.idles > 0 {
		a.Idle = new(of(func(d *draw) float64 { return d.idle }))
	}
	return a
}

func (p *prediction) endpoints(shares map[string][]float64) []report.PredictedEndpoint {
	requests := p.Service.requests()
	cpu := p.means(func(s model.Sample) model.Reading { return s.CPU })
	list := make([]report.PredictedEndpoint, len(p.Endpoints))
	for i, e := range p.Endpoints {
		r := report.PredictedEndpoint{
			Address: e.Address, Idle: p.central.idle[i], Capacity: e.Capacity, Shares: map[string]float64{},
			Requests: known(requests[i]), Utilization: known(cpu[i] / e.Capacity),
		}
		for name, parts := range shares {
			r.Shares[name] = parts[i]
		}
		switch d := p.central.demand[i]; {
		case d <= 0:
			r.Note = "what a request costs here is not known; it is taken for like the others"
		case !p.relative:
			r.DemandMS = new(1000 * d)
		}
		list[i] = r
	}
	return list
}

// known is nil for what is not.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// misfit is how far the model may be from today's latency before that is a warning.
const misfit = 0.1

// warnings are what a reader has to know first.
func (p *prediction) warnings(arms []report.PredictedArm) []string {
	list := []string{}
	add := func(when bool, format string, values ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	n, unknown := len(p.Endpoints), len(p.Endpoints)-len(p.central.measured())
	add(p.relative, "no request rates were measured: how long requests take is not known, only ratios are, and they rest on every endpoint getting as many requests as any other today")
	add(p.relative && p.Today != nil, "today's latency is not used: without request rates nothing can be fitted to it")
	add(p.central.evidence == balance.FromInFlight, "CPU was not measured: what requests cost is inferred from how many are in flight")
	add(unknown > 0, "of %d of %d endpoints nothing tells what requests cost: they are taken for like the others", unknown, n)
	left := len(p.given.Windows) - len(p.Windows)
	add(left > 0, "%d of %d windows are left out: in them, too few endpoints were measured", left, len(p.given.Windows))
	for _, a := range arms {
		add(a.Saturated > 0 && !a.Bound, "%s: endpoints are saturated in %.0f %% of the draws; how slow they are then depends on how long was simulated", a.Name, 100*a.Saturated)
	}
	if fit := p.hidden.fit; fit != nil {
		off := max(math.Abs(fit.SimulatedP50/fit.MeasuredP50-1), math.Abs(fit.SimulatedP99/fit.MeasuredP99-1))
		add(off > misfit, "the model does not get nearer to today's latency than %.0f %%: something else than CPU makes it, or what was assumed is wrong", 100*off)
	}
	return list
}

// parts are weights as fractions of their sum.
func parts(weights []uint32) []float64 {
	var sum float64
	for _, w := range weights {
		sum += float64(w)
	}
	list := make([]float64, len(weights))
	for i, w := range weights {
		list[i] = float64(w) / sum
	}
	return list
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}
