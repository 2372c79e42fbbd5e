package policy

import (
	"math"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// prequal is Google's Prequal in its asynchronous mode, with the defaults of the paper's
// testbed (Wydrowski, Kleinberg, Rumble and Archer, NSDI 2024). Each request sends probes to a
// few endpoints at random, for the sake of later requests. An answer tells the requests that
// the server has in flight, of all proxies, and the latency that it has at such a load
// ([responder]). Answers go into the proxy's pool, where the choice is made ([pool]). With
// fewer than two there, any endpoint is taken.
//
// The paper knows no weights. Here probes, and endpoints where there are too few probes, are
// drawn in proportion to them.
//
// Probes take a constant time, [probeTime], use no CPU, and are not answered by a server that
// is down. Left out are probes of a proxy that has no requests to send for long, and what the
// paper only mentions, that endpoints with many failures are avoided.
type prequal struct {
	members
	lottery lottery
	random  *random.Source
	pools   []pool
	servers []responder
	// reuse is how many requests a probe's answer serves.
	reuse float64
}

const (
	// probesPerRequest is the paper's r_probe, removedPerRequest its r_remove and gain its δ.
	probesPerRequest  = 3
	removedPerRequest = 1
	gain              = 1
	// leastAnswers is with how many a choice is made.
	leastAnswers = 2
	// probeTime is how long a probe's answer takes, in seconds; the paper has it given up
	// after 1 to 3 ms. The answer is of the moment at which it comes.
	probeTime = 500e-6
)

func newPrequal(s sim.Setting) sim.Policy {
	return &prequal{
		members: newMembers(s), random: s.Random,
		pools: make([]pool, s.Proxies), servers: make([]responder, s.Servers),
	}
}

// Assign implements [sim.Policy].
func (p *prequal) Assign(endpoints []int, weights []uint32) {
	for _, e := range p.assign(endpoints, weights) {
		p.servers[e] = responder{}
	}
	p.lottery.fill(&p.members)
	p.reuse = reuse(len(endpoints))
	for i := range p.pools {
		p.pools[i].keep(func(a *probed) bool { return p.weight[a.server] != 0 })
	}
}

// reuse is b_reuse, how many requests an answer serves so that the pool does not run dry:
// max(1, (1+δ)/((1-m/n)·r_probe-r_remove)) with m answers in the pool and n endpoints. With
// few endpoints there is no such number, and only age and better answers end one's use.
func reuse(endpoints int) float64 {
	gained := (1-poolSize/float64(endpoints))*probesPerRequest - removedPerRequest
	if gained <= 0 {
		return math.Inf(1)
	}
	return max(1, (1+gain)/gained)
}

// Pick implements [sim.Policy].
func (p *prequal) Pick(proxy int) int {
	p.probe(proxy)
	pool, now := &p.pools[proxy], p.world.Now()
	pool.keep(func(a *probed) bool { return now-a.at < maxAge && a.uses > 0 })
	var server int
	if pool.size >= leastAnswers {
		server = int(pool.take())
	} else {
		server = p.lottery.draw(p.random)
	}
	for range removedPerRequest {
		pool.remove()
	}
	p.servers[server].arrived(now, p.world.InFlight(server))
	return server
}

// probe sends probes.
func (p *prequal) probe(proxy int) {
	var to [probesPerRequest]int32
	n := 0
	for n < len(to) {
		server, ok := p.lottery.another(p.random, to[:n]...)
		if !ok {
			break
		}
		to[n] = server
		n++
	}
	p.world.Later(probeTime, func() {
		for _, server := range to[:n] {
			p.answered(proxy, server)
		}
	})
}

// answered is a probe's answer.
func (p *prequal) answered(proxy int, server int32) {
	down := math.IsInf(p.world.Expected(int(server)), 1)
	if down || p.weight[server] == 0 {
		return
	}
	inFlight := int32(p.world.InFlight(int(server)))
	p.pools[proxy].add(probed{
		at: p.world.Now(), server: server, inFlight: inFlight, uses: p.uses(),
		latency: p.servers[server].latency(p.world.Now(), inFlight),
	})
}

// uses is how many requests one answer serves: reuse, rounded up or down by chance, so that
// it is right in the mean.
func (p *prequal) uses() int32 {
	if math.IsInf(p.reuse, 1) {
		return math.MaxInt32
	}
	whole := math.Ceil(p.reuse)
	if p.random.Unit() <= whole-p.reuse {
		whole--
	}
	return int32(whole)
}

// Done implements [sim.Policy].
func (p *prequal) Done(_, endpoint int, a sim.Answer) {
	if !a.Failed && !p.before(endpoint, a.Latency) {
		p.servers[endpoint].departed(p.world.Now()-a.Latency, a.Latency)
	}
}
