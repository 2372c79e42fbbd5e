package balance

import (
	"math"
	"slices"
	"time"

	"taper.dev/taper/internal/model"
)

// Input is everything that a decision may depend on.
type Input struct {
	Now time.Time
	// Endpoints are the members of the service now.
	Endpoints []model.Endpoint
	// Snapshot has the newest samples; an absent endpoint was not measured. When it
	// is nil, nothing was asked, and the decision only follows membership.
	Snapshot model.Snapshot
	// Current are the weights in force; it may name endpoints that left and miss
	// ones that joined. Empty when nothing was decided before.
	Current model.Weights
	// Memory is the last decision's.
	Memory Memory
	Policy Policy
	// Rail is what a bound outside of balancing says; the zero Rail says nothing.
	Rail Rail
}

// Decision is what to do, and why.
type Decision struct {
	// Weights has one weight, at least 1, for each of Input.Endpoints.
	Weights model.Weights
	// Verdicts explain the weights, in the order of Input.Endpoints.
	Verdicts []Verdict
	// Hold says why weights were not moved towards what the strategy wants; its
	// Reason is empty when they were.
	Hold Hold
	// Memory is to be handed to the next decision.
	Memory Memory
}

// member is one endpoint on its way through a decision.
type member struct {
	model.Endpoint
	estimate   Estimate
	age        time.Duration // of the newest valid sample; negative when there never was one
	fresh      bool
	took       float64 // response time, in seconds, in a new sample; 0 when unknown
	requests   float64 // in that sample
	cores      float64 // in all, as configured and then as learnt
	configured float64 // cores
	idle       float64 // cores used without requests
	free       float64 // cores left for requests, as configured and then as learnt
	demand     float64 // CPU-seconds per request; 0 when unknown
	assumed    float64 // the demand, or what it is taken for when unknown
	current    float64 // share in force
	target     float64 // share that the strategy wants, apart from how fast
	next       float64 // share decided
	reason     Reason
	lacking    Reason // why the newest sample cannot be used
}

// Decide turns what was observed into weights. It never reads a clock, writes,
// sleeps or logs, and it does not change its input. Calling it again with the
// samples of last time moves no weight: a step needs new evidence.
func Decide(in Input) Decision {
	if len(in.Endpoints) == 0 {
		return Decision{Weights: model.Weights{}, Memory: in.Memory, Hold: Hold{NoEndpoints, "the service has no endpoints"}}
	}
	s := observe(in)
	hold := s.guard()
	switch hold.Reason {
	case "":
		s.propose()
		s.level()
		hold = s.deadBand()
	case Released, RailBreached:
		s.release()
	}
	var weights model.Weights
	if hold.Moves() {
		weights = s.quantize()
	} else {
		weights = s.keep()
	}
	return Decision{Weights: weights, Verdicts: s.verdicts(weights), Hold: hold, Memory: s.memory}
}

// mostIdle is the part of an endpoint's cores that idling may be taken to use: some
// capacity is always left to divide by.
const mostIdle = 0.9

// state is a decision in the making.
type state struct {
	in      Input
	members []member
	memory  Memory
	joined  bool // an endpoint is not in the current weights, or one of them left
	news    bool // at least one sample is newer than those learnt from before
	load    float64
}

// observe learns from the samples and finds out where each endpoint stands.
func observe(in Input) *state {
	s := &state{in: in, members: make([]member, len(in.Endpoints)), memory: in.Memory}
	p := in.Policy
	evidence := chooseEvidence(in, s.isFresh)
	founding := len(in.Memory.Endpoints) == 0
	estimates := make(map[string]Estimate, len(in.Endpoints))
	known := in.Memory.Endpoints
	if evidence != in.Memory.Evidence {
		known = withoutSums(known)
	}
	current := s.currentShares()
	for i, ep := range in.Endpoints {
		m := &s.members[i]
		m.Endpoint, m.current = ep, current[i]
		m.cores = ep.Capacity
		if m.cores <= 0 {
			m.cores = p.Capacity
		}
		m.configured = m.cores
		est, seen := known[ep.Address]
		if !seen && !founding {
			est.Since = in.Now
		}
		sample, present := in.Snapshot[ep.Address]
		o, ok := evidence.observe(sample, m.cores, m.current)
		if !ok && in.Snapshot != nil { // nothing lacks where nothing was asked
			m.lacking = lacking(sample, present)
		}
		if ok && s.isFresh(o.at) {
			var isNew bool
			est, isNew = est.learn(o, evidence, p, len(in.Endpoints))
			if isNew {
				m.took = o.took()
				m.requests = o.rate * p.Interval.Seconds()
			}
			s.news = s.news || isNew
			s.memory.EvidenceAt = in.Now
		}
		m.estimate = est
		m.age = -1
		if !est.SampledAt.IsZero() {
			m.age = max(0, in.Now.Sub(est.SampledAt)) // clocks differ a little
			m.fresh = s.isFresh(est.SampledAt)
		}
		estimates[ep.Address] = est
	}
	s.memory.Evidence, s.memory.Endpoints = evidence, estimates
	s.price()
	s.learnRoom()
	s.measureLoad()
	return s
}

// isFresh tells whether a reading of that time may be acted on. A time too far
// in the future is a wrong clock, not a fresh sample.
func (s *state) isFresh(at time.Time) bool {
	age := s.in.Now.Sub(at)
	return age <= s.in.Policy.MaxAge && age >= -s.in.Policy.MaxAge
}

// withoutSums keeps who joined when and drops what other evidence said of demands.
func withoutSums(known map[string]Estimate) map[string]Estimate {
	kept := make(map[string]Estimate, len(known))
	for address, est := range known {
		kept[address] = Estimate{Since: est.Since}
	}
	return kept
}

// lacking says why a sample cannot be used.
func lacking(sample model.Sample, present bool) Reason {
	if !present {
		return Missing
	}
	for _, r := range []model.Reading{sample.CPU, sample.Requests, sample.InFlight} {
		if r.Known() && !r.Valid() {
			return Invalid
		}
	}
	return Missing
}

// price settles what a request costs on each endpoint. One without an own
// estimate is taken for the median of the others.
func (s *state) price() {
	fallback := s.sharedIdle()
	demands := make([]float64, 0, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		m.idle = min(m.estimate.idle(fallback), mostIdle*m.cores)
		m.free = m.cores - m.idle
		m.demand = m.estimate.demand(m.idle)
		if m.demand > 0 {
			demands = append(demands, m.demand)
		}
	}
	typical := median(demands)
	for i := range s.members {
		m := &s.members[i]
		m.assumed = m.demand
		if m.assumed == 0 {
			m.assumed = typical
		}
	}
}

// sharedIdle is the idle load of the endpoints whose own history tells it:
// replicas of one service idle alike.
func (s *state) sharedIdle() float64 {
	var idles []float64
	for i := range s.members {
		if b, ok := s.members[i].estimate.Line.intercept(); ok {
			idles = append(idles, b)
		}
	}
	return median(idles)
}

// measureLoad estimates the service's whole request rate from the endpoints that
// were measured, and smooths it.
func (s *state) measureLoad() {
	if s.memory.Evidence == FromCPUOnly {
		s.load, s.memory.Load = 1, 1
		return
	}
	var rate, share float64
	for i := range s.members {
		if m := &s.members[i]; m.fresh {
			rate += m.estimate.Rate
			share += m.current
		}
	}
	if share <= 0 {
		s.load = s.memory.Load
		return
	}
	s.load = rate / share
	if s.memory.Load > 0 && !s.news {
		s.load = s.memory.Load
	} else if s.memory.Load > 0 && s.in.Memory.Evidence == s.memory.Evidence {
		// A rise counts at once, since utilization is limited by it; a fall slowly.
		s.load = max(s.load, (s.load+s.memory.Load)/2)
	}
	s.memory.Load = s.load
}

// currentShares are the shares in force over the members of now. One that the
// current weights do not name is given the part of a median share that a new
// endpoint starts with.
func (s *state) currentShares() []float64 {
	weights := s.inherit()
	var total float64
	for _, w := range weights {
		total += w
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights
}

// inherit returns the current weights over the members of now, unscaled.
func (s *state) inherit() []float64 {
	in := s.in
	weights := make([]float64, len(in.Endpoints))
	named := make([]float64, 0, len(weights))
	for i, ep := range in.Endpoints {
		weights[i] = float64(in.Current[ep.Address])
		if weights[i] > 0 {
			named = append(named, weights[i])
		}
	}
	s.joined = len(named) != len(weights) || len(in.Current) != len(named)
	start := max(1, median(named)*rampStart)
	for i := range weights {
		if weights[i] == 0 {
			weights[i] = start
		}
	}
	return weights
}

// keep returns the current weights unmoved, with members that joined added.
func (s *state) keep() model.Weights {
	inherited := s.inherit()
	if len(s.in.Current) == 0 {
		return s.equalWeights()
	}
	weights := make(model.Weights, len(inherited))
	for i, ep := range s.in.Endpoints {
		weights[ep.Address] = uint32(math.Ceil(inherited[i])) // whole already, but for a new one
	}
	return weights
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}
