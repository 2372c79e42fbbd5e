package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// sweep is throughput under 1, 2, 4 … users.
func sweep(rates ...float64) []Step {
	var steps []Step
	for i, r := range rates {
		steps = append(steps, Step{1 << i, r})
	}
	return steps
}

func TestPlateau(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		steps []Step
		want  Step
	}{
		{"none", nil, Step{}},
		{"one step", sweep(5), Step{}},
		{"two steps", sweep(5, 5), Step{}},
		{"full from the start", sweep(5, 5, 5), Step{1, 5}},
		{"grows for ever", sweep(1, 2, 4, 8, 16, 32, 64), Step{}},
		{"grows ever more slowly", sweep(100, 130, 160, 180, 195, 210, 222), Step{}},
		{"stops", sweep(1, 2, 4, 8, 8, 8, 8), Step{8, 8}},
		{"just stopped", sweep(1, 2, 4, 8, 8.1, 8.1), Step{8, 8.1}},
		{"only one doubling after", sweep(1, 2, 4, 8, 8), Step{}},
		{"stops between two steps", sweep(1, 2, 4, 6, 6, 6, 6), Step{8, 6}},
		{"collapses", sweep(1, 2, 4, 8, 8, 6, 3, 1), Step{8, 8}},
		{"one odd step", sweep(1, 2, 4, 8, 8, 3, 8, 8), Step{8, 8}},
		{"4 % in two doublings", sweep(1, 2, 4, 8, 8.15, 8.3), Step{8, 8.15}},
		{"6 % in two doublings", sweep(1, 2, 4, 8, 8.24, 8.5), Step{}},
		{"a step without a figure", sweep(1, 2, nan, 8, 8, 8, 8), Step{8, 8}},
		{"failed altogether", sweep(0, 0, 0, 0), Step{}},
		{"in no order, some twice", []Step{{8, 4}, {1, 1}, {4, 4}, {16, 4}, {2, 2}, {16, 4}, {8, 4}}, Step{4, 4}},
		{"not a doubling", []Step{{3, 3}, {5, 5}, {10, 5}, {20, 5}}, Step{5, 5}},
		{"no users, and too many", []Step{{0, 5}, {-1, 5}, {math.MaxInt, 5}}, Step{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Plateau(c.steps)
			if got != c.want || ok != (c.want.Users > 0) {
				t.Errorf("got %v, %v, want %v", got, ok, c.want)
			}
		})
	}
}

func TestNoisyPlateau(t *testing.T) {
	t.Parallel()
	for _, full := range []float64{16, 100, math.Inf(1)} {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			right := 0
			for range *simulated {
				var steps []Step
				for i := range 11 {
					users := math.Exp2(float64(i))
					// As of a closed queueing network: the two asymptotes, rounded off.
					rate := users / math.Pow(1+math.Pow(users/full, 8), 1.0/8)
					steps = append(steps, Step{1 << i, rate * math.Exp(0.03*r.NormFloat64())})
				}
				p, ok := Plateau(steps)
				users := float64(p.Users)
				if ok == !math.IsInf(full, 1) && (!ok || math.Abs(p.Rate/full-1) < 0.1 && users >= full/2 && users <= full*4) {
					right++
				}
			}
			if share := float64(right) / float64(*simulated); share < 0.95-by(0.95, *simulated) {
				t.Errorf("right in %.1f %% of sweeps", 100*share)
			}
		})
	}
}

// alternating is what two backends serve in turn; even is what they serve side by side.
func alternating(n int, jitter float64) [][]int64 {
	r := rand.New(rand.NewPCG(1, 3))
	a, b := make([]int64, n), make([]int64, n)
	for i := range a {
		x := 0.5 + 0.4*math.Sin(float64(i))
		a[i] = int64(1e6 * (x + jitter*r.NormFloat64()))
		b[i] = int64(1e6 * (1 - x + jitter*r.NormFloat64()))
	}
	return [][]int64{a, b}
}

func even(n int, jitter float64) [][]int64 {
	r := rand.New(rand.NewPCG(1, 4))
	served := make([][]int64, 2)
	for i := range served {
		for range n {
			served[i] = append(served[i], int64(1e6*(1+jitter*r.NormFloat64())))
		}
	}
	return served
}

func TestBottleneck(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	full := func(rate float64) []Step { return sweep(rate/4, rate/2, rate, rate, rate, rate) }
	growing := sweep(1, 2, 4, 8, 16, 32)
	for _, c := range []struct {
		name  string
		sweep Sweeps
		want  Hop
		says  string
	}{
		{"nothing known", Sweeps{ClientBusy: nan}, NoneSeen, "still grew"},
		{"the client is full", Sweeps{Through: full(10), Direct: [][]Step{full(10), full(10)}, ClientBusy: 0.95}, Client, "95 %"},
		{"grows", Sweeps{Through: growing, Direct: [][]Step{full(10), full(10)}}, NoneSeen, "32 users"},
		// The article's: one interface at the balancer, as wide as those of the two behind it.
		{"a narrow balancer", Sweeps{Through: full(10), Direct: [][]Step{full(10), full(10)}, Served: alternating(50, 0.02), ClientBusy: 0.3}, Balancer, "take turns"},
		{"a narrow balancer, steady", Sweeps{Through: full(10), Direct: [][]Step{full(10), full(10)}, Served: even(50, 0.1), ClientBusy: 0.3}, Balancer, "50 %"},
		{"a narrow balancer, or client", Sweeps{Through: full(10), Direct: [][]Step{full(10), full(10)}, ClientBusy: nan}, NoneSeen, "may be full as well"},
		{"a very narrow balancer", Sweeps{Through: full(5), Direct: [][]Step{full(10), full(10)}, ClientBusy: nan}, Balancer, "25 %"},
		{"direct still grows, and is more already", Sweeps{Through: full(10), Direct: [][]Step{growing, growing}}, Balancer, "%"},
		{"narrow backends", Sweeps{Through: full(19), Direct: [][]Step{full(10), full(10)}, Served: even(50, 0.1), ClientBusy: 0.5}, Backends, "95 %"},
		{"backends may give more", Sweeps{Through: full(35), Direct: [][]Step{growing}}, NoneSeen, "1 of 1"},
		{"in turns, direct unknown", Sweeps{Through: full(10), Served: alternating(50, 0.02)}, Balancer, "take turns"},
		{"not in turns, direct unknown", Sweeps{Through: full(10), Served: even(50, 0.1)}, NoneSeen, "nobody can say"},
		{"too few points of time", Sweeps{Through: full(10), Served: alternating(10, 0.02)}, NoneSeen, "nobody can say"},
		{"direct failed", Sweeps{Through: full(10), Direct: [][]Step{nil, sweep(0, 0)}}, NoneSeen, "nobody can say"},
		{"one backend served nothing", Sweeps{Through: full(10), Served: [][]int64{make([]int64, 50), make([]int64, 50)}}, NoneSeen, "nobody can say"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Bottleneck(c.sweep)
			if got.Hop != c.want || !strings.Contains(got.Sentence(), c.says) {
				t.Errorf("got %s: %s, want %s: … %s …", got.Hop, got.Sentence(), c.want, c.says)
			}
		})
	}
}
