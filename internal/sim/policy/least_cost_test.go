package policy

import (
	"math"
	"testing"

	"taper.dev/taper/internal/sim"
)

func TestLeastCost(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		policy   sim.NewPolicy
		inFlight []int
		expected []float64
		weights  []uint32
		want     []float64
	}{
		{"the shortest queue", newShortestQueue, []int{3, 1, 2}, []float64{1, 9, 1}, same(3, 1), []float64{0, 1, 0}},
		{"any of the shortest", newShortestQueue, []int{1, 2, 1, 1}, []float64{1, 1, 1, 1}, same(4, 9), []float64{1 / 3., 0, 1 / 3., 1 / 3.}},
		{"the shortest for its weight", newShortestQueue, []int{3, 1, 2}, []float64{1, 1, 1}, []uint32{5, 1, 2}, []float64{1, 0, 0}},
		{"alike for their weights", newShortestQueue, []int{3, 1}, []float64{1, 1}, []uint32{4, 2}, []float64{1 / 2., 1 / 2.}},
		{"the quickest", newAllKnowing, []int{0, 5, 0}, []float64{3, 1, 2}, same(3, 1), []float64{0, 1, 0}},
		{"any of the quickest", newAllKnowing, []int{0, 0, 0}, []float64{1, inf, 1}, same(3, 1), []float64{1 / 2., 0, 1 / 2.}},
		{"any if none answers", newAllKnowing, []int{0, 0}, []float64{inf, inf}, same(2, 1), []float64{1 / 2., 1 / 2.}},
		{"the quickest for its weight", newAllKnowing, []int{0, 0}, []float64{3, 1}, []uint32{4, 1}, []float64{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := len(c.inFlight)
			w := newWorld(n)
			w.inFlight, w.expected = c.inFlight, c.expected
			p := c.policy(w.setting(1))
			p.Assign(upTo(n), c.weights)
			likely(t, frequencies(p, n, 10000), c.want...)
		})
	}
}
