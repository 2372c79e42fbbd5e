package balance_test

import (
	"math"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// neighbourhood is a service of endpoints with two cores each, as configured, of which they
// get some; what does not fit queues up. Requests also wait for something else.
type neighbourhood struct {
	*service
	gets    []float64 // cores
	backlog []float64 // requests
	waits   float64   // seconds, for each request
	far     []float64 // more of that, by endpoint; nil for none
}

func newNeighbourhood(rate, demand float64, gets ...float64) *neighbourhood {
	p := balance.DefaultPolicy(30 * time.Second)
	p.Capacity = 2
	demands := make([]float64, len(gets))
	for i := range demands {
		demands[i] = demand
	}
	return &neighbourhood{service: newService(rate, p, demands...), gets: gets, backlog: make([]float64, len(gets))}
}

// decide lets an interval pass; with timed, requests in flight are measured too.
func (n *neighbourhood) decide(timed bool) balance.Decision {
	n.now = n.now.Add(n.policy.Interval)
	in := n.input()
	for i, ep := range n.endpoints {
		s := in.Snapshot[ep.Address]
		arrive, most := s.Requests.Value, n.gets[i]/n.demands[i]
		seconds := n.policy.Interval.Seconds()
		served := min(most, arrive+n.backlog[i]/seconds)
		busy := n.backlog[i]
		n.backlog[i] = max(0, n.backlog[i]+(arrive-served)*seconds)
		busy = (busy + n.backlog[i]) / 2
		if rho := arrive / most; rho < 0.999 {
			busy += arrive * n.demands[i] / min(1, n.gets[i]) / (1 - math.Pow(rho, max(1, n.gets[i])))
		}
		s.Requests.Value, s.CPU.Value = served, served*n.demands[i]
		waits := n.waits
		if n.far != nil {
			waits += n.far[i]
		}
		if timed {
			s.InFlight = model.Reading{Value: busy + served*waits, At: n.now}
		}
		in.Snapshot[ep.Address] = s
	}
	d := balance.Decide(in)
	n.weights, n.memory = d.Weights, d.Memory
	return d
}

func (n *neighbourhood) share(i int) float64 { return n.weights.Shares()[n.endpoints[i].Address] }

func TestCapacityIsLearntFromLatency(t *testing.T) {
	t.Parallel()
	// 1.2 of the first one's two cores are stolen: at an equal share it is overloaded.
	robbed := []float64{0.8, 2, 2, 2, 2}
	for _, waits := range []float64{0, 0.005, 0.100} {
		n := newNeighbourhood(1000, 0.005, robbed...)
		n.waits = waits
		var d balance.Decision
		for range 20 {
			d = n.decide(true)
		}
		if n.backlog[0] > 1 {
			t.Errorf("all wait %v s: %.0f requests are left waiting at the robbed one", waits, n.backlog[0])
		}
		if c := d.Verdicts[0].Capacity; c < 0.6 || c > 1.3 {
			t.Errorf("all wait %v s: the robbed one is taken for %.2f cores, has 0.8", waits, c)
		}
		for i := 1; i < len(robbed); i++ {
			if c := d.Verdicts[i].Capacity; c < 1.9 || c > 2.1 {
				t.Errorf("all wait %v s: endpoint %d is taken for %.2f cores, has 2", waits, i, c)
			}
		}
	}
}

func TestCapacityIsNotLearntWithoutLatency(t *testing.T) {
	t.Parallel()
	n := newNeighbourhood(1000, 0.005, 0.8, 2, 2, 2, 2)
	var d balance.Decision
	for range 20 {
		d = n.decide(false)
	}
	for _, v := range d.Verdicts {
		if v.Capacity != 2 {
			t.Errorf("%s is taken for %v cores: nothing says so", v.Address, v.Capacity)
		}
	}
}

func TestCapacityThatReturnsIsFound(t *testing.T) {
	t.Parallel()
	n := newNeighbourhood(1000, 0.005, 0.8, 2, 2, 2, 2)
	for range 20 {
		n.decide(true)
	}
	low := n.share(0)
	n.gets[0] = 2
	for range 60 {
		n.decide(true)
	}
	if high := n.share(0); high < 0.95*0.2 {
		t.Errorf("its cores are back for 60 intervals and its share went from %.3f to %.3f only", low, high)
	}
}

// What all wait for alike says nothing about any of them, however unequal they are.
func TestCommonWaitsAreNobodys(t *testing.T) {
	t.Parallel()
	n := newNeighbourhood(600, 0, 2, 2, 2)
	n.demands = []float64{0.002, 0.004, 0.008}
	for range 10 {
		n.decide(true)
	}
	without := []float64{n.share(0), n.share(1), n.share(2)}
	n.waits = 0.05
	for range 20 {
		n.decide(true)
	}
	for i, before := range without {
		if now := n.share(i); math.Abs(now/before-1) > 0.1 {
			t.Errorf("endpoint %d had a share of %.3f, and %.3f since all wait 50 ms", i, before, now)
		}
	}
}

func TestNearlyEqualSharesAreEqual(t *testing.T) {
	t.Parallel()
	p := balance.DefaultPolicy(30 * time.Second)
	p.Capacity = 2
	for _, test := range []struct {
		first float64 // demand of one of four; the others' is 4 ms
		equal bool
	}{{0.00424, true}, {0.00376, true}, {0.0050, false}, {0.0030, false}} {
		s := newService(800, p, test.first, 0.004, 0.004, 0.004)
		for range 6 {
			s.decide()
		}
		first, second := s.weights[s.endpoints[0].Address], s.weights[s.endpoints[1].Address]
		if equal := first == second; equal != test.equal {
			t.Errorf("demands of %v and 0.004: weights %d and %d", test.first, first, second)
		}
	}
}

// Latency may have other reasons than cores: half of these wait for something that is far
// away. They must not be taken for so small that the others are overloaded.
func TestUnequalWaitsOverloadNobody(t *testing.T) {
	t.Parallel()
	gets := []float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}
	for _, far := range []float64{0.005, 0.1} {
		for _, utilization := range []float64{0.4, 0.6, 0.75} {
			n := newNeighbourhood(utilization*10*2/0.002, 0.002, gets...)
			n.waits, n.far = 0.005, []float64{0, 0, 0, 0, 0, far, far, far, far, far}
			for range 60 {
				n.decide(true)
				for i := range gets {
					if rho := n.rate * n.share(i) * n.demands[i] / gets[i]; rho > 0.86 {
						t.Fatalf("%v s further away, at %v: endpoint %d is used to %.3f", far, utilization, i, rho)
					}
				}
			}
		}
	}
}

// With little room left, all go a little over the limit before the robbed ones are asked for
// more than they have.
func TestRobbedEndpointsKeepUpUnderLoad(t *testing.T) {
	t.Parallel()
	gets := []float64{0.8, 2, 2, 2, 2}
	n := newNeighbourhood(0.78*8.8/0.005, 0.005, gets...)
	for range 40 {
		n.decide(true)
	}
	for i := range gets {
		if rho := n.rate * n.share(i) * n.demands[i] / gets[i]; rho > 0.97 {
			t.Errorf("endpoint %d is used to %.2f", i, rho)
		}
	}
}
