package balance

import "math"

// appetite is what a strategy wants of one endpoint, as a function of one number
// that is common to all of them: the price x. A higher price buys a higher share.
type appetite struct {
	strategy Strategy
	// service is how long a request takes on an idle endpoint, in seconds.
	service float64
	// servers is how many requests run side by side at full speed, ≥ 1.
	servers float64
	// load is the utilization that all of the service's requests would make.
	load float64
}

// newAppetite describes an endpoint with the given demand (CPU-seconds), cores in
// all and cores left for requests, under the service's load (requests per second).
// A request uses one core at a time, and a part of one where there is no whole one.
func newAppetite(s Strategy, demand, cores, free, load float64) appetite {
	return appetite{strategy: s, service: demand / min(1, cores), servers: max(1, cores), load: load * demand / free}
}

// saturation is the price, in service times, at which an endpoint is as good as
// fully used. Bounds may allow more than full use: they come from the load that
// there is, and prices from the load that shares are chosen for.
const saturation = 1e12

// share is what the endpoint should get at the price x > 0.
//
// equal-load makes all utilizations equal: the price is that utilization.
//
// least-latency minimises Σ λi·Ti. The mean response time of c servers that
// share their work is taken as T = S/(1-ρ^c), which is exact for one and for two
// (Gunther, The Practical Performance Analyst, 1998). At the minimum an additional
// request costs the same everywhere, and that is the price:
//
//	x = d(λT)/dλ = S·(1+(c-1)·y)/(1-y)²  with y = ρ^c
//
// which is quadratic in y. For c = 1 it gives ρ = 1 - sqrt(S/x).
func (a *appetite) share(x float64) float64 {
	if a.strategy == EqualLoad {
		return x / a.load
	}
	m := x / a.service
	if m <= 1 {
		return 0 // even an idle endpoint is slower than that
	}
	if m > saturation {
		return math.Inf(1) // it takes what its bound allows
	}
	b := 2*m + a.servers - 1
	// The smaller root, in the form that does not cancel.
	y := 2 * (m - 1) / (b + math.Sqrt(b*b-4*m*(m-1)))
	return root(y, a.servers) / a.load
}

// root is the n-th root, fast for the numbers of cores that are common.
func root(y, n float64) float64 {
	switch n {
	case 1:
		return y
	case 2:
		return math.Sqrt(y)
	case 4:
		return math.Sqrt(math.Sqrt(y))
	}
	return math.Pow(y, 1/n)
}

// bound is how far a share may go.
type bound struct{ low, high float64 }

func clamp(v float64, b bound) float64 { return max(b.low, min(v, b.high)) }

// distribute returns shares that sum to 1, each as near to its appetite as its
// bound lets it be. Where the bounds cannot be met they give way in proportion:
// too little room above scales the highs up, too much demanded below scales the
// lows down.
func distribute(appetites []appetite, bounds []bound) []float64 {
	shares := make([]float64, len(appetites))
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
	low, high = prices(appetites, bounds)
	below, above := -1.0, -1.0
	less := make([]float64, len(appetites))
	for i := range appetites {
		less[i] = clamp(appetites[i].share(low), bounds[i])
		shares[i] = clamp(appetites[i].share(high), bounds[i])
		below += less[i]
		above += shares[i]
	}
	if above <= below {
		return shares // they meet
	}
	// With many cores a share leaps at the price where its endpoint comes into
	// play, and the sum passes 1 in the leap. Both sides keep to the bounds, and so
	// does what lies between them.
	part := -below / (above - below)
	for i := range shares {
		shares[i] = less[i] + part*(shares[i]-less[i])
	}
	return shares
}

// prices closes in on the x at which the shares sum to 1, from both sides. It
// brackets the logarithm of x and goes on by false position (the Illinois variant,
// in which no end stays put) until it is near enough for shares that are rounded
// to weights.
func prices(appetites []appetite, bounds []bound) (below, above float64) {
	const (
		near  = 1e-7 // of all requests
		tries = 60
	)
	excess := func(logX float64) float64 {
		x, sum := math.Exp(logX), -1.0
		for i := range appetites {
			sum += clamp(appetites[i].share(x), bounds[i])
		}
		return sum
	}
	var services float64
	for i := range appetites {
		services += appetites[i].service
	}
	low := math.Log(services / float64(len(appetites)))
	lack := excess(low)
	high, surplus := low, lack
	for step := 0.25; lack > 0 && step < 1<<tries; step *= 2 {
		high, surplus = low, lack
		low -= step
		lack = excess(low)
	}
	for step := 0.25; surplus < 0 && step < 1<<tries; step *= 2 {
		low, lack = high, surplus
		high += step
		surplus = excess(high)
	}
	for range tries {
		if high-low < 1e-12 {
			break
		}
		at := high - surplus*(high-low)/(surplus-lack)
		switch e := excess(at); {
		case math.Abs(e) < near:
			return math.Exp(at), math.Exp(at)
		case e < 0:
			low, lack, surplus = at, e, surplus/2
		default:
			high, surplus, lack = at, e, lack/2
		}
	}
	return math.Exp(low), math.Exp(high)
}
