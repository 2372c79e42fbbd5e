package balance_test

import (
	"maps"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// settled is the article's service with coarse weights, some decisions later.
func settled(t *testing.T) *service {
	t.Helper()
	s := article(balance.LeastLatency)
	s.policy.EqualWeight = 20
	s.policy.Ramp = s.policy.Interval
	for range 8 {
		s.decide()
	}
	if d := s.decide(); d.Hold.Reason != balance.DeadBand {
		t.Fatalf("not settled: %v", d.Hold)
	}
	return s
}

func TestMembershipAloneMovesNoWeight(t *testing.T) {
	s := settled(t)
	before := maps.Clone(s.weights)
	gone := s.endpoints[3].Address
	s.endpoints = append(append([]model.Endpoint{}, s.endpoints[:3]...), s.endpoints[4:]...)
	s.endpoints = append(s.endpoints, model.Endpoint{Address: "127.0.1.99:8080"})
	// Long after anything was seen: following membership must not release.
	s.now = s.now.Add(time.Hour)
	in := s.input()
	in.Snapshot = nil
	d := balance.Decide(in)
	if d.Hold.Reason != balance.MembershipOnly {
		t.Errorf("hold is %v, want MembershipOnly", d.Hold)
	}
	for address, w := range d.Weights {
		if address != "127.0.1.99:8080" && w != before[address] {
			t.Errorf("%s moved from %d to %d", address, before[address], w)
		}
	}
	if _, there := d.Weights[gone]; there {
		t.Errorf("%s is still there", gone)
	}
}

// A new endpoint has a quarter of the median weight at once, and its whole share
// with the first decision that is an interval away, wherever in the interval it
// joined: two intervals at most.
func TestNewEndpointHasItsShareWithinTwoIntervals(t *testing.T) {
	for _, into := range []float64{0.01, 0.1, 0.5, 0.9, 0.99} {
		s := newService(800, func() balance.Policy {
			p := balance.DefaultPolicy(30 * time.Second)
			p.Capacity, p.EqualWeight, p.Ramp = 2, 20, p.Interval
			return p
		}(), 0.004, 0.004, 0.004, 0.004, 0.004)
		for range 5 {
			s.decide()
		}
		s.endpoints = append(s.endpoints, model.Endpoint{Address: "127.0.1.9:8080"})
		s.demands = append(s.demands, 0.004)
		joined := s.now.Add(time.Duration(into * float64(s.policy.Interval)))
		in := s.input()
		in.Now, in.Snapshot = joined, nil
		d := balance.Decide(in)
		s.weights, s.memory = d.Weights, d.Memory
		if w := d.Weights["127.0.1.9:8080"]; w != 5 {
			t.Errorf("joined %g into the interval: weight %d at once, want 5", into, w)
		}
		for s.now.Add(s.policy.Interval).Sub(joined) <= 2*s.policy.Interval {
			s.decide()
		}
		if share := s.weights.Shares()["127.0.1.9:8080"]; share < 0.95/6 {
			t.Errorf("joined %g into the interval: share %.3f two intervals later, want 1/6; weights %v", into, share, s.weights)
		}
	}
}

// A quarter of 21 is more than 5: it is rounded up.
func TestNewEndpointStartsWithNoLessThanAQuarter(t *testing.T) {
	s := newService(800, balance.DefaultPolicy(30*time.Second), 0.004, 0.004, 0.004, 0.004)
	s.policy.EqualWeight = 20
	in := s.input()
	in.Snapshot, in.Current = nil, model.Weights{}
	for _, e := range s.endpoints[:3] {
		in.Current[e.Address] = 21
	}
	if w := balance.Decide(in).Weights[s.endpoints[3].Address]; w != 6 {
		t.Errorf("beside weights of 21 it starts with %d, want 6", w)
	}
}

func TestRail(t *testing.T) {
	s := settled(t)
	before := maps.Clone(s.weights)
	decide := func(rail balance.Rail) balance.Decision {
		s.now = s.now.Add(s.policy.Interval)
		in := s.input()
		in.Rail = rail
		d := balance.Decide(in)
		s.weights, s.memory = d.Weights, d.Memory
		return d
	}

	d := decide(balance.Rail{State: balance.RailNotRead, Message: "no answer"})
	if d.Hold != (balance.Hold{Reason: balance.RailUnknown, Message: "no answer"}) || !maps.Equal(d.Weights, before) {
		t.Errorf("an unread rail: %v, weights moved: %t", d.Hold, !maps.Equal(d.Weights, before))
	}

	for i := range 8 {
		d = decide(balance.Rail{State: balance.RailExceeded, Message: "errors are 3 %"})
		if d.Hold.Reason != balance.RailBreached {
			t.Fatalf("step %d: %v", i, d.Hold)
		}
		for address, w := range d.Weights {
			if was := before[address]; float64(w) > max(2*float64(was), 10)+1 {
				t.Errorf("step %d: %s jumped from %d to %d", i, address, was, w)
			}
		}
		before = maps.Clone(d.Weights)
	}
	for address, w := range d.Weights {
		if w < 19 || w > 21 {
			t.Errorf("after 8 steps %s has %d, want 20", address, w)
		}
	}
	if d = decide(balance.Rail{}); d.Hold.Reason != "" {
		t.Errorf("after the breach weights stay held: %v", d.Hold)
	}
}

func TestReleaseEndsEqual(t *testing.T) {
	for _, fine := range []bool{false, true} {
		s := settled(t)
		if fine {
			s.policy.EqualWeight = 0
		}
		steps := 0
		for equal := false; !equal; steps++ {
			if steps > 10 {
				t.Fatalf("fine %t: not equal after %d steps: %v", fine, steps, s.weights)
			}
			in := s.input()
			in.Now = s.now.Add(24 * time.Hour) // nothing is fresh, and that is no matter
			s.weights, equal = balance.Release(in)
			if steps == 0 && equal {
				t.Errorf("fine %t: released in one jump", fine)
			}
		}
		first := s.weights[s.endpoints[0].Address]
		for address, w := range s.weights {
			if w != first {
				t.Errorf("fine %t: %s has %d, others %d", fine, address, w, first)
			}
		}
	}
	if weights, equal := balance.Release(balance.Input{}); !equal || len(weights) != 0 {
		t.Errorf("without endpoints: %v, %t; want nothing left to do", weights, equal)
	}
}
