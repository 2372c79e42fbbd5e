package sim

import "math"

// Logarithms are half of what an exponential draw costs, and there are two for each request:
// so they are taken from a table. The fraction of a float lies in one of so many parts, and
// what is left beyond the middle of its part is small enough for three terms of a series.
const (
	partBits = 9
	parts    = 1 << partBits
)

var inverses, logarithms = func() (inverses, logarithms [parts]float64) {
	for i := range parts {
		middle := 1 + (float64(i)+0.5)/parts
		inverses[i], logarithms[i] = 1/middle, math.Log(middle)
	}
	return inverses, logarithms
}()

// exponential is -ln u of a u in (0, 1], to 1e-12: exponentially distributed, of mean 1,
// where u is uniform.
func exponential(u float64) float64 {
	bits := math.Float64bits(u)
	exponent := float64(int(bits>>fraction) - 1023)
	part := bits >> (fraction - partBits) & (parts - 1)
	rest := math.Float64frombits(bits&(1<<fraction-1)|1023<<fraction)*inverses[part] - 1
	series := rest * (1 - rest*(1./2-rest*(1./3)))
	return max(0, -(exponent*math.Ln2 + logarithms[part] + series))
}
