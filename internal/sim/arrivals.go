package sim

import (
	"taper.dev/taper/internal/random"
)

// Arrivals are when requests come, whatever becomes of those before (an open loop).
type Arrivals interface {
	// Next is the arrival that follows one at a time, n having come before; false if there
	// is none. Times do not fall.
	Next(after float64, n int, r *random.Source) (float64, bool)
	// Rate is the mean rate at a time, per second.
	Rate(at float64) float64
}

// Poisson arrivals are independent of each other. Their rate is that of the last step that
// began; steps rise in time, and the first begins at 0.
type Poisson []RateStep

// RateStep is a rate, per second, from a time on.
type RateStep struct{ From, Rate float64 }

// Next implements [Arrivals].
func (p Poisson) Next(after float64, _ int, r *random.Source) (float64, bool) {
	// What is exponential is the number of arrivals that are expected up to the next one.
	expected := exponential(r.Unit())
	for i := p.step(after); ; i++ {
		rate, last := p[i].Rate, i == len(p)-1
		if last && rate <= 0 {
			return 0, false
		}
		at := after + expected/rate // +Inf at a rate of 0
		if last || at <= p[i+1].From {
			return at, true
		}
		expected -= rate * (p[i+1].From - after)
		after = p[i+1].From
	}
}

// Rate implements [Arrivals].
func (p Poisson) Rate(at float64) float64 { return p[p.step(at)].Rate }

func (p Poisson) step(at float64) int {
	i := len(p) - 1
	for i > 0 && p[i].From > at {
		i--
	}
	return i
}

// Regular arrivals come at equal distances, at this rate per second.
type Regular float64

// Next implements [Arrivals].
func (g Regular) Next(after float64, _ int, _ *random.Source) (float64, bool) {
	return after + 1/float64(g), g > 0
}

// Rate implements [Arrivals].
func (g Regular) Rate(float64) float64 { return float64(g) }

// Trace arrivals are those that were recorded, in seconds since the beginning, rising.
type Trace []float64

// Next implements [Arrivals].
func (t Trace) Next(_ float64, n int, _ *random.Source) (float64, bool) {
	if n >= len(t) {
		return 0, false
	}
	return t[n], true
}

// Rate implements [Arrivals]: it is the mean of the whole.
func (t Trace) Rate(float64) float64 {
	if len(t) == 0 || t[len(t)-1] <= 0 {
		return 0
	}
	return float64(len(t)) / t[len(t)-1]
}
