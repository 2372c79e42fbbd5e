package policy

import (
	"math"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// peakEWMA is Finagle's (PeakEwma.scala, P2CPick.scala), which Linkerd has too. Of two
// different endpoints it takes the one with the lower load: a moving average of latency, which
// jumps up to a peak at once and forgets it in seconds, times the proxy's own requests under
// way there and one. An endpoint that has a request but no latency yet is the last choice.
//
// A failure counts by the time it took, which makes one that fails at once look quick: Finagle
// takes such an endpoint out by other means (failure accrual), which are left out here.
//
// Finagle's balancer knows no weights. Here the two are drawn in proportion to them.
type peakEWMA struct {
	members
	lottery lottery
	random  *random.Source
	servers int
	// peaks are by proxy and server.
	peaks []peak
}

// peak is what a proxy knows of an endpoint.
type peak struct {
	// cost is the average, in seconds, as of the time at.
	cost, at float64
	pending  int32
}

// peakBytes is the size of a peak.
const peakBytes = 24

const (
	// decayTime is the mean lifetime of a cost, in seconds, as in Finagle and Linkerd.
	decayTime = 10
	// penalty is the load where no latency is known, in seconds: Finagle's, in its unit.
	penalty = (math.MaxInt64 >> 16) * 1e-9
)

func newPeakEWMA(s sim.Setting) sim.Policy {
	return &peakEWMA{
		members: newMembers(s), random: s.Random, servers: s.Servers,
		peaks: make([]peak, s.Proxies*s.Servers),
	}
}

// Assign implements [sim.Policy].
func (p *peakEWMA) Assign(endpoints []int, weights []uint32) {
	for _, e := range p.assign(endpoints, weights) {
		for i := e; i < len(p.peaks); i += p.servers {
			p.peaks[i] = peak{}
		}
	}
	p.lottery.fill(&p.members)
}

// Pick implements [sim.Policy].
func (p *peakEWMA) Pick(proxy int) int {
	peaks := p.peaks[proxy*p.servers:][:p.servers]
	e := int32(p.lottery.draw(p.random))
	if other, ok := p.lottery.another(p.random, e); ok {
		if now := p.world.Now(); peaks[e].load(now) >= peaks[other].load(now) {
			e = other
		}
	}
	peaks[e].pending++
	return int(e)
}

// Done implements [sim.Policy].
func (p *peakEWMA) Done(proxy, endpoint int, a sim.Answer) {
	if p.before(endpoint, a.Latency) {
		return
	}
	k := &p.peaks[proxy*p.servers+endpoint]
	k.pending--
	k.observe(a.Latency, p.world.Now())
}

// observe takes in a latency, in seconds; one of 0 lets time pass.
func (k *peak) observe(latency, now float64) {
	if latency > k.cost {
		k.cost = latency
	} else {
		w := math.Exp((k.at - now) / decayTime)
		k.cost = k.cost*w + latency*(1-w)
	}
	k.at = now
}

// load is what is compared.
func (k *peak) load(now float64) float64 {
	k.observe(0, now)
	if k.cost == 0 && k.pending != 0 {
		return penalty + float64(k.pending)
	}
	return k.cost * float64(k.pending+1)
}
