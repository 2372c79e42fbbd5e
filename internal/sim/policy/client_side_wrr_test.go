package policy

import (
	"math"
	"slices"
	"testing"

	"taper.dev/taper/internal/sim"
)

func TestReportedWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond, utilization float64
		want                   uint32
	}{
		{100, 0.5, 200},
		{100, 0.3, 333},
		{100, 1.6, 62},
		{0.1, 0.5, 1},
		{0, 0.5, 0},
		{100, 0, 0},
		{1e9, 1e-9, math.MaxUint32},
	} {
		if got := reportedWeight(c.perSecond, c.utilization); got != c.want {
			t.Errorf("%v/s at %v is %d, want %d", c.perSecond, c.utilization, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list []uint32
		want uint32
	}{
		{[]uint32{7}, 7},
		{[]uint32{3, 1, 2}, 2},
		{[]uint32{4, 1}, 2},
		{[]uint32{math.MaxUint32, math.MaxUint32}, math.MaxUint32},
	} {
		if got := median(slices.Clone(c.list)); got != c.want {
			t.Errorf("the median of %v is %d, want %d", c.list, got, c.want)
		}
	}
}

// shares lets time pass until the next update and counts 600 picks.
func (w *world) shares(p sim.Policy, servers int) []int {
	w.pass(weightUpdatePeriod)
	counts := make([]int, servers)
	for _, e := range picks(p, 0, 600) {
		counts[e]++
	}
	return counts
}

func TestClientSideWRRLearnsAndForgets(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	p := newClientSideWRR(w.setting(1))
	p.Assign(upTo(3), []uint32{1, 50, 900}) // which do not matter
	w.served = []float64{100, 100, 100}
	w.utilization = []float64{1, 0.5, 0.25}
	report := func(servers ...int) {
		for _, e := range servers {
			p.Done(0, e, sim.Answer{})
		}
	}
	expect := func(when string, want ...int) {
		t.Helper()
		got := w.shares(p, 3)
		for i := range want {
			if got[i] < want[i]-1 || got[i] > want[i]+1 {
				t.Fatalf("%s the shares are %v, want %v", when, got, want)
			}
		}
	}
	expect("without reports", 200, 200, 200)
	w.pass(1)
	report(0, 1)
	expect("in the blackout", 200, 200, 200)
	w.pass(blackoutPeriod - 2.5)
	expect("just before its end", 200, 200, 200)
	// 100, 200, and the median for the third.
	expect("after the blackout", 133, 267, 200)
	report(2)
	w.pass(blackoutPeriod)
	report(0, 1, 2)
	// 100, 200, 400.
	expect("with all reports", 86, 171, 343)
	w.utilization[0] = 0.25
	p.Done(0, 0, sim.Answer{Failed: true})
	expect("after a failure, which reports nothing", 86, 171, 343)
	report(0)
	// 400, 200, 400.
	expect("with news", 240, 120, 240)
	w.pass(weightExpirationPeriod - 5)
	report(1)
	w.pass(5)
	// Only 200 is left, for all.
	expect("with reports that are too old", 200, 200, 200)
	w.utilization[1] = 1
	report(0, 1, 2)
	expect("in the blackout after that", 200, 200, 200)
	w.pass(blackoutPeriod)
	// 400, 100, 400.
	expect("and then", 267, 67, 267)
}

func TestClientSideWRRForgetsThoseWhoLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	p := newClientSideWRR(w.setting(1)).(*clientSideWRR)
	p.Assign(upTo(2), same(2, 1))
	w.served, w.utilization = []float64{10, 10}, []float64{0.1, 0.1}
	w.now = 5
	p.Done(0, 1, sim.Answer{Latency: 1})
	w.now = 10
	p.Assign([]int{0}, same(1, 1))
	w.now = 15
	p.Assign(upTo(2), same(2, 1))
	if p.reports[1] != (report{}) {
		t.Errorf("after its return %+v is known", p.reports[1])
	}
	w.now = 20
	p.Done(0, 1, sim.Answer{Latency: 15})
	if p.reports[1] != (report{}) {
		t.Errorf("by the answer of an old request %+v is known", p.reports[1])
	}
}
