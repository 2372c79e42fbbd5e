package balance

import "math"

// line is a share as the strategy wants it, as a function of one number x that
// is common to all endpoints: share = constant + slope·x, slope ≥ 0. Every
// strategy here has that form, so one solver serves all.
type line struct{ constant, slope float64 }

// wants returns what the strategy wants of an endpoint with the given cost d =
// demand/capacity (seconds), at the service's load (requests per second).
//
// equal-load makes all utilizations ρ = share·load·d equal: share = x/d.
//
// least-latency minimises Σ λi·Ti with Ti = Di/(1-ρi). The Lagrange condition
// gives ρi = 1 - sqrt(di/θ), which with x = -1/sqrt(θ) is linear in x:
// share = (1 + x·sqrt(d)) / (d·load).
func (s Strategy) wants(cost, load float64) line {
	if s == EqualLoad {
		return line{slope: 1 / cost}
	}
	return line{constant: 1 / (cost * load), slope: math.Sqrt(cost) / (cost * load)}
}

// bound is how far a share may go.
type bound struct{ low, high float64 }

// distribute returns shares that sum to 1, each as near to its line as its bound
// lets it be: it finds x by bisection. Where the bounds cannot be met they give
// way in proportion: too little room above scales the highs up, too much demanded
// below scales the lows down.
func distribute(lines []line, bounds []bound) []float64 {
	shares := make([]float64, len(lines))
	var low, high float64
	for _, b := range bounds {
		low += b.low
		high += b.high
	}
	if high <= 1 || low >= 1 {
		for i, b := range bounds {
			if high <= 1 {
				shares[i] = b.high / high
			} else {
				shares[i] = b.low / low
			}
		}
		return shares
	}
	from, to := bracket(lines, bounds)
	for range 64 {
		x := (from + to) / 2
		if sumAt(lines, bounds, x) < 1 {
			from = x
		} else {
			to = x
		}
	}
	var sum float64
	for i, l := range lines {
		shares[i] = clamp(l.constant+l.slope*to, bounds[i])
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// bracket returns an x at which every share is at its low and one at which every
// share is at its high.
func bracket(lines []line, bounds []bound) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i, l := range lines {
		from = min(from, (bounds[i].low-l.constant)/l.slope)
		to = max(to, (bounds[i].high-l.constant)/l.slope)
	}
	return from, to
}

func sumAt(lines []line, bounds []bound, x float64) float64 {
	var sum float64
	for i, l := range lines {
		sum += clamp(l.constant+l.slope*x, bounds[i])
	}
	return sum
}

func clamp(v float64, b bound) float64 { return max(b.low, min(v, b.high)) }
