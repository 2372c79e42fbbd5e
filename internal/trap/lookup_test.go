package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/capture"
)

var suffixes = []string{".shop.svc.cluster.local", ".svc.cluster.local", ".cluster.local"}

// searched is a look-up that goes through the search list first, 2 ms each.
func searched(s *story, c *capture.Conn, start float64, name string) []*capture.Exchange {
	var all []*capture.Exchange
	for i, suffix := range suffixes {
		all = append(all, s.dns(c, start+float64(2*i), 2, "A", name+suffix, nameError))
	}
	return append(all, s.dns(c, start+6, 2, "A", name, 0))
}

// asksEvery is a request that looks up a name, now and then.
func asksEvery(s *story, n int, every float64) {
	c := s.conn(pod, coredns)
	for i := range n {
		s.request(float64(i)*every, 60, s.dns(c, float64(i)*every+1, 22, "A", "es.example.com", 0))
	}
}

// twins are look-ups of A and AAAA from one port, of which the second is asked again
// after a while.
func twins(s *story, n int, again float64, answered bool) {
	for i := range n {
		c, now := s.conn(pod, coredns), float64(i*10_000)
		took := 1.0
		if !answered {
			took = -1
		}
		a := s.dns(c, now, took, "A", "es.example.com", 0)
		aaaa := s.exchange(c, now+0.1, again+1, "AAAA", "es.example.com")
		aaaa.Protocol, aaaa.HTTP = capture.DNS, nil
		aaaa.DNS = &capture.DNSDetail{Type: "AAAA", Resent: []capture.Mark{s.mark(now + 0.1 + again)}}
		s.request(now, again+20, a, s.now(aaaa))
	}
}

const vpc = "10.0.0.2:53"

// floods asks a resolver so many questions within a second, of which it loses some.
func floods(s *story, resolver string, questions, lost int) {
	for i := range questions {
		c := s.conn(pod, resolver)
		if i < lost {
			s.dns(c, 100+float64(i)*0.5, -1, "A", "es.example.com", 0)
		} else {
			s.dns(c, 100+float64(i)*0.5, 1, "A", "es.example.com", 0)
		}
	}
}

var dnsPairs = map[string]pair{
	"dns-search-amplification": {
		has: func(s *story) {
			s.config.Resolv = &Resolv{Ndots: 5, Search: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}}
			c := s.conn(pod, coredns)
			for i := range 3 {
				s.request(float64(i*1000), 50, searched(s, c, float64(i*1000)+1, "es.example.com")...)
			}
		},
		title: "Look-ups of es.example.com went through 3 search suffixes first: 9 of 12 DNS queries were for nothing; each request cost 6.0 ms.",
		cost:  6 * time.Millisecond, severity: High,
		confirmed: "ndots is 5 and es.example.com has 2 dots, so the 3 search domains come first",
		near: map[string]func(*story){
			"twice, at start": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 2 {
					searched(s, c, float64(i), "es.example.com")
				}
			},
			"names that do not exist": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 10 {
					s.dns(c, float64(i), 1, "A", "typo.example.com"+suffixes[0], nameError)
					s.dns(c, float64(i)+1, 1, "A", "typo.example.com", nameError)
					s.dns(c, float64(i)+2, 1, "A", "es.example.com", 0)
				}
			},
			"another namespace's service, found by the next suffix": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 10 {
					s.dns(c, float64(i), 1, "A", "es.search.shop.svc.cluster.local", nameError)
					s.dns(c, float64(i)+1, 1, "A", "es.search.svc.cluster.local", 0)
				}
			},
			"a name that begins alike": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 10 {
					s.dns(c, float64(i), 1, "A", "es.example.community", nameError)
					s.dns(c, float64(i)+1, 1, "A", "es.example.com", 0)
				}
			},
			"few of many queries": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 3 {
					searched(s, c, float64(i*1000), "es.example.com")
				}
				for i := range 36 {
					s.dns(c, 5000+float64(i), 1, "A", "cart.shop.svc.cluster.local", 0)
				}
			},
			"10 s before": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 5 {
					s.dns(c, float64(i*minute), 1, "A", "es.example.com"+suffixes[0], nameError)
					s.dns(c, float64(i*minute)+10_100, 1, "A", "es.example.com", 0)
				}
			},
		},
	},
	"dns-uncached": {
		has:   func(s *story) { asksEvery(s, 6, 1000) },
		title: "5 of 6 look-ups asked for what an earlier answer still held (A es.example.com: 6 times, though it lives 30.0 s); 5 of 6 requests cost 22 ms.",
		cost:  22 * time.Millisecond * 5 / 6, severity: High,
		near: map[string]func(*story){
			"four repeats":             func(s *story) { asksEvery(s, 5, 1000) },
			"when the answer has aged": func(s *story) { asksEvery(s, 20, 30_100) },
			"few of the requests": func(s *story) {
				asksEvery(s, 6, 1000)
				for i := range 19 {
					s.request(float64(i*100), 20)
				}
			},
			"two processes with a cache each": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 20 {
					now := float64(i * 40_000)
					s.dns(c, now, 1, "A", "es.example.com", 0)
					s.dns(c, now+5000, 1, "A", "es.example.com", 0)
				}
			},
			"different names": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 20 {
					s.dns(c, float64(i), 1, "A", fmt.Sprintf("shard-%d.example.com", i), 0)
				}
			},
			"cut answers, again over TCP": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 20 {
					x := s.exchange(c, float64(i), 1, "A", "es.example.com")
					x.HTTP, x.Status = nil, 0
					x.DNS = &capture.DNSDetail{Type: "A", TTL: time.Minute, Truncated: true}
					s.now(x)
				}
			},
		},
	},
	"dns-conntrack-race": {
		has:   func(s *story) { twins(s, 2, 5000, true) },
		title: "2 of 4 look-ups lost their packet to their twin (A and AAAA from one port) and were asked again after 5 s; each request cost 5.0 s.",
		cost:  5*time.Second + 100*time.Microsecond, severity: High,
		near: map[string]func(*story){
			"once":                      func(s *story) { twins(s, 1, 5000, true) },
			"a resolver that waits 3 s": func(s *story) { twins(s, 3, 3000, true) },
			"both lost":                 func(s *story) { twins(s, 3, 5000, false) },
			"no twin": func(s *story) {
				for i := range 3 {
					x := s.exchange(s.conn(pod, coredns), float64(i*10_000), 5001, "A", "es.example.com")
					x.HTTP, x.DNS = nil, &capture.DNSDetail{Type: "A", Resent: []capture.Mark{s.mark(float64(i*10_000) + 5000)}}
					s.now(x)
				}
			},
		},
	},
	"dns-resolver-cap": {
		has:      func(s *story) { floods(s, vpc, 1100, 11) },
		title:    "The VPC's resolver 10.0.0.2 was asked up to 1100 times a second, over its limit of 1024 for each network interface, and left 11 queries unanswered in 1 second; none of it lies within a request of this capture.",
		severity: High,
		near: map[string]func(*story){
			"one below the cap":                func(s *story) { floods(s, vpc, 1023, 20) },
			"over it, no loss":                 func(s *story) { floods(s, vpc, 1100, 10) },
			"another resolver":                 func(s *story) { floods(s, coredns, 1100, 20) },
			"over it in all, of two resolvers": func(s *story) { floods(s, vpc, 1000, 20); floods(s, "10.1.0.2:53", 1000, 20) },
		},
	},
	"dns-slow": {
		has: func(s *story) {
			c := s.conn(pod, coredns)
			for i := range 3 {
				s.request(float64(i*1000), 200, s.dns(c, float64(i*1000)+1, 100, "A", "es.example.com", 0))
			}
			s.request(5000, 200)
		},
		title: "3 of 3 look-ups were slow: 3 took 100 ms or more, 0 were answered only when asked again, 0 never; 3 of 4 requests cost 100 ms.",
		cost:  75 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"99 ms": func(s *story) {
				for i := range 10 {
					s.dns(s.conn(pod, coredns), float64(i*1000), 99, "A", "es.example.com", 0)
				}
			},
			"two": func(s *story) {
				for i := range 2 {
					s.dns(s.conn(pod, coredns), float64(i*1000), 400, "A", "es.example.com", 0)
				}
			},
			"three of 301": func(s *story) {
				c := s.conn(pod, coredns)
				for i := range 301 {
					took := 1.0
					if i < 3 {
						took = 400
					}
					s.dns(c, float64(i*1000), took, "A", "es.example.com", 0)
				}
			},
			"the capture ends": func(s *story) {
				for range 4 {
					s.dns(s.conn(pod, coredns), 55_100, -1, "A", "es.example.com", 0)
				}
			},
			"nobody answers multicast": func(s *story) {
				for i := range 5 {
					s.dns(s.conn(pod, "224.0.0.251:5353"), float64(i*1000), -1, "A", "printer.local", 0)
				}
			},
			"races": func(s *story) { twins(s, 4, 5000, true) },
		},
	},
}
