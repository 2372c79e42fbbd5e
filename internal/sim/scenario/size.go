package scenario

import (
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// What a run keeps, in bytes. Lists grow by doubling, so each counts for more than its
// items are.
const (
	// perServer is a server, its requests that are usual, its result and its histogram.
	perServer = 4 << 10
	// perLoop is what a control loop keeps of each server, and what of its snapshots and
	// decisions is not collected yet. (Measured with 10,000 servers.)
	perLoop = 16 << 10
	// perDecision is a weight of a decision, kept for each server.
	perDecision = 4
	// perRequest is one in flight, perTimeout one that a proxy's patience may end.
	perRequest = 200
	perTimeout = 40
	// perRun is the series and the whole histogram.
	perRun = 2 << 20
	// perNumber is one of a trace or of measured demands.
	perNumber = 8
)

// Bytes is about what memory one run takes, of the arm that takes the most. Requests that
// pile up are counted as with equal shares.
func (s *Scenario) Bytes() int64 {
	service := &s.Service
	servers := float64(len(service.Servers))
	length := service.WarmUp + service.Measure
	rest := perRun + perServer*servers + s.inFlight(length)*perRequest + service.Timeout*s.rate()*perTimeout
	if trace, ok := service.Arrivals.(sim.Trace); ok {
		rest += perNumber * float64(len(trace))
	}
	var most float64
	for i := range s.Arms {
		a := &s.Arms[i]
		var bytes float64
		if k, err := policy.Find(a.Policy); err == nil {
			proxies := float64(service.Proxies)
			bytes = proxies*servers*float64(k.BytesPerPair) + proxies*float64(k.BytesPerProxy) + servers*float64(k.BytesPerServer)
		}
		if w := a.Weigher; w != nil && w.Fixed == nil {
			bytes += servers * (perLoop + perDecision*length/w.Policy.Interval.Seconds())
		}
		most = max(most, bytes)
	}
	return int64(rest + most)
}

// rate is the highest, per second.
func (s *Scenario) rate() float64 {
	steps, ok := s.Service.Arrivals.(sim.Poisson)
	if !ok {
		return s.Service.Arrivals.Rate(0)
	}
	var most float64
	for _, step := range steps {
		most = max(most, step.Rate)
	}
	return most
}

// inFlight is about how many requests there are at once, at the most: those that pile up in
// a run of this length, in seconds, at servers that get more than they can serve. Usual
// ones are with their servers.
func (s *Scenario) inFlight(length float64) float64 {
	peak := s.Load()
	states := s.states()
	each := peak.Rate / float64(max(1, len(states)))
	var piled float64
	for i := range states {
		if st := s.state(i, states[i].changes, peak.At); st.capacity > 0 {
			piled += max(0, each-st.capacity) * length
		}
	}
	return piled
}
