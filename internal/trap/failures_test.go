package trap

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

const outside = "93.184.216.34:443"

// lateSYN is requests whose call opens a connection at the second attempt.
func lateSYN(s *story, n int, after float64) {
	for i := range n {
		now := float64(i * 10_000)
		c := s.dial(pod, search, now+5, now+5+after)
		s.request(now, after+100, s.http(c, now+7+after, 10, "GET", "/index"))
		s.end(c)
	}
}

// afterIdling is a call on a connection that was idle for so many seconds, which a reset
// answers.
func afterIdling(s *story, seconds float64, reset bool) {
	c := s.conn(pod, search)
	s.http(c, 0, 10, "GET", "/index")
	now := 10 + seconds*1000
	x := s.http(c, now, -1, "GET", "/index")
	s.request(now-5, 50, x)
	if reset {
		c.Reset = true
		s.close(c, now+20, capture.Server)
	} else {
		s.end(c)
	}
}

// crossing is a question on a used connection, which the server ends so much later.
func crossing(s *story, late float64, by capture.Side) {
	c := s.conn(pod, search)
	s.http(c, 0, 10, "GET", "/index")
	s.http(c, 5000, -1, "POST", "/index")
	s.close(c, 5000+late, by)
}

// holes is connections whose full segment is sent again three times.
func holes(s *story, n, tries int, full bool) {
	for i := range n {
		now := float64(i * 10_000)
		c := s.dial(pod, search, now)
		s.http(c, now+2, 1, "GET", "/small")
		from := now + 10
		for try := range tries {
			to := from + float64(int(200)<<try)
			s.stall(c, capture.StallTimeout, capture.Client, from, to, func(x *capture.Stall) { x.Tries, x.Full, x.Bytes = try+1, full, 1448 })
			from = to
		}
		s.request(now+5, 2000, s.http(c, now+10, 1500, "POST", "/large"))
		s.end(c)
	}
}

// toOutside is connections to an outside address, the first ones of which fail.
func toOutside(s *story, to string, silent, opened int) {
	for i := range silent {
		s.end(s.silent(pod, to, float64(i*100), float64(i*100+1000), float64(i*100+3000)))
	}
	for i := range opened {
		s.close(s.dial(pod, to, float64(i*100+50)), float64(i*100+90), capture.Client)
	}
}

// refuse tells a connection that the server resets at once.
func refuse(s *story, client, server string, ms float64) {
	c := s.silent(client, server, ms)
	c.Reset = true
	s.close(c, ms+1, capture.Server)
}

// serve is a connection that carries an exchange.
func serve(s *story, client, server string, ms float64) {
	c := s.dial(client, server, ms)
	s.http(c, ms+2, 10, "GET", "/")
	s.close(c, ms+30, capture.Client)
}

// callsItself is a pod that others call as cart, and that calls an address.
func callsItself(s *story, name string, again ...float64) {
	in := s.conn(gateway, pod+":8080")
	r := s.requestOn(in, 0, 20)
	r.Authority = "cart.shop:8080"
	d := s.dns(s.conn(pod, coredns), 100, 1, "A", name, 0)
	d.DNS.Addresses = []netip.Addr{netip.MustParseAddr("10.96.0.20")}
	s.end(s.silent(pod, "10.96.0.20:80", again...))
}

var failurePairs = map[string]pair{
	"syn-loss": {
		has:   func(s *story) { lateSYN(s, 2, 1000) },
		title: "2 of 2 connections were established only when their SYN was sent again, after up to 1.0 s (2 times with 10.0.3.7:9200); each request cost 1.0 s.",
		cost:  time.Second, severity: High,
		near: map[string]func(*story){
			"once":                func(s *story) { lateSYN(s, 1, 1000) },
			"sent again too soon": func(s *story) { lateSYN(s, 3, 500) },
			"never answered": func(s *story) {
				for i := range 3 {
					s.end(s.silent(pod, search, float64(i*100), float64(i*100+1000)))
				}
			},
		},
	},
	"idle-drop": {
		has:   func(s *story) { afterIdling(s, 350, true) },
		title: "1 request on connections to 10.0.3.7:9200 that had been idle for 350 s or more got no answer: AWS's balancers and NAT gateways forget connections after 350 s; each request cost 20 ms.",
		cost:  20 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"239 s":            func(s *story) { afterIdling(s, 239, true) },
			"the capture ends": func(s *story) { afterIdling(s, 400, false) },
			"answered": func(s *story) {
				c := s.conn(pod, search)
				s.http(c, 0, 10, "GET", "/")
				s.http(c, 400_000, 10, "GET", "/")
				s.close(c, 400_100, capture.Server)
			},
		},
	},
	"keepalive-race": {
		has:      func(s *story) { crossing(s, 1.5, capture.Server) },
		title:    "1 of 1 request on reused connections crossed with the server (10.0.3.7:9200) closing them, and failed.",
		severity: High,
		near: map[string]func(*story){
			"the server gave up while it worked": func(s *story) { crossing(s, 2.1, capture.Server) },
			"the client gave up":                 func(s *story) { crossing(s, 1.5, capture.Client) },
			"closed long before":                 func(s *story) { crossing(s, -2.1, capture.Server) },
			"a database client says goodbye": func(s *story) {
				c := s.conn(pod, "10.0.3.7:5432")
				s.protocol(capture.PostgreSQL, c, 0, 10, "SELECT", "SELECT ?")
				s.protocol(capture.PostgreSQL, c, 5000, -1, "TERMINATE", "")
				s.close(c, 5000.5, capture.Server)
			},
			"a new connection": func(s *story) {
				c := s.dial(pod, search, 0)
				s.http(c, 2, -1, "GET", "/")
				s.close(c, 2.5, capture.Server)
			},
		},
	},
	"mtu-black-hole": {
		has:   func(s *story) { holes(s, 2, 3, true) },
		title: "On 2 connections to or from 10.0.3.7 the handshake and small packets passed, but full segments (1448 bytes) were sent again 3 times or more; each request cost 1.4 s.",
		cost:  1400 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"twice":          func(s *story) { holes(s, 5, 2, true) },
			"small ones":     func(s *story) { holes(s, 5, 4, false) },
			"one connection": func(s *story) { holes(s, 1, 5, true) },
			"a path that is dead": func(s *story) {
				for i := range 3 {
					c := s.dial(pod, search, float64(i))
					for try := range 4 {
						s.stall(c, capture.StallTimeout, capture.Client, 10, 300, func(x *capture.Stall) { x.Tries, x.Full = try+1, try%2 == 0 })
					}
					s.end(c)
				}
			},
		},
	},
	"snat-exhaustion": {
		has:      func(s *story) { toOutside(s, outside, 3, 5) },
		title:    "3 of 8 connections to the outside address 93.184.216.34:443 got no answer to their SYN, while the others did: translation (SNAT) may have run out of ports.",
		severity: High,
		near: map[string]func(*story){
			"two":             func(s *story) { toOutside(s, outside, 2, 5) },
			"nothing answers": func(s *story) { toOutside(s, outside, 9, 0) },
			"inside":          func(s *story) { toOutside(s, search, 9, 5) },
			"refused": func(s *story) {
				toOutside(s, outside, 0, 5)
				for i := range 5 {
					refuse(s, pod, outside, float64(i*100))
				}
			},
		},
	},
	"stale-endpoint": {
		has: func(s *story) {
			s.config.Pod = &Pod{Name: "cart-1"}
			serve(s, gateway, pod+":8080", 0)
			s.request(500, 20)
			refuse(s, gateway, pod+":8080", 1000)
			refuse(s, gateway, pod+":8080", 1100)
		},
		title:    "2 connections to 10.0.0.5:8080, which had served before, failed (refused): it was sent traffic after it had gone.",
		severity: High, confirmed: "without a preStop hook",
		near: map[string]func(*story){
			"once": func(s *story) { serve(s, pod, search, 0); refuse(s, pod, search, 1000) },
			"it has yet to start": func(s *story) {
				refuse(s, pod, search, 0)
				refuse(s, pod, search, 100)
				refuse(s, pod, search, 200)
				serve(s, pod, search, 1000)
			},
			"never served": func(s *story) {
				for i := range 5 {
					refuse(s, pod, search, float64(i*100))
				}
			},
			"outside": func(s *story) {
				serve(s, pod, outside, 0)
				for i := range 5 {
					refuse(s, pod, outside, 100+float64(i*100))
				}
			},
		},
	},
	"hairpin": {
		has:      func(s *story) { callsItself(s, "cart.shop.svc.cluster.local", 200, 1200, 3200) },
		title:    "The pod called its own service (cart.shop.svc.cluster.local) and got no answer on 1 connection: what is sent back to it is dropped.",
		severity: High,
		near: map[string]func(*story){
			"another service":           func(s *story) { callsItself(s, "stock.shop.svc.cluster.local", 200, 1200, 3200) },
			"another namespace's":       func(s *story) { callsItself(s, "cart.test.svc.cluster.local", 200, 1200, 3200) },
			"the capture's last packet": func(s *story) { callsItself(s, "cart.shop.svc.cluster.local", 200) },
		},
	},
	"metadata-slow": {
		has: func(s *story) {
			c := s.conn(pod, imds)
			for i := range 2 {
				now := float64(i * 10_000)
				s.request(now, 1200, s.metadata(c, now+1, 1000, capture.MetadataRole, 0))
			}
		},
		title: "The metadata service was slow or silent: of 2 calls 2 took 1.0 s or more and 0 got no answer, and 0 connections failed; each request cost 1.0 s.",
		cost:  time.Second, severity: High,
		near: map[string]func(*story){
			"once": func(s *story) { s.metadata(s.conn(pod, imds), 1, 5000, capture.MetadataRole, 0) },
			"999 ms": func(s *story) {
				for range 5 {
					s.metadata(s.conn(pod, imds), 1, 999, capture.MetadataRole, 0)
				}
			},
			"the token's answer, which has a rule of its own": func(s *story) {
				for range 5 {
					s.metadata(s.conn(pod, imds), 1, -1, capture.MetadataSession, 0)
				}
			},
			"others are refused": func(s *story) {
				for i := range 5 {
					refuse(s, pod, search, float64(i))
				}
			},
		},
	},
}
