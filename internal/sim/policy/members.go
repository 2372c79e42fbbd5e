package policy

import "taper.dev/taper/internal/sim"

// members are the endpoints that are there now.
type members struct {
	world     sim.World
	endpoints []int32
	// weight is by server; 0 is one that is not there.
	weight []float64
	// equal tells that all weights are the same.
	equal bool
	// version counts what was assigned.
	version uint32
	// joined is by server, since when it is there; before that, never.
	joined []float64
}

const (
	never = -1
	// slack is more than what a time in seconds loses when it is computed from another.
	slack = 1e-9
	// memberBytes is what members have for each server.
	memberBytes = 4 + 8 + 8
)

func newMembers(s sim.Setting) members {
	m := members{world: s.World, weight: make([]float64, s.Servers), joined: make([]float64, s.Servers)}
	for i := range m.joined {
		m.joined[i] = never
	}
	return m
}

// assign is [sim.Policy.Assign]. It returns those who had left and are back. They are new to
// proxies, as a host is that Envoy removes and adds: what was known of them is forgotten.
func (m *members) assign(endpoints []int, weights []uint32) (back []int) {
	now, old := m.world.Now(), m.weight
	m.weight = make([]float64, len(old))
	m.endpoints = m.endpoints[:0]
	m.equal = true
	m.version++
	for i, e := range endpoints {
		m.endpoints = append(m.endpoints, int32(e))
		m.weight[e] = float64(weights[i])
		m.equal = m.equal && weights[i] == weights[0]
		if old[e] != 0 {
			continue
		}
		if m.joined[e] != never {
			back = append(back, e)
		}
		m.joined[e] = now
	}
	return back
}

// before tells whether a request that ends now, with this latency, was sent before the
// endpoint left and came back.
func (m *members) before(endpoint int, latency float64) bool {
	return m.world.Now()-latency < m.joined[endpoint]-slack
}
