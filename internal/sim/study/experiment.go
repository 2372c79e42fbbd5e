package study

import (
	"context"
	"fmt"
	"math"
	"time"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/scenario"
)

// Run simulates every arm in every round. It fails when the context ends, and with
// [TooLarge].
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*report.Experiment, error) {
	e := &report.Experiment{
		Scenario: s.Name, Started: time.Now().UTC().Truncate(time.Second),
		Settings: settings(s), Simulation: about(s),
	}
	c := newCast(&s.Service)
	runs, err := run(ctx, trials(s, stretches(s), ""), o, c.take)
	if err != nil {
		return nil, err
	}
	for i := range s.Arms {
		var rounds []kept
		for round := range s.Rounds {
			rounds = append(rounds, runs[round*len(s.Arms)+i])
		}
		e.Arms = append(e.Arms, summarise(&s.Arms[i], rounds))
	}
	e.Compare()
	return e, nil
}

// stretches is how many steps a run's series has: each is 1, 2 or 5 times a power of ten of
// seconds long, and there are between some 50 and 120.
func stretches(s *scenario.Scenario) int {
	total := s.Service.WarmUp + s.Service.Measure
	unit := math.Pow(10, math.Floor(math.Log10(total/120)))
	for _, m := range []float64{1, 2, 5, 10} {
		if n := math.Round(total / (m * unit)); n <= 120 {
			return max(1, int(n))
		}
	}
	return 120
}

// settings are those that a report has a place for.
func settings(s *scenario.Scenario) report.Settings {
	result := report.Settings{
		EndpointKind: "simulated", Proxies: s.Service.Proxies, RatePerS: meanRate(&s.Service),
		Rounds: s.Rounds, MeasureS: s.Service.Measure, Seed: s.Seed,
	}
	for _, a := range s.Arms {
		if a.Weigher != nil && a.Weigher.Fixed == nil {
			result.IntervalS = a.Weigher.Policy.Interval.Seconds()
			break
		}
	}
	return result
}

// meanRate is that of the arrivals while they are measured.
func meanRate(s *sim.Service) float64 {
	const samples = 1000
	var sum float64
	for i := range samples {
		sum += s.Arrivals.Rate(s.WarmUp + s.Measure*(float64(i)+0.5)/samples)
	}
	return sum / samples
}

func about(s *scenario.Scenario) *report.Simulation {
	result := &report.Simulation{About: s.About, Endpoints: len(s.Service.Servers), WarmUp: s.Service.WarmUp}
	switch l := s.Load(); {
	case l.Impossible():
		result.Notes = append(result.Notes, fmt.Sprintf(
			"The load asks for %s cores of %s at %g s, even with the shares that suit the endpoints best: queues grow without bound as long as that lasts.",
			report.Number(l.Best), report.Number(l.Cores), l.At))
	case l.Fullest >= 1:
		result.Notes = append(result.Notes, fmt.Sprintf(
			"With equal shares an endpoint is asked for %s times what it can do at %g s: its queue grows without bound unless it gets less than others.",
			report.Number(l.Fullest), l.At))
	}
	return result
}

// summarise puts the rounds of an arm together.
func summarise(a *scenario.Arm, rounds []kept) report.Arm {
	arm := report.Arm{Name: a.Name, Bound: a.Bound}
	all := rounds[0].latency.Clone()
	for i, r := range rounds {
		arm.Rounds = append(arm.Rounds, r.round)
		if i > 0 {
			all.Add(r.latency)
		}
	}
	arm.Conclude()
	arm.Percentiles = report.Curve(all.Count(), func(q float64) float64 { return milliseconds * all.Quantile(q) })
	arm.Endpoints = medians(rounds, func(k kept) []report.Endpoint { return k.endpoints }, func(e *report.Endpoint) []*float64 {
		return []*float64{&e.Requests, &e.CPU, &e.P50, &e.P99}
	})
	arm.Kinds = medians(rounds, func(k kept) []report.Kind { return k.kinds }, func(k *report.Kind) []*float64 {
		return []*float64{&k.Requests, &k.CPU, &k.P50, &k.P99}
	})
	arm.Series = medians(rounds, func(k kept) []report.Step { return k.steps }, func(s *report.Step) []*float64 {
		return []*float64{&s.Requests, &s.P50, &s.P99, &s.CPU, &s.InFlight}
	})
	for i := range arm.Series {
		arm.Series[i].Errors = 0
		for _, r := range rounds {
			arm.Series[i].Errors += r.steps[i].Errors
		}
	}
	arm.Weights, arm.SettledAfter = rounds[0].weights, rounds[0].settled
	return arm
}

// medians puts lists of all rounds together: what fields points to is the median over them,
// and everything else the first round's. The result is never nil.
func medians[T any](rounds []kept, list func(kept) []T, fields func(*T) []*float64) []T {
	result := append([]T{}, list(rounds[0])...)
	values := make([]float64, len(rounds))
	for i := range result {
		for f, field := range fields(&result[i]) {
			for n, r := range rounds {
				values[n] = *fields(&list(r)[i])[f]
			}
			*field = report.Median(values)
		}
	}
	return result
}
