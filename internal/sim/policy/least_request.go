package policy

import (
	"math"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// LeastRequest is Envoy's LEAST_REQUEST, as of 1.40 (least_request_lb.cc). Active requests are
// those that the proxy itself has under way.
//
// With equal weights it draws some endpoints, the same one twice as well as any other, and
// takes the one with the fewest active requests; the first of several.
//
// With unequal weights it schedules ([edf]) by weight/(active requests+1)^bias. That is taken
// when an endpoint is picked, for its next turn, before the request counts; what becomes of
// its requests meanwhile does not move its turn. Each change of an endpoint or weight begins
// the schedule afresh, always after the same random number of picks, with the requests that
// are active then. Here that is when the proxy first picks after the change.
//
// There are no pending requests: connections are always at hand. Slow start is left out.
type LeastRequest struct {
	// ChoiceCount is how many are drawn; at least 1.
	ChoiceCount int
	// ActiveRequestBias is the exponent; 0 does not look at active requests.
	ActiveRequestBias float64
}

// EnvoyLeastRequest has Envoy's defaults.
var EnvoyLeastRequest = LeastRequest{ChoiceCount: 2, ActiveRequestBias: 1}

// leastRequest is the state of a [LeastRequest].
type leastRequest struct {
	members
	LeastRequest
	random  *random.Source
	servers int
	// active is by proxy and server.
	active    []int32
	schedules []schedule
	// current is what [edf.begin] is given, by server.
	current []float64
}

// schedule is a proxy's.
type schedule struct {
	edf
	seed, version uint32
}

// What the policy keeps: for each pair besides its turn, for each proxy, for each server.
const (
	activeBytes   = 4
	scheduleBytes = 40
	weightBytes   = 8
)

// New makes the policy for one run.
func (l LeastRequest) New(s sim.Setting) sim.Policy {
	p := &leastRequest{
		members: newMembers(s), LeastRequest: l, random: s.Random, servers: s.Servers,
		active:    make([]int32, s.Proxies*s.Servers),
		schedules: make([]schedule, s.Proxies),
		current:   make([]float64, s.Servers),
	}
	for i := range p.schedules {
		p.schedules[i].seed = uint32(s.Random.Next())
	}
	return p
}

// Assign implements [sim.Policy].
func (p *leastRequest) Assign(endpoints []int, weights []uint32) {
	for _, e := range p.assign(endpoints, weights) {
		for i := e; i < len(p.active); i += p.servers {
			p.active[i] = 0
		}
	}
}

// Pick implements [sim.Policy].
func (p *leastRequest) Pick(proxy int) int {
	active := p.active[proxy*p.servers:][:p.servers]
	var e int32
	if p.equal {
		e = p.choose(active)
	} else {
		e = p.due(proxy, active)
	}
	active[e]++
	return int(e)
}

// choose draws some and takes the one with the fewest active requests.
func (p *leastRequest) choose(active []int32) int32 {
	best := p.endpoints[p.random.Below(len(p.endpoints))]
	for range p.ChoiceCount - 1 {
		if e := p.endpoints[p.random.Below(len(p.endpoints))]; active[e] < active[best] {
			best = e
		}
	}
	return best
}

// due takes the one whose turn it is.
func (p *leastRequest) due(proxy int, active []int32) int32 {
	s := &p.schedules[proxy]
	if s.version != p.version {
		s.version = p.version
		for _, e := range p.endpoints {
			p.current[e] = p.effective(e, active)
		}
		s.begin(p.endpoints, p.current, s.seed)
	}
	e := s.first()
	s.again(p.effective(e, active))
	return e
}

// effective is an endpoint's weight with its active requests.
func (p *leastRequest) effective(e int32, active []int32) float64 {
	load := float64(active[e] + 1)
	switch p.ActiveRequestBias {
	case 0:
		return p.weight[e]
	case 1:
		return p.weight[e] / load
	}
	return p.weight[e] / math.Pow(load, p.ActiveRequestBias)
}

// Done implements [sim.Policy].
func (p *leastRequest) Done(proxy, endpoint int, a sim.Answer) {
	if !p.before(endpoint, a.Latency) {
		p.active[proxy*p.servers+endpoint]--
	}
}
