package study

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/scenario"
)

// Sweep simulates every arm in every round at every value of a parameter, which is one that
// [scenario.Scenario.Vary] knows. All values have the same luck. It fails when the context
// ends, for a parameter or a value that cannot be, and with [TooLarge].
func Sweep(ctx context.Context, s *scenario.Scenario, parameter string, values []float64, o Options) (*report.Sweep, error) {
	result := &report.Sweep{
		Scenario: s.Name, Started: time.Now().UTC().Truncate(time.Second), Settings: settings(s), Simulation: *about(s),
		Parameter: parameter, Values: values, Arms: make([]report.SweptArm, len(s.Arms)),
	}
	var all []trial
	for _, v := range values {
		varied, err := s.Vary(parameter, v)
		if err != nil {
			return nil, err
		}
		all = append(all, trials(varied, 1, fmt.Sprintf(" at %s %g", parameter, v))...)
	}
	rounds, err := run(ctx, all, o, func(_ *trial, r *sim.Result) report.Round { return figures(r) })
	if err != nil {
		return nil, err
	}
	for i, a := range s.Arms {
		swept := report.SweptArm{Name: a.Name, Bound: a.Bound}
		for n, v := range values {
			arm := report.Arm{}
			for round := range s.Rounds {
				arm.Rounds = append(arm.Rounds, rounds[(n*s.Rounds+round)*len(s.Arms)+i])
			}
			arm.Conclude()
			swept.Points = append(swept.Points, report.NewPoint(v, &arm))
		}
		result.Arms[i] = swept
	}
	return result, nil
}
