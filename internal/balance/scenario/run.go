package scenario

import (
	"errors"
	"fmt"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// start is when every scenario begins. Its value does not matter.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxDecisions bounds a run.
const maxDecisions = 1_000_000

// Run plays the scenario, one decision per control interval, and returns every
// expectation that did not hold, each with its line.
func (s *Scenario) Run() error {
	var (
		failures []error
		memory   balance.Memory
		weights  model.Weights
	)
	last := s.evals[len(s.evals)-1].at
	if int64(last/s.policy.Interval) > maxDecisions {
		return fmt.Errorf("the last eval is more than %d intervals away", maxDecisions)
	}
	pending := s.evals
	for at := s.policy.Interval; len(pending) > 0; at += s.policy.Interval {
		members := s.membersAt(at)
		d := balance.Decide(balance.Input{
			Now: start.Add(at), Endpoints: members, Snapshot: s.sample(at, weights, members),
			Current: weights, Memory: memory, Policy: s.policy,
		})
		memory, weights = d.Memory, d.Weights
		for len(pending) > 0 && pending[0].at < at+s.policy.Interval {
			failures = append(failures, pending[0].verify(d)...)
			pending = pending[1:]
		}
	}
	return errors.Join(failures...)
}

func (s *Scenario) membersAt(at time.Duration) []model.Endpoint {
	var members []model.Endpoint
	for _, e := range s.endpoints {
		if at >= e.from && (e.until == 0 || at < e.until) {
			members = append(members, model.Endpoint{Address: e.name, Name: e.name, Capacity: e.capacity})
		}
	}
	return members
}

// sample is what is measured at that time, over the interval before it.
func (s *Scenario) sample(at time.Duration, weights model.Weights, members []model.Endpoint) model.Snapshot {
	if s.serve != nil {
		return s.serve.sample(at, weights, members)
	}
	snapshot := model.Snapshot{}
	for _, r := range s.series {
		value, step := r.newest(int(at/s.step) - 1)
		if value == nil {
			continue
		}
		reading := model.Reading{Value: *value, At: start.Add(time.Duration(step+1) * s.step)}
		sample := snapshot[r.name]
		switch r.metric {
		case "cpu":
			sample.CPU = reading
		case "requests":
			sample.Requests = reading
		case "inflight":
			sample.InFlight = reading
		}
		snapshot[r.name] = sample
	}
	return snapshot
}

// newest returns the last value at or before the given step and the step it is
// from, as an instant query with a look-back does.
func (r series) newest(step int) (*float64, int) {
	for i := min(step, len(r.values)-1); i >= 0; i-- {
		if r.values[i] != nil {
			return r.values[i], i
		}
	}
	return nil, 0
}

// sample shares the load out by weights.
func (v *serve) sample(at time.Duration, weights model.Weights, members []model.Endpoint) model.Snapshot {
	shares := map[string]float64{}
	var total float64
	for _, m := range members {
		w := max(1, float64(weights[m.Address]))
		shares[m.Address] = w
		total += w
	}
	snapshot := model.Snapshot{}
	now := start.Add(at)
	for _, m := range members {
		if v.dark(m.Address, at) {
			continue
		}
		rate := v.rate * shares[m.Address] / total
		snapshot[m.Address] = model.Sample{
			CPU:      model.Reading{Value: v.idle + rate*v.demandOf(m.Address, at), At: now},
			Requests: model.Reading{Value: rate, At: now},
		}
	}
	return snapshot
}

func (v *serve) demandOf(name string, at time.Duration) float64 {
	var seconds float64
	for _, d := range v.demands {
		if d.name == name && at > d.from {
			seconds = d.seconds
		}
	}
	return seconds
}

func (v *serve) dark(name string, at time.Duration) bool {
	for _, b := range v.noCPU {
		if (b.name == name || b.name == "all") && at > b.from && (b.until == 0 || at <= b.until) {
			return true
		}
	}
	return false
}
