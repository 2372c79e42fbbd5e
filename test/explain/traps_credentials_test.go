package explain

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

// javaWindow is the life left below which the AWS SDK for Java 1 fetches again, as far as
// clocks agree: 15 minutes and 5 seconds.
const javaWindow = 15*time.Minute + 5*time.Second

var credentialPairs = map[string]map[string]pair{
	"credential-refresh": {
		"fetches with one end": across(3, 2, func(s *story, times int) {
			s.fetches(fetching{times: times, of: 15, life: 10 * time.Minute, oneEnd: true})
		}),
		"fetches for each request": across(14, 15, func(s *story, requests int) {
			s.fetches(fetching{times: 3, of: requests, life: 10 * time.Minute})
		}),
		"faster than one a minute": across(90*time.Second-1, 90*time.Second, func(s *story, every time.Duration) {
			s.fetches(fetching{times: 3, of: 10, life: 10 * time.Minute, every: every})
		}),
		// Those that live on were not fetched to renew them.
		"life left": across(javaWindow-1, javaWindow, func(s *story, life time.Duration) {
			s.fetches(fetching{times: 3, of: 10, life: life})
		}).foundInstead("credentials-per-client"),
	},
	"credentials-per-client": {
		"sessions": across(5, 4, func(s *story, sessions int) { s.sessions(sessions, 10*time.Second) }),
		"within a minute": across(time.Minute/4, time.Minute/4+1, func(s *story, every time.Duration) {
			s.sessions(5, every)
		}),
		"fetches": across(3, 2, func(s *story, times int) {
			s.fetches(fetching{times: times, of: 9, life: time.Hour})
		}),
		"fetches for each request": across(14, 15, func(s *story, requests int) {
			s.fetches(fetching{times: 3, of: requests, life: time.Hour})
		}),
		"faster than one a minute": across(90*time.Second-1, 90*time.Second, func(s *story, every time.Duration) {
			s.fetches(fetching{times: 3, of: 10, life: time.Hour, every: every})
		}),
	},
	"imdsv2-hop-limit": {
		"no sooner": across(900*ms, 900*ms-1, func(s *story, wait time.Duration) { s.tokenless(wait, false) }),
		"no later": across(16*time.Second, 16*time.Second+1, func(s *story, wait time.Duration) {
			s.tokenless(wait, false)
		}),
		"no answer": across(false, true, func(s *story, answered bool) { s.tokenless(time.Second, answered) }),
	},
	"metadata-slow": {
		"calls":  across(2, 1, func(s *story, calls int) { s.slowMetadata(calls, time.Second) }),
		"a call": across(time.Second, time.Second-1, func(s *story, took time.Duration) { s.slowMetadata(2, took) }),
	},
}

// fetching is how credentials are fetched by the first requests of several.
type fetching struct {
	times, of int
	// life is what is left when they are served: each time, or the first time if they have
	// one end. every is from one to the next; 0 is as requests come.
	life, every time.Duration
	oneEnd      bool
}

// fetches has requests fetch credentials, each for 40 ms.
func (s *story) fetches(f fetching) {
	const took = 40 * ms
	c := s.pooled(metadata)
	var end time.Time
	for i := range f.of {
		if i >= f.times {
			s.quiet(1)
			continue
		}
		begun := s.now
		if f.every == 0 {
			// Ends are in whole seconds: the answer comes where the life left makes it one.
			next := s.Time(s.now + ms + took).Add(f.life)
			s.now += next.Truncate(time.Second).Add(time.Second).Sub(next)
		}
		s.request(func(at time.Duration) time.Duration {
			served := at + ms + took
			if i == 0 || !f.oneEnd {
				end = s.Time(served).Add(f.life)
			}
			c.Send(at+ms, capture.Client, synth.Get("GET", "/latest/meta-data/iam/security-credentials/shop", "169.254.169.254", "aws-sdk-java/1.11.500", nil))
			c.Send(served, capture.Server, synth.Credentials(end))
			s.shows(at+ms, served)
			s.lose(took)
			return took + 10*ms
		})
		if f.every > 0 {
			s.now = begun + f.every
		}
	}
}

// sessions has requests start sessions with STS, each with a handshake of 20 ms and a call
// of 30 ms on a connection that stays, among so many others that only their haste tells.
func (s *story) sessions(n int, every time.Duration) {
	sts := netip.MustParseAddrPort("52.94.5.1:443")
	for range n {
		begun := s.now
		s.request(func(at time.Duration) time.Duration {
			c := s.dial(at+ms, sts)
			hello, asked := at+3*ms, at+24*ms
			c.Secure(hello, tlsHandshake, "sts.eu-west-1.amazonaws.com")
			c.Send(asked, capture.Client, synth.Sealed(900))
			c.Send(asked+30*ms, capture.Server, synth.Sealed(1300))
			s.shows(hello, hello+tlsHandshake)
			s.lose(handshake + tlsHandshake + 30*ms)
			return 60 * ms
		})
		s.now = begun + every
	}
	s.quiet(25 - n)
}

// tokenless has a request put for a token, and go on without one after a wait. It is long
// ago that there was another one: what is called meanwhile is this one's.
func (s *story) tokenless(wait time.Duration, answered bool) {
	s.gap = time.Minute
	s.request(func(at time.Duration) time.Duration {
		put, get := at+3*ms, at+3*ms+wait
		c := s.dial(at+ms, metadata)
		c.Send(put, capture.Client, synth.Get("PUT", "/latest/api/token", "169.254.169.254", "client/1", nil))
		if answered {
			c.Send(put+ms, capture.Server, synth.Answer(200, []byte("token")))
		}
		c.Finish(get-3*ms, capture.Client)
		second := s.dial(get-2*ms, metadata)
		second.Send(get, capture.Client, synth.Get("GET", "/latest/meta-data/placement/region", "169.254.169.254", "client/1", nil))
		second.Send(get+ms, capture.Server, synth.Answer(200, []byte("eu-west-1")))
		s.shows(put, get)
		s.lose(wait)
		return wait + 10*ms
	})
	s.quiet(4)
}

// slowMetadata has requests ask for the region, and wait.
func (s *story) slowMetadata(calls int, took time.Duration) {
	c := s.pooled(metadata)
	for range calls {
		s.request(func(at time.Duration) time.Duration {
			c.Send(at+ms, capture.Client, synth.Get("GET", "/latest/meta-data/placement/region", "169.254.169.254", "client/1", nil))
			c.Send(at+ms+took, capture.Server, synth.Answer(200, []byte("eu-west-1")))
			s.shows(at+ms, at+ms+took)
			s.lose(took)
			return took + 10*ms
		})
	}
	s.quiet(4)
}
