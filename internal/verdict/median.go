package verdict

import (
	"math"
	"slices"
)

// usable tells whether a figure can be compared by its logarithm: an early end (NaN), and
// what no measurement gives, cannot.
func usable(v float64) bool { return v > 0 && !math.IsInf(v, 1) }

// kept are the usable ones, in their order.
func kept(values []float64) []float64 {
	var k []float64
	for _, v := range values {
		if usable(v) {
			k = append(k, v)
		}
	}
	return k
}

func logarithms(values []float64) []float64 {
	logs := make([]float64, len(values))
	for i, v := range values {
		logs[i] = math.Log(v)
	}
	return logs
}

// Median of a list that may be in any order; NaN for an empty one.
func Median(values []float64) float64 { return sortedMedian(slices.Sorted(slices.Values(values))) }

func sortedMedian(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	// Halves first: the sum of two large figures might be too large.
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// sigma makes a median absolute deviation, or a quarter's distance from the median, the
// standard deviation that it would belong to if figures were normal: 1/Φ⁻¹(3/4).
const sigma = 1.4826

// deviation is the median absolute deviation around a centre, times [sigma].
func deviation(values []float64, centre float64) float64 {
	from := make([]float64, len(values))
	for i, v := range values {
		from[i] = math.Abs(v - centre)
	}
	return sigma * Median(from)
}

// normalQuantile is Φ⁻¹: what a standard normal figure is not above, with a probability.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
