package load

import (
	"math/rand/v2"
	"time"
)

// arrivals is a Poisson process, each arrival of which has a target.
type arrivals struct {
	random  *rand.Rand
	rate    float64 // per second
	targets int
	// at is the last arrival, in seconds since the start.
	at float64
}

func newArrivals(seed uint64, rate float64, targets int) *arrivals {
	return &arrivals{random: rand.New(rand.NewPCG(seed, 0)), rate: rate, targets: targets}
}

// next returns the time of the next arrival since the start, and the index of
// its target.
func (a *arrivals) next() (offset time.Duration, target int) {
	a.at += a.random.ExpFloat64() / a.rate
	return time.Duration(a.at * float64(time.Second)), a.random.IntN(a.targets)
}
