package policy

import (
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// atRandom is Envoy's RANDOM (random_lb.cc), which draws any endpoint. Envoy's knows no
// weights; here endpoints are drawn in proportion to them.
type atRandom struct {
	members
	lottery lottery
	random  *random.Source
}

func newRandom(s sim.Setting) sim.Policy {
	return &atRandom{members: newMembers(s), random: s.Random}
}

// Assign implements [sim.Policy].
func (p *atRandom) Assign(endpoints []int, weights []uint32) {
	p.assign(endpoints, weights)
	p.lottery.fill(&p.members)
}

// Pick implements [sim.Policy].
func (p *atRandom) Pick(int) int { return p.lottery.draw(p.random) }

// Done implements [sim.Policy].
func (p *atRandom) Done(int, int, sim.Answer) {}
