package sim

import (
	"math"
	"slices"
)

// Demand is a distribution of what requests cost, in CPU-seconds.
type Demand interface {
	// Of is the demand that a part u (0 < u < 1) of all requests does not exceed.
	Of(u float64) float64
	Mean() float64
}

// Constant is the same for all requests.
type Constant float64

// Of implements [Demand].
func (c Constant) Of(float64) float64 { return float64(c) }

// Mean implements [Demand].
func (c Constant) Mean() float64 { return float64(c) }

// Exponential has this mean.
type Exponential float64

// Of implements [Demand].
func (e Exponential) Of(u float64) float64 { return float64(e) * exponential(1-u) }

// Mean implements [Demand].
func (e Exponential) Mean() float64 { return float64(e) }

// LogNormal is what is usual of services: many cheap requests and a few costly ones.
type LogNormal struct{ median, sigma, mean float64 }

// NewLogNormal has this mean; sigma is the deviation of the logarithm.
func NewLogNormal(mean, sigma float64) LogNormal {
	return LogNormal{mean * math.Exp(-sigma*sigma/2), sigma, mean}
}

// Of implements [Demand].
func (l LogNormal) Of(u float64) float64 {
	return l.median * math.Exp(l.sigma*math.Sqrt2*math.Erfinv(2*u-1))
}

// Mean implements [Demand].
func (l LogNormal) Mean() float64 { return l.mean }

// Empirical is as was measured, with straight lines between the values.
type Empirical struct {
	sorted []float64
	mean   float64
}

// NewEmpirical is of values that were measured, at least one of them.
func NewEmpirical(values []float64) Empirical {
	e := Empirical{sorted: slices.Sorted(slices.Values(values))}
	for _, v := range values {
		e.mean += v / float64(len(values))
	}
	return e
}

// Of implements [Demand].
func (e Empirical) Of(u float64) float64 {
	at := u*float64(len(e.sorted)) - 0.5
	i := int(math.Floor(at))
	if i < 0 {
		return e.sorted[0]
	}
	if i >= len(e.sorted)-1 {
		return e.sorted[len(e.sorted)-1]
	}
	return e.sorted[i] + (at-float64(i))*(e.sorted[i+1]-e.sorted[i])
}

// Mean implements [Demand].
func (e Empirical) Mean() float64 { return e.mean }

// Scaled is another demand, times a factor.
type Scaled struct {
	Demand Demand
	Factor float64
}

// Of implements [Demand].
func (s Scaled) Of(u float64) float64 { return s.Factor * s.Demand.Of(u) }

// Mean implements [Demand].
func (s Scaled) Mean() float64 { return s.Factor * s.Demand.Mean() }
