package scenario

import (
	"fmt"

	"taper.dev/taper/internal/sim"
)

// arrivals are the load.
func (r *reader) arrivals() (sim.Arrivals, error) {
	l := r.Load
	ways := 0
	for _, there := range []bool{l.Rate != nil, l.Steps != nil, l.Trace != ""} {
		if there {
			ways++
		}
	}
	if ways != 1 {
		return nil, r.Errorf("load", "takes exactly one of rate, steps and trace")
	}
	shape, err := r.choice("load.arrivals", l.Arrivals, "poisson", "constant")
	switch {
	case err != nil:
		return nil, err
	case l.Trace != "" && l.Arrivals != "":
		return nil, r.Errorf("load.arrivals", "says what the trace says: leave it out")
	case l.Trace != "":
		return r.trace()
	case l.Steps != nil && shape == 1:
		return nil, r.Errorf("load.arrivals", "is constant, which takes one rate and no steps")
	case l.Steps != nil:
		return r.steps()
	}
	if err := r.rate("load.rate", *l.Rate); err != nil {
		return nil, err
	}
	if shape == 1 {
		return r.few(sim.Regular(*l.Rate))
	}
	return r.few(sim.Poisson{{Rate: *l.Rate}})
}

// length is that of a run, in seconds.
func (r *reader) length() float64 { return float64(r.WarmUp) + float64(r.Measure) }

func (r *reader) rate(path string, rate float64) error {
	if !(rate > 0 && rate <= maxRate) {
		return r.Errorf(path, "is %g: it takes requests per second, above 0 and up to %g", rate, float64(maxRate))
	}
	return nil
}

// few checks how many requests there will be.
func (r *reader) few(a sim.Arrivals) (sim.Arrivals, error) {
	if n := requests(a, r.length()); n > maxRequests {
		return nil, r.Errorf("load", "makes some %.2g requests in %s: the most are %.0e, so lower the rate or shorten measure", n, seconds(r.length()), float64(maxRequests))
	}
	return a, nil
}

// requests is about how many arrive in a run of this length, in seconds.
func requests(a sim.Arrivals, length float64) float64 {
	switch a := a.(type) {
	case sim.Poisson:
		var sum float64
		for i, step := range a {
			until := length
			if i+1 < len(a) {
				until = min(until, a[i+1].From)
			}
			sum += step.Rate * max(0, until-step.From)
		}
		return sum
	case sim.Trace:
		return float64(len(a))
	}
	return a.Rate(0) * length
}

func (r *reader) steps() (sim.Arrivals, error) {
	list := r.Load.Steps
	if len(list) == 0 || len(list) > maxSteps {
		return nil, r.Errorf("load.steps", "has %d steps: it takes 1 to %d", len(list), maxSteps)
	}
	steps := make(sim.Poisson, len(list))
	var most float64
	for i, s := range list {
		path := fmt.Sprintf("load.steps[%d]", i)
		if s.Rate == nil {
			return nil, r.Errorf(path+".rate", "is missing: it takes requests per second")
		}
		if !(*s.Rate >= 0 && *s.Rate <= maxRate) {
			return nil, r.Errorf(path+".rate", "is %g: it must be in 0..%g", *s.Rate, float64(maxRate))
		}
		if i == 0 && s.From != 0 {
			return nil, r.Errorf(path+".from", "is %s: the first step begins at 0s", s.From)
		}
		if i > 0 && s.From <= list[i-1].From {
			return nil, r.Errorf(path+".from", "is %s: it must be after the step before, which is from %s", s.From, list[i-1].From)
		}
		steps[i] = sim.RateStep{From: float64(s.From), Rate: *s.Rate}
		most = max(most, *s.Rate)
	}
	if most == 0 {
		return nil, r.Errorf("load.steps", "has no rate above 0")
	}
	return r.few(steps)
}

// trace reads when requests were recorded.
func (r *reader) trace() (sim.Arrivals, error) {
	const path = "load.trace"
	times, err := r.numbers(path, r.Load.Trace)
	if err != nil {
		return nil, err
	}
	for i, at := range times {
		if at < 0 || at > maxSeconds {
			return nil, r.Errorf(path, "%s: request %d is at %g: times are seconds since the beginning, 0 to %d", r.Load.Trace, i+1, at, maxSeconds)
		}
		if i > 0 && at < times[i-1] {
			return nil, r.Errorf(path, "%s: request %d is at %g, before the one ahead of it at %g: times must rise", r.Load.Trace, i+1, at, times[i-1])
		}
	}
	if times[len(times)-1] == 0 {
		return nil, r.Errorf(path, "%s: all requests come at 0: times are seconds since the beginning", r.Load.Trace)
	}
	return sim.Trace(times), nil
}
