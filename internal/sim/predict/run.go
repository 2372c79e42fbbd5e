package predict

import (
	"context"

	"taper.dev/taper/internal/sim"
)

// run simulates a draw under an arm.
func (p *prediction) run(ctx context.Context, d *draw, a arm) (outcome, error) {
	trial := sim.Trial{Service: p.service(d, p.requests()), NewPolicy: a.kind.New, Seed: d.seed, Steps: 1}
	if a.strategy != "" {
		weights, _ := p.settle(d.belief, d.rate(), a.strategy)
		trial.Weigher = &sim.Weigher{Fixed: weights}
	}
	r, err := sim.Run(ctx, trial)
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		p50: 1000 * r.Latency.Quantile(0.5), p99: 1000 * r.Latency.Quantile(0.99),
		cpu: r.CPU(), saturated: len(r.Saturated) > 0,
	}, nil
}
