package predict

import (
	"maps"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

const (
	// leastDecisions is after how many the loop has seen rates differ, and with that what its
	// endpoints use when they idle; mostDecisions bounds the way to where weights rest.
	leastDecisions, mostDecisions = 12, 60
)

// settle lets a control loop decide about endpoints of which it knows this, under a rate in
// requests per second, until weights rest. It returns them in the order of the endpoints,
// and the number of decisions that moved them.
//
// The samples that the loop is shown have no noise of their own: how wrong it is about
// demands is in what it is made to know.
func (s *Service) settle(k knowledge, rate float64, strategy balance.Strategy) (weights []uint32, decisions int) {
	p := s.Policy
	p.Strategy = strategy
	now := time.Unix(0, 0)
	// A loop begins by giving everybody the same.
	d := balance.Decide(balance.Input{Now: now, Endpoints: s.Endpoints, Policy: p})
	for n, unmoved := 1, 0; n <= mostDecisions && (n <= leastDecisions || unmoved < 2); n++ {
		now = now.Add(p.Interval)
		next := balance.Decide(balance.Input{
			Now: now, Endpoints: s.Endpoints, Snapshot: s.under(d.Weights, k, rate, now),
			Current: d.Weights, Memory: d.Memory, Policy: p,
		})
		unmoved++
		if !maps.Equal(next.Weights, d.Weights) {
			decisions, unmoved = n, 0
		}
		d = next
	}
	weights = make([]uint32, len(s.Endpoints))
	for i, e := range s.Endpoints {
		weights[i] = d.Weights[e.Address]
	}
	return weights, decisions
}

// under is what would be measured of endpoints with these weights: each uses what its
// share of the requests costs, and no more than it has.
func (s *Service) under(weights model.Weights, k knowledge, rate float64, now time.Time) model.Snapshot {
	samples := make(model.Snapshot, len(s.Endpoints))
	shares := weights.Shares()
	for i, e := range s.Endpoints {
		if k.demand[i] <= 0 {
			continue // it is not measured
		}
		served := min(shares[e.Address]*rate, (e.Capacity-k.idle[i])/k.demand[i])
		samples[e.Address] = model.Sample{
			CPU:      model.Reading{Value: k.idle[i] + served*k.demand[i], At: now},
			Requests: model.Reading{Value: served, At: now},
		}
	}
	return samples
}
