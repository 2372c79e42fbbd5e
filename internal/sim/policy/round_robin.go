package policy

import "taper.dev/taper/internal/sim"

// roundRobin is Envoy's ROUND_ROBIN; [rotation] says how. A proxy's schedule is begun when it
// first picks after a change, and not at the change, which makes no difference to it.
type roundRobin struct {
	members
	rotations []rotation
}

func newRoundRobin(s sim.Setting) sim.Policy {
	return &roundRobin{members: newMembers(s), rotations: newRotations(s)}
}

// Assign implements [sim.Policy].
func (p *roundRobin) Assign(endpoints []int, weights []uint32) { p.assign(endpoints, weights) }

// Pick implements [sim.Policy].
func (p *roundRobin) Pick(proxy int) int {
	r := &p.rotations[proxy]
	if r.version != p.version {
		r.version = p.version
		r.refresh(p.endpoints, p.weight, p.equal)
	}
	if r.equal {
		return r.next(p.endpoints)
	}
	e := r.schedule.first()
	r.schedule.again(p.weight[e])
	return int(e)
}

// Done implements [sim.Policy].
func (p *roundRobin) Done(int, int, sim.Answer) {}
