package explain

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

var failurePairs = map[string]map[string]pair{
	"idle-drop": {
		"idle": across(240*time.Second, 240*time.Second-1, func(s *story, idle time.Duration) { s.idles(idle, false) }),
		"idle, and no reset": across(240*time.Second, 240*time.Second-1, func(s *story, idle time.Duration) {
			s.idles(idle, true)
		}),
	},
	"keepalive-race": {
		"the end comes after": across(raceWithin, raceWithin+1, func(s *story, late time.Duration) { s.closesWhile(late) }),
		"the end comes before": across(-raceWithin, -raceWithin-1, func(s *story, late time.Duration) {
			s.closesWhile(late)
		}),
	},
	"stale-endpoint": {
		"connections": across(2, 1, func(s *story, n int) { s.refuses(n, gone) }),
		"had served":  across(gone, backend, func(s *story, served netip.AddrPort) { s.refuses(2, served) }),
	},
	"snat-exhaustion": {
		"connections": across(3, 2, func(s *story, n int) { s.unanswered(n, 1, outside) }),
		"others":      across(1, 0, func(s *story, others int) { s.unanswered(3, others, outside) }),
		"outside": across(outside, netip.MustParseAddrPort("100.127.255.255:80"), func(s *story, to netip.AddrPort) {
			s.unanswered(3, 1, to)
		}).foundInstead("stale-endpoint"),
	},
}

var gone = netip.MustParseAddrPort("10.1.0.9:9200")

// idles has a request ask on a connection that was idle: a reset comes back, or nothing
// although it is asked again.
func (s *story) idles(idle time.Duration, silent bool) {
	c := s.pooled(backend)
	var answered time.Duration
	s.request(func(at time.Duration) time.Duration {
		answered = at + 6*ms
		call(c, at+ms, 5*ms)
		return 10 * ms
	})
	s.now = answered + idle - ms
	s.request(func(at time.Duration) time.Duration {
		question := synth.Get("GET", "/search", "backend", "client/1", nil)
		c.Send(at+ms, capture.Client, question)
		end := at + 20*ms
		if silent {
			c.SendAgain(at+201*ms, capture.Client, question)
			end = at + 401*ms
			c.Reset(end, capture.Client)
		} else {
			c.Reset(end, capture.Server)
		}
		s.shows(at+ms, end)
		s.lose(end - at - ms)
		return end + ms - at
	})
}

// raceWithin is how near to its end a connection is asked, at most: its round trip, and
// a millisecond.
const raceWithin = 20*ms + ms

// closesWhile has a request ask on a used connection that its server closes so much later.
func (s *story) closesWhile(late time.Duration) {
	s.request(func(at time.Duration) time.Duration {
		c := s.Dial(at+ms, 20*ms, s.own(), backend)
		asks(c, at+25*ms)
		c.Send(at+55*ms, capture.Server, synth.Answer(200, []byte("{}")))
		asked := at + 100*ms
		closed := asked + late
		if late > 0 {
			asks(c, asked)
			c.Finish(closed, capture.Server)
		} else {
			c.Finish(closed, capture.Server)
			asks(c, asked)
		}
		c.Reset(at+140*ms, capture.Server)
		s.shows(asked, closed)
		return 150 * ms
	})
	s.quiet(2)
}

// calls has so many requests connect to an address and call it.
func (s *story) calls(n int, to netip.AddrPort) {
	for range n {
		s.request(func(at time.Duration) time.Duration {
			call(s.dial(at+ms, to), at+3*ms, 5*ms)
			return 20 * ms
		})
	}
}

// refuses has requests call an address that serves, then connect to one that is gone.
func (s *story) refuses(n int, served netip.AddrPort) {
	s.calls(1, served)
	for range n {
		s.request(func(at time.Duration) time.Duration {
			c := s.Knock(at+ms, s.own(), gone)
			c.Reset(at+2*ms, capture.Server)
			s.shows(at + ms)
			return 20 * ms
		})
	}
}

// unanswered has requests connect to an address in vain, and others call it.
func (s *story) unanswered(n, others int, to netip.AddrPort) {
	s.calls(others, to)
	for range n {
		s.request(func(at time.Duration) time.Duration {
			c := s.Knock(at+ms, s.own(), to)
			c.Knock(at + 1001*ms)
			s.shows(at+ms, at+1001*ms)
			return 1500 * ms
		})
	}
}
