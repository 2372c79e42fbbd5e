package policy

import (
	"math"
	"slices"

	"taper.dev/taper/internal/sim"
)

// clientSideWRR is Envoy's client_side_weighted_round_robin (orca_weight_manager.cc), which is
// gRPC's weighted_round_robin (gRFC A58) with Envoy's scheduler. Each answer carries the
// endpoint's own report, and its weight is requests per second over utilization. A proxy makes
// weights of its reports every second. It does not believe a report of an endpoint that it has
// had reports of for less than 10 s, nor one that is older than 3 minutes; the endpoint then
// has the median weight of the others, or 1 if there are none.
//
// Reports are of the endpoint's last full second. Endpoints do not count errors of their own,
// and one that fails reports nothing, so that the penalty for errors has no place here.
//
// Weights of a control plane have no effect: as in Envoy, those of reports replace them.
//
// An update looks at every endpoint: some 5 ns each, and 60 ns if a weight is another. With
// 1,000 proxies and 10,000 endpoints that is more work than time is simulated.
type clientSideWRR struct {
	members
	servers int
	// reports are by proxy and server.
	reports []report
	proxies []clientSide
	// valid are the weights that a proxy believes, and current all of them by server: what
	// an update works on.
	valid   []uint32
	current []float64
}

// clientSide is a proxy.
type clientSide struct {
	rotation
	// due is when weights are next made, in seconds.
	due float64
}

// report is what a proxy knows of an endpoint.
type report struct {
	// since is when the first report came, last when the last did; 0 is never.
	since, last float64
	// weight is that of the last report, applied the one in use.
	weight, applied uint32
}

// What the policy keeps: for each pair besides its turn, and for each proxy.
const (
	reportBytes     = 24
	clientSideBytes = rotationBytes + 8
)

// Envoy's defaults, in seconds.
const (
	blackoutPeriod         = 10
	weightExpirationPeriod = 180
	weightUpdatePeriod     = 1
)

func newClientSideWRR(s sim.Setting) sim.Policy {
	p := &clientSideWRR{
		members: newMembers(s), servers: s.Servers,
		reports: make([]report, s.Proxies*s.Servers),
		proxies: make([]clientSide, s.Proxies),
		current: make([]float64, s.Servers),
	}
	for i, r := range newRotations(s) {
		// Proxies began at different moments.
		p.proxies[i] = clientSide{r, s.World.Now() + weightUpdatePeriod*s.Random.Unit()}
	}
	return p
}

// Assign implements [sim.Policy].
func (p *clientSideWRR) Assign(endpoints []int, weights []uint32) {
	for _, e := range p.assign(endpoints, weights) {
		for i := e; i < len(p.reports); i += p.servers {
			p.reports[i] = report{}
		}
	}
}

// Pick implements [sim.Policy]. What falls due between two requests is done at the second.
func (p *clientSideWRR) Pick(proxy int) int {
	c := &p.proxies[proxy]
	reports := p.reports[proxy*p.servers:][:p.servers]
	if now := p.world.Now(); c.version != p.version || now >= c.due {
		p.update(c, reports, now)
	}
	if c.equal {
		return c.next(p.endpoints)
	}
	e := c.schedule.first()
	c.schedule.again(float64(reports[e].applied))
	return int(e)
}

// update makes a proxy's weights of its reports.
func (p *clientSideWRR) update(c *clientSide, reports []report, now float64) {
	changed := c.version != p.version
	c.version = p.version
	if now >= c.due {
		c.due += weightUpdatePeriod * (1 + math.Floor((now-c.due)/weightUpdatePeriod))
	}
	p.valid = p.valid[:0]
	for _, e := range p.endpoints {
		if w := reports[e].believed(now); w > 0 {
			p.valid = append(p.valid, w)
		}
	}
	rest := uint32(1)
	if len(p.valid) > 0 && len(p.valid) < len(p.endpoints) {
		rest = median(p.valid)
	}
	equal := true
	for _, e := range p.endpoints {
		w := reports[e].believed(now)
		if w == 0 {
			w = rest
		}
		changed = changed || w != reports[e].applied
		reports[e].applied = w
		p.current[e] = float64(w)
		equal = equal && w == reports[p.endpoints[0]].applied
	}
	if changed {
		c.refresh(p.endpoints, p.current, equal)
	}
}

// believed is the reported weight, or 0 if it is not to be used.
func (r *report) believed(now float64) uint32 {
	if r.since == 0 || now-r.since < blackoutPeriod {
		return 0
	}
	if now-r.last > weightExpirationPeriod {
		r.since = 0 // the next report is like a first one
		return 0
	}
	return r.weight
}

// median sorts its list, which is not empty.
func median(list []uint32) uint32 {
	slices.Sort(list)
	n := len(list)
	return uint32((uint64(list[(n-1)/2]) + uint64(list[n/2])) / 2)
}

// Done implements [sim.Policy].
func (p *clientSideWRR) Done(proxy, endpoint int, a sim.Answer) {
	if a.Failed || p.before(endpoint, a.Latency) {
		return
	}
	w := reportedWeight(p.world.Served(endpoint), p.world.Utilization(endpoint))
	if w == 0 {
		return
	}
	r := &p.reports[proxy*p.servers+endpoint]
	r.weight, r.last = w, p.world.Now()
	if r.since == 0 {
		r.since = r.last
	}
}

// reportedWeight is requests per second over utilization, a whole number that is at least 1;
// 0 is a report that says nothing.
func reportedWeight(perSecond, utilization float64) uint32 {
	if perSecond <= 0 || utilization <= 0 {
		return 0
	}
	return uint32(max(1, min(math.MaxUint32, perSecond/utilization)))
}
