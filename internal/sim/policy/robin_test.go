package policy

import (
	"math"
	"slices"
	"testing"

	"taper.dev/taper/internal/sim"
)

func TestRandomIsInProportionToWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weights []uint32
		want    []float64
	}{
		{same(4, 9), []float64{0.25, 0.25, 0.25, 0.25}},
		{[]uint32{1, 2, 3, 4}, []float64{0.1, 0.2, 0.3, 0.4}},
		{[]uint32{1, 1000}, []float64{1 / 1001., 1000 / 1001.}},
		{[]uint32{1, math.MaxUint32}, []float64{1. / (1 << 32), 1 - 1./(1<<32)}},
	} {
		w := newWorld(len(c.weights))
		p := newRandom(w.setting(1))
		p.Assign(upTo(len(c.weights)), c.weights)
		likely(t, frequencies(p, len(c.weights), 100000), c.want...)
	}
}

func picks(p sim.Policy, proxy, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = p.Pick(proxy)
	}
	return list
}

func TestRoundRobinTakesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(5)
	p := newRoundRobin(w.setting(20))
	p.Assign(upTo(5), same(5, 3))
	starts := map[int]bool{}
	for proxy := range 20 {
		got := picks(p, proxy, 12)
		starts[got[0]] = true
		for i, e := range got {
			if e != (got[0]+i)%5 {
				t.Fatalf("proxy %d picks %v", proxy, got)
			}
		}
	}
	if len(starts) < 4 {
		t.Errorf("of 20 proxies the first picks are only %v", starts)
	}
	// The place outlives a change, counted in picks.
	r := p.(*roundRobin).rotations[7]
	p.Assign([]int{0, 2, 3}, same(3, 1))
	if got, want := p.Pick(7), []int{0, 2, 3}[r.place%3]; got != want {
		t.Errorf("after a change %d is picked, want %d", got, want)
	}
}

func TestRoundRobinIsInProportionToWeight(t *testing.T) {
	t.Parallel()
	w := newWorld(4)
	p := newRoundRobin(w.setting(20))
	p.Assign([]int{0, 1, 3}, []uint32{1, 2, 3})
	starts := map[int]bool{}
	for proxy := range 20 {
		got := picks(p, proxy, 60)
		starts[got[0]] = true
		counts := make([]int, 4)
		for _, e := range got {
			counts[e]++
		}
		if !slices.Equal(counts, []int{10, 20, 0, 30}) {
			t.Fatalf("proxy %d picks %v", proxy, counts)
		}
	}
	if len(starts) != 3 {
		t.Errorf("of 20 proxies the first picks are only %v", starts)
	}
}

// As in Envoy, a schedule begins at the same place again after each change.
func TestRoundRobinBeginsAfreshWithOtherWeights(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	p := newRoundRobin(w.setting(1))
	p.Assign(upTo(3), []uint32{1, 2, 3})
	first := picks(p, 0, 5)
	p.Assign(upTo(3), []uint32{1, 2, 3})
	if again := picks(p, 0, 5); !slices.Equal(first, again) {
		t.Errorf("it begins with %v and then with %v", first, again)
	}
}
