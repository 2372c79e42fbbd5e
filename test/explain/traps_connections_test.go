package explain

import (
	"cmp"
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

var connectionPairs = map[string]map[string]pair{
	"connection-per-request": {
		"connections": across(5, 4, func(s *story, n int) { s.opens(opening{short: n}) }),
		"share":       across(4, 5, func(s *story, kept int) { s.opens(opening{short: 5, kept: kept}) }),
		"requests on one": across(2, 3, func(s *story, last int) {
			s.opens(opening{short: 5, last: last})
		}),
		"closed":     across(false, true, func(s *story, open bool) { s.opens(opening{short: 5, open: open}) }),
		"of clients": across(5, 4, func(s *story, n int) { s.visits(n) }),
	},
	"tls-per-request": {
		"handshakes": across(5, 4, func(s *story, n int) {
			s.opens(opening{short: n, tls: true})
		}).alsoFound("connection-per-request"),
		"share": across(4, 5, func(s *story, kept int) {
			s.opens(opening{short: 5, kept: kept, tls: true})
		}).alsoFound("connection-per-request"),
		"requests on one": across(2, 3, func(s *story, last int) {
			s.opens(opening{short: 5, last: last, tls: true})
		}).alsoFound("connection-per-request"),
		"closed": across(false, true, func(s *story, open bool) {
			s.opens(opening{short: 5, open: open, tls: true})
		}).alsoFound("connection-per-request"),
		// Without it there is nothing but connections.
		"tls": across(true, false, func(s *story, tls bool) {
			s.opens(opening{short: 5, tls: tls})
		}).alsoFound("connection-per-request").foundInstead("connection-per-request"),
	},
	"connection-pinning": {
		"calls": across(100, 99, func(s *story, calls int) { s.pins(pinning{calls: calls, pods: 2}) }),
		"time": across(time.Minute, time.Minute-1, func(s *story, lasts time.Duration) {
			s.pins(pinning{calls: 100, lasts: lasts, pods: 2})
		}),
		"connections": across(1, 2, func(s *story, conns int) { s.pins(pinning{calls: 100, conns: conns, pods: 2}) }),
		"addresses":   across(2, 1, func(s *story, pods int) { s.pins(pinning{calls: 100, pods: pods}) }),
		"a service's name": across("cart.shop.svc.cluster.local", "cart.example", func(s *story, name string) {
			s.pins(pinning{calls: 100, pods: 1, name: name})
		}),
	},
	"hairpin": {
		"its own service": across(host, "stock.example", func(s *story, name string) { s.callsItself(name, time.Second) }),
		"sent again":      across(900*ms, 900*ms-1, func(s *story, again time.Duration) { s.callsItself(host, again) }),
	},
}

const (
	handshake    = ms // of TCP, see story.dial
	tlsHandshake = 20 * ms
)

// opening is how calls come by their connection.
type opening struct {
	short, kept int  // calls on connections of their own, and on one that stays
	last        int  // calls on the last of the short ones; 0 is 1
	open        bool // that one is not closed
	tls         bool
}

// opens has requests call on connections that they open, and on one that is there.
func (s *story) opens(o opening) {
	for i := range o.short {
		last, calls := i == o.short-1, 1
		if last {
			calls = max(1, o.last)
		}
		c := s.opensOne(o.tls)
		for range calls - 1 {
			s.request(func(at time.Duration) time.Duration {
				s.says(c, at+ms, o.tls)
				return 20 * ms
			})
		}
		if !last || !o.open {
			hangUp(c, s.now-s.gap/2)
		}
	}
	if o.kept == 0 {
		return
	}
	c := s.pooled(closedBackend)
	if o.tls {
		c.Secure(20*ms, 20*ms, "backend.example")
	}
	for range o.kept {
		s.request(func(at time.Duration) time.Duration {
			s.says(c, at+ms, o.tls)
			return 20 * ms
		})
	}
}

var closedBackend = netip.AddrPortFrom(backend.Addr(), 8443)

// opensOne has a request open a connection and call.
func (s *story) opensOne(tls bool) (c *synth.Talk) {
	s.request(func(at time.Duration) time.Duration {
		c = s.dial(at+ms, closedBackend)
		s.shows(at + ms)
		if !tls {
			s.says(c, at+3*ms, false)
			s.lose(handshake)
			return 20 * ms
		}
		c.Secure(at+3*ms, tlsHandshake, "backend.example")
		s.says(c, at+4*ms+tlsHandshake, true)
		s.lose(tlsHandshake)
		return 40 * ms
	})
	return c
}

// says is a call of 5 ms.
func (s *story) says(c *synth.Talk, at time.Duration, tls bool) {
	if !tls {
		call(c, at, 5*ms)
		return
	}
	c.Send(at, capture.Client, synth.Sealed(700))
	c.Send(at+5*ms, capture.Server, synth.Sealed(900))
}

// visits are clients that connect for a request and hang up.
func (s *story) visits(n int) {
	for i := range n {
		from := netip.AddrPortFrom(netip.MustParseAddr("10.9.0.7"), uint16(40001+i))
		s.client = s.Dial(s.now-5*ms, handshake, from, synth.ServiceAddr)
		s.shows(s.now - 5*ms)
		s.lose(handshake) // the client, before its request
		s.quiet(1)
		hangUp(s.client, s.now-s.gap/2)
	}
}

// pinning is calls of gRPC to a name that stands for so many pods.
type pinning struct {
	calls, pods int
	name        string        // "" is one outside the cluster
	conns       int           // 0 is 1
	lasts       time.Duration // from the first call to the last; 0 is a minute
}

// pins has requests call one after the other, over each connection in turn.
func (s *story) pins(p pinning) {
	name, lasts, conns := cmp.Or(p.name, "cart.example"), cmp.Or(p.lasts, time.Minute), cmp.Or(p.conns, 1)
	addresses := []netip.Addr{netip.MustParseAddr("10.1.4.1"), netip.MustParseAddr("10.1.4.2")}[:p.pods]
	s.Ask(5*ms, ms, s.own(), 1, name, false, addresses...)
	pool := make([]*synth.Talk, conns)
	for i := range pool {
		pool[i] = s.pooled(netip.AddrPortFrom(addresses[0], 50051))
		pool[i].Send(12*ms, capture.Client, synth.OpenHTTP2())
	}
	first := s.now
	for i := range p.calls {
		s.now = first + lasts*time.Duration(i)/time.Duration(p.calls-1)
		if i == 0 || i == p.calls-1 {
			s.shows(s.now + ms)
		}
		s.request(func(at time.Duration) time.Duration {
			c, stream := pool[i%conns], uint32(2*(i/conns)+1)
			c.Send(at+ms, capture.Client, synth.CallGRPC(stream, name+":50051", "/shop.Cart/Get"))
			c.Send(at+4*ms, capture.Server, synth.AnswerGRPC(stream))
			return 6 * ms
		})
	}
}

// callsItself has a request connect to the service of a name, and nobody answers.
func (s *story) callsItself(name string, again time.Duration) {
	service := netip.MustParseAddrPort("10.96.1.1:80")
	s.request(func(at time.Duration) time.Duration {
		s.Ask(at+ms, ms, s.own(), 1, name, false, service.Addr())
		c := s.Knock(at+3*ms, s.own(), service)
		c.Knock(at + 3*ms + again)
		s.shows(at+3*ms, at+3*ms+again)
		return again + 500*ms
	})
	s.quiet(2)
}
