package predict

import (
	"context"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/report"
)

// hidden is what CPU metrics do not tell of a service.
type hidden struct {
	sigma, overhead float64
	// fit is nil where today's latency is not known; slope is then by how many milliseconds
	// the distance from p50 to p99 grows with sigma.
	fit   *report.Calibration
	slope float64
}

const (
	// leastSigma and mostSigma bound what is looked for.
	leastSigma, mostSigma = 0.05, 2.5
	// halvings is how often the range of sigma is halved: to 0.01.
	halvings = 8
	// span is over how much of sigma the slope is taken, and reach how much of it a draw's
	// sigma may differ from that of the middle.
	span, reach = 0.15, 0.5
	// middleRuns is with how many seeds the middle is simulated: its error goes into all else.
	middleRuns = 3
)

// calibrate fits sigma and the overhead to today's latency, if that is known.
//
// An overhead that all requests have alike shifts p50 and p99 by the same, so their
// distance is sigma's alone, and grows with it. What is left of p50 is overhead.
func (p *prediction) calibrate(ctx context.Context) (hidden, error) {
	if p.Today == nil || p.relative {
		return hidden{sigma: p.options.Sigma}, nil
	}
	measured := outcome{p50: 1000 * p.Today.P50, p99: 1000 * p.Today.P99}
	low, high := leastSigma, mostSigma
	for n := range halvings {
		p.progress(Progress{Doing: "fitting the model to today's latency", Done: float64(n) / halvings})
		now, err := p.middling(ctx, (low+high)/2, 0)
		if err != nil {
			return hidden{}, err
		}
		if now.distance() < measured.distance() {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	m := hidden{sigma: (low + high) / 2}
	below, err := p.middling(ctx, m.sigma*(1-span), 0)
	if err != nil {
		return hidden{}, err
	}
	above, err := p.middling(ctx, m.sigma*(1+span), 0)
	if err != nil {
		return hidden{}, err
	}
	m.slope = (above.distance() - below.distance()) / (2 * span * m.sigma)
	without, err := p.middling(ctx, m.sigma, 0)
	if err != nil {
		return hidden{}, err
	}
	m.overhead = max(0, measured.p50-without.p50) / 1000
	with, err := p.middling(ctx, m.sigma, m.overhead)
	if err != nil {
		return hidden{}, err
	}
	m.fit = &report.Calibration{
		MeasuredP50: measured.p50, MeasuredP99: measured.p99, SimulatedP50: with.p50, SimulatedP99: with.p99,
		Sigma: m.sigma, OverheadMS: 1000 * m.overhead,
	}
	return m, nil
}

// distance is what a constant overhead does not change.
func (o outcome) distance() float64 { return o.p99 - o.p50 }

// middling is today in the middle of all draws: the mean of a few runs.
func (p *prediction) middling(ctx context.Context, sigma, overhead float64) (outcome, error) {
	chance := random.New(p.options.Seed)
	var mean outcome
	for range middleRuns {
		d := p.middle(chance.Next(), sigma)
		d.overhead = overhead
		o, err := p.run(ctx, &d, p.arms[0])
		if err != nil {
			return outcome{}, err
		}
		mean.p50 += o.p50 / middleRuns
		mean.p99 += o.p99 / middleRuns
	}
	return mean, nil
}

// conditioned draws a service. Where today's latency is known, the draw's sigma is such
// that it would have about that latency: what one assumption makes worse another has to
// make better. It is one step of Newton's, from the sigma of the middle.
func (p *prediction) conditioned(ctx context.Context, seed uint64) (draw, error) {
	d := p.draw(seed, p.hidden.sigma)
	d.overhead = p.hidden.overhead
	if p.hidden.fit == nil {
		d.sigma *= 1 + sigmaRange*(2*random.New(d.seed).Unit()-1)
		return d, nil
	}
	if p.hidden.slope <= 0 {
		return d, nil
	}
	now, err := p.run(ctx, &d, p.arms[0])
	if err != nil {
		return draw{}, err
	}
	lack := p.hidden.fit.MeasuredP99 - p.hidden.fit.MeasuredP50 - now.distance()
	step := max(-reach, min(lack/p.hidden.slope/d.sigma, reach))
	d.sigma = max(leastSigma, min(d.sigma*(1+step), mostSigma))
	return d, nil
}
