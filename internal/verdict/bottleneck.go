package verdict

import (
	"fmt"
	"math"
	"strings"
)

// Hop is what may be full on the way to a page.
type Hop string

// The hops.
const (
	Balancer Hop = "balancer"
	Backends Hop = "backends"
	Client   Hop = "client"
	NoneSeen Hop = "none seen"
)

// Sweeps are what is known of the way through a balancer to its backends.
type Sweeps struct {
	// Through is the sweep through the balancer, Direct those to each backend past it.
	Through []Step
	Direct  [][]Step
	// Served is what each backend served per unit of time, when most users came through
	// the balancer: lists of one length, in the order of time.
	Served [][]int64
	// ClientBusy is the largest share, 0 to 1, of its CPUs or of its interface that the
	// client used in any sweep; NaN if that is not known.
	ClientBusy float64
}

// Full is the hop that limits throughput, and why that is believed: a clause for each
// reason.
type Full struct {
	Hop     Hop
	Reasons []string
}

const (
	// ClientFull is from where on a client says nothing about others, as a share of the time.
	ClientFull = 0.9
	// allOf is what share of what backends give directly is all that they can give: they
	// share machines, and a balancer does not fill them evenly.
	allOf = 0.8
	// asMuch is within what share two throughputs are the same.
	asMuch = 0.1
	// turns is below which ratio of variances backends take turns, flat how little their sum
	// then varies, and unsteady how much they must; fewTimes is how many points of time that
	// takes: of 10, two that have nothing to do with each other seem to 7 times of 100.
	turns, flat, unsteady, fewTimes = 0.5, 0.1, 0.05, 20
)

// Bottleneck says which hop is full. A balancer is if, through it, throughput stops growing
// well below what its backends give one by one; then, backends may be seen to take turns:
// what one gains another loses, while their sum stays flat.
func Bottleneck(s Sweeps) Full {
	if s.ClientBusy >= ClientFull {
		return Full{Client, []string{fmt.Sprintf("the client itself was %.0f %% busy: nothing can be said about the others", 100*s.ClientBusy)}}
	}
	through, ok := Plateau(s.Through)
	if !ok {
		return Full{NoneSeen, []string{fmt.Sprintf("throughput through the balancer still grew with %d users", mostUsers(s.Through))}}
	}
	direct := capacities(s.Direct)
	swing, takeTurns := seesaw(s.Served)
	if direct.known == 0 {
		return withoutDirect(through, swing, takeTurns)
	}
	share := through.Rate / direct.sum
	switch {
	case share >= allOf && direct.growing > 0:
		return Full{NoneSeen, []string{fmt.Sprintf("past the balancer, throughput of %d of %d backends still grew", direct.growing, direct.known)}}
	case share >= allOf:
		return Full{Backends, []string{fmt.Sprintf(
			"through the balancer they give %.0f %% of what they give one by one past it, with %d users and more", 100*share, through.Users)}}
	case math.IsNaN(s.ClientBusy) && math.Abs(through.Rate/direct.most-1) <= asMuch:
		return Full{NoneSeen, []string{"one backend alone gives as much as all through the balancer, and how busy the client was is not known: it may be full as well"}}
	}
	why := []string{fmt.Sprintf("throughput stops growing at %d users, at %.0f %% of what the backends give one by one past the balancer", through.Users, 100*share)}
	if takeTurns {
		why = append(why, inTurns(swing))
	}
	return Full{Balancer, why}
}

func withoutDirect(through Step, swing float64, takeTurns bool) Full {
	why := fmt.Sprintf("throughput stops growing at %d users", through.Users)
	if takeTurns {
		return Full{Balancer, []string{why, inTurns(swing)}}
	}
	return Full{NoneSeen, []string{why, "without the backends' own throughput, past the balancer, nobody can say why"}}
}

func inTurns(swing float64) string {
	return fmt.Sprintf("the backends take turns: their sum varies %.0f %% as much as they would if each were on its own", 100*swing)
}

// Sentence is the reasons in one.
func (f Full) Sentence() string { return strings.Join(f.Reasons, "; ") }

func mostUsers(steps []Step) int {
	most := 0
	for _, s := range steps {
		most = max(most, s.Users)
	}
	return most
}

// capacity is what backends give past the balancer.
type capacity struct {
	sum, most float64
	// known is of how many, growing how many of them may give still more.
	known, growing int
}

func capacities(direct [][]Step) capacity {
	var c capacity
	for _, steps := range direct {
		rate := 0.0
		if p, ok := Plateau(steps); ok {
			rate = p.Rate
		} else if usable := byUsers(steps); len(usable) > 0 {
			rate = peak(usable)
			c.growing++
		} else {
			continue
		}
		c.known++
		c.sum += rate
		c.most = max(c.most, rate)
	}
	return c
}

// seesaw is the variance of the sum over the sum of variances: 1 if backends have nothing
// to do with each other, more if they rise and fall together, 0 if what one gains others
// lose. It is true if they take turns.
func seesaw(served [][]int64) (float64, bool) {
	if len(served) < 2 {
		return 0, false
	}
	n := len(served[0])
	for _, s := range served {
		n = min(n, len(s))
	}
	if n < fewTimes {
		return 0, false
	}
	sum := make([]float64, n)
	apart := 0.0
	for _, s := range served {
		one := make([]float64, n)
		for i := range n {
			one[i] = float64(s[i])
			sum[i] += one[i]
		}
		_, v := moments(one)
		apart += v
	}
	mean, together := moments(sum)
	if apart == 0 || mean <= 0 {
		return 0, false
	}
	swing := together / apart
	return swing, swing < turns && math.Sqrt(together) < flat*mean && math.Sqrt(apart) > unsteady*mean
}

// moments are the mean and the variance.
func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, variance
}
