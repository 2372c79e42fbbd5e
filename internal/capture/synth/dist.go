package synth

import (
	"math"
	"math/rand/v2"
	"time"
)

// Dist is a gamma distribution of durations. Its zero value is always 0.
type Dist struct {
	Mean time.Duration
	// Shape is 1 for exponential durations; the larger it is the closer they lie to the
	// mean. 0 is always the mean.
	Shape float64
}

// Constantly is always d.
func Constantly(d time.Duration) Dist { return Dist{Mean: d} }

// Gamma has mean d and the given shape.
func Gamma(d time.Duration, shape float64) Dist { return Dist{Mean: d, Shape: shape} }

func (d Dist) draw(r *rand.Rand) time.Duration {
	if d.Shape == 0 {
		return d.Mean
	}
	return time.Duration(float64(d.Mean) * gamma(r, d.Shape) / d.Shape)
}

// gamma draws from a gamma distribution of scale 1, by Marsaglia and Tsang: A Simple
// Method for Generating Gamma Variables, ACM TOMS 26 (2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
