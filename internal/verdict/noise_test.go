package verdict

import (
	"flag"
	"math"
	"math/rand/v2"
)

// simulated is how many runs the simulations have. More of them say the same more sharply:
// go test ./internal/verdict -simulated 10000 -every 1.
var simulated = flag.Int("simulated", 60, "runs of each simulation")

// every is after how many rounds simulated runs ask whether that is enough.
var every = flag.Int("every", 10, "rounds after which simulated runs look whether they have enough")

// noise is what a path does to the figures of its trials. A process begins anew for each
// run; each call is one trial, as a factor around 1.
type noise struct {
	name string
	// begin gives the trials of a run.
	begin func(*rand.Rand) func() float64
	// short is the share of runs in which an interval of fewer than 40 trials holds the
	// median, if that is less than it should be: slow noise does not show in a short run.
	short float64
}

// around is independent noise.
func around(draw func(*rand.Rand) float64) func(*rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 { return func() float64 { return draw(r) } }
}

// autoregressive noise, of first order, 5 % wide.
func autoregressive(phi float64) func(*rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 {
		x := r.NormFloat64()
		return func() float64 {
			x = phi*x + math.Sqrt(1-phi*phi)*r.NormFloat64()
			return math.Exp(0.05 * x)
		}
	}
}

// modes are two, ±30 %, as of threads that share a CPU or do not; stay is how likely a
// trial is to be in the mode of the one before, apart from chance.
func modes(stay float64) func(*rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 {
		fast := r.Float64() < 0.4
		return func() float64 {
			if r.Float64() >= stay {
				fast = r.Float64() < 0.4
			}
			mode := 0.7
			if fast {
				mode = 1.3
			}
			return mode * math.Exp(0.02*r.NormFloat64())
		}
	}
}

// noises are independent from trial to trial.
var noises = []noise{
	{name: "normal", begin: around(func(r *rand.Rand) float64 { return math.Exp(0.05 * r.NormFloat64()) })},
	{name: "lognormal", begin: around(func(r *rand.Rand) float64 { return math.Exp(0.5 * r.NormFloat64()) })},
	{name: "exponential", begin: around(func(r *rand.Rand) float64 { return 1 + 0.3*r.ExpFloat64() })},
	{name: "bimodal", begin: modes(0)},
	{name: "heavy tail", begin: around(func(r *rand.Rand) float64 { return 1 + 0.05*math.Pow(1-r.Float64(), -1/1.1) })}, // Pareto, no variance
	{name: "outliers", begin: around(func(r *rand.Rand) float64 {
		if r.Float64() < 0.1 {
			return 0.3
		}
		return math.Exp(0.03 * r.NormFloat64())
	})},
}

// slow noise makes neighbours alike.
var slow = []noise{
	{name: "autocorrelated 0.3", begin: autoregressive(0.3), short: 0.90},
	{name: "autocorrelated 0.5", begin: autoregressive(0.5), short: 0.84},
	{name: "bimodal, modes that last", begin: modes(0.5), short: 0.82},
}

// trueMedian is the median of what a noise gives, from very many trials.
func (n noise) trueMedian() float64 {
	r := rand.New(rand.NewPCG(1, 2))
	next := n.begin(r)
	values := make([]float64, 100_001)
	for i := range values {
		values[i] = next()
	}
	return Median(values)
}

func trials(n int, next func() float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = next()
	}
	return values
}
