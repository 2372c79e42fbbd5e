package policy

import (
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// leastCost takes the endpoint of the least cost, and any of several alike. Costs are divided
// by weight. It looks at every endpoint for each request: some 5 ns each.
type leastCost struct {
	members
	random *random.Source
	cost   func(server int) float64
}

// newShortestQueue is join-shortest-queue: the cost is how many requests of all proxies a
// server has, and one. A proxy would have to see into every server at every moment. It minds
// neither how fast a server is nor whether it answers at all: one that is down has no queue.
func newShortestQueue(s sim.Setting) sim.Policy {
	cost := func(server int) float64 { return float64(s.World.InFlight(server) + 1) }
	return &leastCost{newMembers(s), s.Random, cost}
}

// newAllKnowing is shortest expected delay: the cost is how long a mean request would take
// ([sim.World.Expected]). It knows each server's demand, cores, queue and failures at every
// moment. It is greedy, and so not the best that could be, but what no balancer gets near.
func newAllKnowing(s sim.Setting) sim.Policy {
	return &leastCost{newMembers(s), s.Random, s.World.Expected}
}

// Assign implements [sim.Policy].
func (p *leastCost) Assign(endpoints []int, weights []uint32) { p.assign(endpoints, weights) }

// Pick implements [sim.Policy].
func (p *leastCost) Pick(int) int {
	var best int32
	var least float64
	alike := 0
	for _, e := range p.endpoints {
		cost := p.cost(int(e))
		if !p.equal {
			cost /= p.weight[e]
		}
		switch {
		case alike == 0 || cost < least:
			best, least, alike = e, cost, 1
		case cost == least:
			// The k-th of several alike takes over with a chance of 1/k.
			if alike++; p.random.Below(alike) == 0 {
				best = e
			}
		}
	}
	return int(best)
}

// Done implements [sim.Policy].
func (p *leastCost) Done(int, int, sim.Answer) {}
