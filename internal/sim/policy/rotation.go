package policy

import "taper.dev/taper/internal/sim"

// rotation is a proxy's round robin as Envoy has it (round_robin_lb.h and EdfLoadBalancerBase
// in load_balancer_impl.cc). Endpoints of equal weight are taken one after the other, from a
// random place on; the place outlives changes. Unequal ones are scheduled ([edf]), and each
// change begins the schedule afresh, always after the same random number of picks.
type rotation struct {
	place    uint64
	seed     uint32
	equal    bool
	version  uint32
	schedule edf
}

// rotationBytes is the size of a rotation.
const rotationBytes = 56

func newRotations(s sim.Setting) []rotation {
	list := make([]rotation, s.Proxies)
	for i := range list {
		place := s.Random.Next()
		list[i] = rotation{place: place, seed: uint32(place)}
	}
	return list
}

// refresh begins afresh with other endpoints or weights, which are by server.
func (r *rotation) refresh(endpoints []int32, weight []float64, equal bool) {
	r.equal = equal
	if !equal {
		r.schedule.begin(endpoints, weight, r.seed)
	}
}

// next is the endpoint whose turn it is where weights are equal.
func (r *rotation) next(endpoints []int32) int {
	e := endpoints[r.place%uint64(len(endpoints))]
	r.place++
	return int(e)
}
