package explain

import (
	"net/netip"
	"time"
)

var dnsPairs = map[string]map[string]pair{
	"dns-search-amplification": {
		"look-ups": across(3, 2, func(s *story, n int) { s.searches(n, 0, 0) }),
		"share":    across(9, 10, func(s *story, others int) { s.searches(3, others, 0) }),
		"within": across(10*time.Second-3*ms, 10*time.Second-3*ms+1, func(s *story, wait time.Duration) {
			s.searches(3, 0, wait)
		}),
	},
	"dns-uncached": {
		"look-ups":         across(5, 4, func(s *story, n int) { s.asksAgain(n, 0, 0, 0) }),
		"share":            across(3, 4, func(s *story, others int) { s.asksAgain(5, others, 0, 0) }),
		"for each request": across(24-6, 25-6, func(s *story, quiet int) { s.asksAgain(5, 0, quiet, 0) }),
		"while it lives":   across(30*time.Second-1, 30*time.Second, func(s *story, last time.Duration) { s.asksAgain(5, 0, 0, last) }),
	},
	"dns-conntrack-race": {
		"look-ups": across(2, 1, func(s *story, n int) { s.races(n, ms/10, 5*time.Second) }),
		"no sooner": across(4800*ms, 4800*ms-1, func(s *story, again time.Duration) {
			s.races(2, ms/10, again)
		}),
		"no later": across(5200*ms, 5200*ms+1, func(s *story, again time.Duration) { s.races(2, ms/10, again) }),
		"together": across(50*ms, 50*ms+1, func(s *story, apart time.Duration) { s.races(2, apart, 5*time.Second) }),
	},
	"dns-resolver-cap": {
		"a second": across(1025, 1024, func(s *story, n int) { s.floods(vpcResolver, n, 11) }),
		"share":    across(11, 10, func(s *story, lost int) { s.floods(vpcResolver, 1025, lost) }),
		"of a VPC": across(vpcResolver, netip.MustParseAddrPort("10.0.0.3:53"), func(s *story, r netip.AddrPort) { s.floods(r, 1025, 11) }),
	},
	"dns-slow": {
		"look-ups":  across(3, 2, func(s *story, n int) { s.slowLookups(n, 100*ms, 0) }),
		"a look-up": across(100*ms, 100*ms-1, func(s *story, took time.Duration) { s.slowLookups(3, took, 0) }),
		"share":     across(297, 298, func(s *story, others int) { s.slowLookups(3, 100*ms, others) }),
		"no answer": across(5*time.Second, 5*time.Second-1, func(s *story, before time.Duration) { s.waits(before) }),
	},
}

// lookups are so many others, of a name each, while there is no request.
func (s *story) lookups(n int) {
	from := s.own()
	for i := range n {
		s.Ask(s.now+time.Duration(i)*ms, ms/2, from, uint16(i), s.newName(), false, found)
	}
	s.now += time.Duration(n)*ms + s.gap
}

// searches has requests ask for a name with a suffix, in vain, and after a wait for the
// name itself.
func (s *story) searches(n, others int, wait time.Duration) {
	for i := range n {
		s.request(func(at time.Duration) time.Duration {
			from, missed, then := s.own(), at+3*ms, at+4*ms+wait
			s.Ask(at+ms, 2*ms, from, uint16(2*i), "backend.example.shop.svc.cluster.local", false)
			s.Ask(then, 2*ms, from, uint16(2*i+1), "backend.example", false, found)
			s.shows(missed, then+2*ms)
			s.lose(2 * ms)
			return wait + 20*ms
		})
	}
	s.lookups(others)
}

// asksAgain has a request ask for a name that lives for 30 s, and others ask again, the
// last one as long after the first answer as said.
func (s *story) asksAgain(times, others, quiet int, last time.Duration) {
	const took = 2 * ms
	answered := s.now + ms + took
	for i := range times + 1 {
		if i == times && last > 0 {
			s.now = answered + last - ms
		}
		s.request(func(at time.Duration) time.Duration {
			s.Ask(at+ms, took, s.own(), uint16(i), "backend.example", false, found)
			if i > 0 {
				s.shows(at + ms)
				s.lose(took)
			}
			return 10 * ms
		})
	}
	s.lookups(others)
	s.quiet(quiet)
}

// races has requests ask for both kinds of addresses from one port: one question is lost,
// and both are asked again.
func (s *story) races(n int, apart, again time.Duration) {
	for i := range n {
		s.request(func(at time.Duration) time.Duration {
			from, a, aaaa := s.own(), uint16(2*i), uint16(2*i+1)
			name := s.newName()
			s.Ask(at+ms, 2*ms, from, a, name, false, found)
			s.Ask(at+ms+apart, -1, from, aaaa, name, true)
			s.Ask(at+ms+again, 2*ms, from, a, name, false, found)
			s.Ask(at+ms+apart+again, 2*ms, from, aaaa, name, true, netip.MustParseAddr("fd00::9"))
			s.shows(at+ms+apart, at+ms+apart+again)
			s.lose(again + 2*ms)
			return again + apart + 20*ms
		})
	}
	s.quiet(2)
}

var vpcResolver = netip.MustParseAddrPort("10.0.0.2:53")

// floods asks a resolver so often in a second, and does not hear of some. The last one
// lost is that of a request, which asks again 2 s later. There are look-ups enough without
// trouble that the resolver as such is not slow.
func (s *story) floods(resolver netip.AddrPort, n, lost int) {
	s.Resolver = resolver
	from, first := s.own(), 5*ms
	s.shows(first)
	for i := range n - 1 {
		took := ms
		if i < lost-1 {
			took = -1
		}
		s.Ask(first+time.Duration(i)*ms/2, took, from, uint16(i), s.newName(), false, found)
	}
	s.now = 900 * ms
	s.request(func(at time.Duration) time.Duration {
		const again, took = 2 * time.Second, 2 * ms
		from, name := s.own(), s.newName()
		s.Ask(at+ms, -1, from, 7, name, false)
		s.Ask(at+ms+again, took, from, 7, name, false, found)
		s.lose(again + took)
		return again + 10*ms
	})
	s.lookups(500)
}

// slowLookups has requests wait for names, among other look-ups that are quick.
func (s *story) slowLookups(n int, took time.Duration, others int) {
	for i := range n {
		s.request(func(at time.Duration) time.Duration {
			s.Ask(at+ms, took, s.own(), uint16(i), s.newName(), false, found)
			s.shows(at+ms, at+ms+took)
			s.lose(took)
			return took + 10*ms
		})
	}
	s.lookups(others)
}

// waits has requests ask for names that are never found, the last one so long before the
// capture's end, which is its client's last word.
func (s *story) waits(before time.Duration) {
	for i := range 3 {
		s.request(func(at time.Duration) time.Duration {
			s.Ask(at+ms, -1, s.own(), uint16(i), s.newName(), false)
			took := 10 * ms
			if i == 2 {
				took = before
			}
			s.shows(at + ms)
			s.lose(took - ms) // for nothing else happens
			return took
		})
	}
}
