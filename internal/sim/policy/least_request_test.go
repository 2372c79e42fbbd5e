package policy

import (
	"math"
	"testing"

	"taper.dev/taper/internal/sim"
)

func newLeastRequest(w *world, l LeastRequest, weights ...uint32) *leastRequest {
	p := l.New(w.setting(1)).(*leastRequest)
	p.Assign(upTo(len(weights)), weights)
	return p
}

// The more loaded of two is taken only if each draw is it.
func TestLeastRequestTakesTheLessLoaded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		choices int
		active  []int32
		want    []float64
	}{
		{2, []int32{0, 1}, []float64{3 / 4., 1 / 4.}},
		{2, []int32{5, 2}, []float64{1 / 4., 3 / 4.}},
		{2, []int32{3, 3}, []float64{1 / 2., 1 / 2.}},
		{2, []int32{0, 1, 2}, []float64{5 / 9., 3 / 9., 1 / 9.}},
		{3, []int32{0, 1}, []float64{7 / 8., 1 / 8.}},
		{1, []int32{0, 9}, []float64{1 / 2., 1 / 2.}},
	} {
		n := len(c.active)
		p := newLeastRequest(newWorld(n), LeastRequest{c.choices, 1}, same(n, 100)...)
		copy(p.active, c.active)
		likely(t, frequencies(p, n, 40000), c.want...)
	}
}

// With unequal weights and constant numbers of active requests, shares are exactly those of
// weight/(active+1)^bias.
func TestLeastRequestSharesByWeightAndActive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bias    float64
		weights []uint32
		active  []int32
	}{
		{1, []uint32{1, 2, 3}, []int32{0, 0, 0}},
		{1, []uint32{1, 2, 3}, []int32{0, 3, 1}},
		{1, []uint32{100, 101}, []int32{9, 0}},
		{0, []uint32{1, 2, 3}, []int32{0, 3, 1}},
		{2, []uint32{1, 2, 3}, []int32{0, 3, 1}},
		{0.5, []uint32{1, 2, 3}, []int32{8, 3, 1}},
	} {
		n := len(c.weights)
		p := newLeastRequest(newWorld(n), LeastRequest{2, c.bias}, c.weights...)
		copy(p.active, c.active)
		effective, sum := make([]float64, n), 0.0
		for i := range effective {
			effective[i] = float64(c.weights[i]) / math.Pow(float64(c.active[i]+1), c.bias)
			sum += effective[i]
		}
		const picks = 10000
		for i, got := range frequencies(p, n, picks) {
			if want := picks * effective[i] / sum; math.Abs(float64(got)-want) > 2 {
				t.Errorf("%+v: endpoint %d was picked %d times, want %.1f ± 2", c, i, got, want)
			}
		}
	}
}

// An endpoint's turn is fixed when it is picked: what it gets to do afterwards counts only
// for the turn after that.
func TestLeastRequestFixesTurnsWhenPicking(t *testing.T) {
	t.Parallel()
	p := newLeastRequest(newWorld(2), EnvoyLeastRequest, 2, 3)
	p.schedules[0].seed = 0
	const slow, busy = 0, 1 // their turns are every 1/2 and every 1/3
	pick := func(want int) {
		t.Helper()
		if got := p.Pick(0); got != want {
			t.Fatalf("%d is picked, want %d", got, want)
		}
		if want == slow {
			p.Done(0, slow, sim.Answer{})
		}
	}
	pick(busy)
	p.active[busy] = 98
	pick(slow) // at 1/2
	pick(busy) // at 2/3, and then 33 later
	for range 66 {
		pick(slow) // at 1, 1½, … 33½
	}
	pick(busy)
}

func TestLeastRequestCountsByProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	p := EnvoyLeastRequest.New(w.setting(2)).(*leastRequest)
	p.Assign(upTo(2), same(2, 1))
	for range 10 {
		p.Pick(0)
	}
	if got := p.active[0] + p.active[1]; got != 10 {
		t.Errorf("proxy 0 has %d requests under way, want 10", got)
	}
	if got := p.active[2] + p.active[3]; got != 0 {
		t.Errorf("proxy 1 has %d requests under way, want none", got)
	}
}

// An endpoint that leaves and comes back is a new one: it has no requests, and the ends of
// those that it had do not count.
func TestLeastRequestForgetsThoseWhoLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	p := EnvoyLeastRequest.New(w.setting(2)).(*leastRequest)
	p.Assign([]int{1}, []uint32{1})
	w.now = 10
	p.Pick(0)
	p.Pick(0)
	p.Assign([]int{0, 1}, []uint32{1, 2}) // a change, by which it keeps them
	if p.active[1] != 2 {
		t.Fatalf("after a change it has %d requests, want 2", p.active[1])
	}
	w.now = 20
	p.Assign([]int{0}, []uint32{1})
	w.now = 21
	p.Done(0, 1, sim.Answer{Latency: 11})
	w.now = 30
	p.Assign([]int{0, 1}, []uint32{1, 1})
	if p.active[1] != 0 {
		t.Fatalf("after its return it has %d requests, want none", p.active[1])
	}
	p.active[0] = 1000
	for p.Pick(0) != 1 {
	}
	w.now = 40
	p.Done(0, 1, sim.Answer{Latency: 30})
	if p.active[1] != 1 {
		t.Errorf("after the end of an old request it has %d, want 1", p.active[1])
	}
	p.Done(0, 1, sim.Answer{Latency: 10})
	if p.active[1] != 0 {
		t.Errorf("after the end of its request it has %d, want none", p.active[1])
	}
}
