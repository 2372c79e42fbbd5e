package policy

import (
	"math"
	"testing"

	"taper.dev/taper/internal/sim"
)

func TestPeakDecays(t *testing.T) {
	t.Parallel()
	var k peak
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("knowing nothing", k.load(1), 0)
	k.pending = 3
	near("knowing nothing, with requests", k.load(1), penalty+3)
	k.observe(0.1, 2)
	near("a first latency is a peak", k.cost, 0.1)
	near("with requests under way", k.load(2), 0.4)
	k.pending = 0
	near("after 10 s", k.load(12), 0.1/math.E)
	k.observe(0.01, 12+10*math.Ln2)
	near("a lower one after a half-life", k.cost, 0.1/math.E/2+0.01/2)
	k.observe(0.025, 20)
	near("a slightly higher one counts in full", k.cost, 0.025)
	k.observe(0.2, 20)
	near("a higher one counts in full", k.cost, 0.2)
	k.observe(0.1, 20)
	near("a lower one at the same time does not count", k.cost, 0.2)
}

func TestPeakEWMATakesTheLowerLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		cost    []float64
		pending []int32
		weights []uint32
		want    []float64
	}{
		{"of two the quicker, always", []float64{0.01, 0.02}, []int32{0, 0}, same(2, 1), []float64{1, 0}},
		{"of two the one with fewer requests", []float64{0.01, 0.02}, []int32{3, 0}, same(2, 1), []float64{0, 1}},
		{"of three never the slowest", []float64{0.01, 0.02, 0.03}, []int32{0, 0, 0}, same(3, 1), []float64{2 / 3., 1 / 3., 0}},
		{"not one without an answer", []float64{0.01, 0, 5}, []int32{0, 1, 0}, same(3, 1), []float64{2 / 3., 0, 1 / 3.}},
		{"one that was not tried", []float64{0.01, 0}, []int32{0, 0}, same(2, 1), []float64{0, 1}},
		// The chance of a pair is that of either one first and the other of what is left.
		{"drawn by weight", []float64{0.03, 0.02, 0.01}, []int32{0, 0, 0}, []uint32{1, 2, 2}, []float64{0, 1/5.*1/2 + 2/5.*1/3, 1/5.*1/2 + 2/5.*1/3 + 2*2/5.*2/3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := len(c.cost)
			w := newWorld(n)
			p := newPeakEWMA(w.setting(1)).(*peakEWMA)
			p.Assign(upTo(n), c.weights)
			counts := make([]int, n)
			for range 20000 {
				for i := range c.cost {
					p.peaks[i] = peak{cost: c.cost[i], pending: c.pending[i]}
				}
				counts[p.Pick(0)]++
			}
			likely(t, counts, c.want...)
		})
	}
}

func TestPeakEWMAForgetsThoseWhoLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	p := newPeakEWMA(w.setting(1)).(*peakEWMA)
	p.Assign([]int{1}, same(1, 1))
	p.Pick(0)
	w.now = 5
	p.Done(0, 1, sim.Answer{Latency: 5})
	p.Pick(0)
	if got, want := p.peaks[1], (peak{cost: 5, at: 5, pending: 1}); got != want {
		t.Fatalf("%+v is known, want %+v", got, want)
	}
	w.now = 6
	p.Assign([]int{0}, same(1, 1))
	w.now = 7
	p.Assign([]int{1}, same(1, 1))
	w.now = 8
	p.Done(0, 1, sim.Answer{Latency: 3})
	if p.peaks[1] != (peak{}) {
		t.Errorf("after its return %+v is known", p.peaks[1])
	}
}
