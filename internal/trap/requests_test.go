package trap

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// paused is requests at random, about one a second, that do nothing but work; when says
// how long, given the moment at which they begin.
func paused(s *story, n int, when func(start float64, random *rand.Rand) float64) {
	random := rand.New(rand.NewPCG(1, 2))
	now := 0.0
	for range n {
		now += 200 + random.Float64()*1600
		s.request(now, when(now, random))
	}
}

// nextPeriod is work that goes on when the next but one period of 100 ms begins, give or
// take some milliseconds.
func nextPeriod(start float64, random *rand.Rand) float64 {
	return math.Ceil(start/100)*100 + 30 + 8*random.Float64() - start
}

// loops is requests with calls of one template, one after the other or at once.
func loops(s *story, requests, calls int, took, step, total float64, change func(i int, x *capture.Exchange)) {
	c := s.conn(pod, "10.0.3.7:5432")
	for r := range requests {
		now := float64(r * 1000)
		var all []*capture.Exchange
		for i := range calls {
			x := s.exchange(c, now+1+float64(i)*step, took, "SELECT", "SELECT * FROM item WHERE id = ?")
			x.Protocol, x.HTTP = capture.PostgreSQL, nil
			if change != nil {
				change(i, x)
			}
			all = append(all, s.now(x))
		}
		s.request(now, total, all...)
	}
}

// pinned is calls of gRPC over some connections, over some seconds.
func pinned(s *story, calls, conns int, seconds float64, name string, addresses int) {
	x := s.dns(s.conn(pod, coredns), 0, 1, "A", name, 0)
	x.DNS.Addresses = nil
	for i := range addresses {
		x.DNS.Addresses = append(x.DNS.Addresses, netip.AddrFrom4([4]byte{10, 0, 3, byte(7 + i)}))
	}
	var open []*capture.Conn
	for range conns {
		open = append(open, s.conn(pod, "10.0.3.7:50051"))
	}
	for i := range calls {
		x := s.exchange(open[i%conns], 10+float64(i)*seconds*1000/float64(calls-1), 5, "", "/shop.Cart/Get")
		x.Protocol, x.Authority = capture.GRPC, name+":50051"
		s.orphan(s.now(x))
	}
}

var requestPairs = map[string]pair{
	"cpu-throttling": {
		has: func(s *story) {
			s.config.CPU = &CPUStat{Periods: 1000, Throttled: 412, ThrottledTime: 21 * time.Second}
			paused(s, 60, nextPeriod)
		},
		title: "60 pauses without packets end in phase with a period of 100 ms (agreement 0.99 of 1), as under a CPU limit; they cost a request up to 81 ms on average.",
		cost:  80_842_870, severity: High, confirmed: "cpu.stat counts 412 of 1000 periods as throttled (41 %), for 21.0 s in all",
		near: map[string]func(*story){
			"work of any length": func(s *story) {
				paused(s, 400, func(_ float64, random *rand.Rand) float64 { return 20 + 100*random.Float64() })
			},
			"too few": func(s *story) { paused(s, 19, nextPeriod) },
			"longer than ten periods": func(s *story) {
				paused(s, 60, func(start float64, random *rand.Rand) float64 { return 1000 + nextPeriod(start, random) })
			},
			"a weak phase": func(s *story) {
				paused(s, 800, func(start float64, random *rand.Rand) float64 {
					if random.Float64() < 0.4 {
						return nextPeriod(start, random)
					}
					return 20 + 100*random.Float64()
				})
			},
			"a phase that few pauses agree on by chance": func(s *story) {
				paused(s, 24, func(start float64, random *rand.Rand) float64 {
					if random.Float64() < 0.75 {
						return nextPeriod(start, random)
					}
					return 20 + 100*random.Float64()
				})
			},
			"shorter than work": func(s *story) {
				random := rand.New(rand.NewPCG(9, 10))
				for i := range 200 {
					took := 9.9 * random.Float64()
					s.request(float64(i*500)+30-took, took)
				}
			},
			"a load generator that keeps the period": func(s *story) {
				for i := range 400 {
					s.request(float64(i*500), 42)
				}
			},
			"pauses that stop all requests at once, at any time": func(s *story) {
				random := rand.New(rand.NewPCG(3, 4))
				for i := range 20 {
					end := float64(i*1500) + 300*random.Float64()
					for j := range 20 {
						s.request(end-20-float64(j), 20+float64(j))
					}
				}
			},
			"a shorter period": func(s *story) {
				paused(s, 200, func(start float64, random *rand.Rand) float64 {
					return math.Ceil(start/70)*70 + 30 - start
				})
			},
			"cpu.stat knows of none": func(s *story) {
				s.config.CPU = &CPUStat{Periods: 1000}
				paused(s, 60, nextPeriod)
			},
			"a pod without a limit": func(s *story) {
				s.config.Pod = &Pod{Name: "cart"}
				paused(s, 60, nextPeriod)
			},
		},
	},
	"n-plus-one": {
		has:   func(s *story) { loops(s, 3, 5, 4, 5, 60, nil) },
		title: "GET /v1/{id} made 5 calls one after the other to 10.0.3.7:5432 (SELECT * FROM item WHERE id = ?), 20 ms of its 60 ms, in 3 of 3 requests.",
		cost:  16 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"four":                     func(s *story) { loops(s, 9, 4, 10, 11, 60, nil) },
			"two requests":             func(s *story) { loops(s, 2, 9, 4, 5, 60, nil) },
			"at once":                  func(s *story) { loops(s, 9, 9, 20, 1, 60, nil) },
			"a small part of its time": func(s *story) { loops(s, 9, 5, 4, 5, 70, nil) },
			"different statements": func(s *story) {
				loops(s, 9, 9, 4, 5, 60, func(i int, x *capture.Exchange) { x.Target = "SELECT " + strings.Repeat("a", i+1) })
			},
			"calls that nobody can read": func(s *story) {
				loops(s, 9, 9, 4, 5, 60, func(_ int, x *capture.Exchange) { x.Protocol, x.Op, x.Target = capture.TLS, "data", "" })
			},
			"links that could be others'": func(s *story) {
				c := s.conn(pod, search)
				for i := range 9 {
					var calls []*capture.Exchange
					for j := range 9 {
						calls = append(calls, s.http(c, float64(i*1000+j*5), 4, "GET", fmt.Sprint("/item/", j)))
					}
					r := s.request(float64(i*1000), 60, calls...)
					for j := range r.Links {
						r.Links[j].Certainty = attribution.Ambiguous
					}
				}
			},
		},
	},
	"connection-pinning": {
		has:      func(s *story) { pinned(s, 100, 1, 60, "cart.example.com", 3) },
		title:    "All 100 gRPC calls to cart.example.com:50051 in 60.0 s went over one connection to 10.0.3.7:50051, though DNS lists 3 addresses.",
		severity: Low,
		near: map[string]func(*story){
			"two connections": func(s *story) { pinned(s, 200, 2, 60, "cart.example.com", 3) },
			"99 calls":        func(s *story) { pinned(s, 99, 1, 60, "cart.example.com", 3) },
			"59 s":            func(s *story) { pinned(s, 500, 1, 59, "cart.example.com", 3) },
			"one replica":     func(s *story) { pinned(s, 500, 1, 90, "cart.example.com", 1) },
		},
	},
}

// TestTemplates sees calls of one kind counted as one.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/v1/users/17/orders": "/v1/users/{id}/orders", "/users": "/users", "SELECT 1": "SELECT 1", "/a/9f3c": "/a/{id}", "/v2beta1/x": "/{id}/x",
	} {
		x := &capture.Exchange{Op: "GET", Target: target}
		if got := templateOf(&attribution.Link{Exchange: x}); got.target != want {
			t.Errorf("%s: %s, want %s", target, got.target, want)
		}
	}
}

// TestPhaseByChance sees that moments without phase are taken for some about as often as
// said: of 2000 captures with 60 moments each, 100 ± 40 are below 0.05.
func TestPhaseByChance(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	below := 0
	for range 2000 {
		p := phases{period: quotaPeriod}
		now := begin
		for range 60 {
			now = now.Add(time.Duration(100e6 + random.Float64()*2e9))
			p.add(now)
		}
		p.end()
		if p.chance() < 0.05 {
			below++
		}
	}
	if below < 60 || below > 140 {
		t.Errorf("%d of 2000 captures without phase are below a chance of 0.05, want about 100", below)
	}
}

// TestPhaseDrifts sees a phase that drifts by 300 millionths, as clocks do.
func TestPhaseDrifts(t *testing.T) {
	t.Parallel()
	p := phases{period: quotaPeriod}
	for i := range 3000 {
		p.add(begin.Add(time.Duration(float64(i*200) * 1e6 * (1 + 300e-6))))
	}
	p.end()
	if c := p.concentration(); c < 0.9 || p.chance() > byChance {
		t.Errorf("concentration %.2f by chance %g over 10 minutes, want at least 0.9", c, p.chance())
	}
}

// TestQuota sees what configuration says of throttling.
func TestQuota(t *testing.T) {
	t.Parallel()
	limited, free := &Pod{CPULimit: map[string]float64{"cart": 1}}, &Pod{}
	for name, test := range map[string]struct {
		config            Config
		confirmed, denied bool
	}{
		"nothing given":           {Config{}, false, false},
		"one in a hundred":        {Config{CPU: &CPUStat{Periods: 1000, Throttled: 10}}, true, false},
		"fewer":                   {Config{CPU: &CPUStat{Periods: 1000, Throttled: 9}}, false, false},
		"none":                    {Config{CPU: &CPUStat{Periods: 1000}, Pod: limited}, false, true},
		"a limit":                 {Config{Pod: limited}, false, false},
		"no limit":                {Config{Pod: free}, false, true},
		"no limit, no periods":    {Config{Pod: free, CPU: &CPUStat{}}, false, true},
		"the kernel knows of one": {Config{Pod: free, CPU: &CPUStat{Periods: 100, Throttled: 50}}, true, false},
	} {
		confirmed, denied := quota(test.config)
		if (confirmed != "") != test.confirmed || denied != test.denied {
			t.Errorf("%s: confirmed by %q, denied %v; want %v, %v", name, confirmed, denied, test.confirmed, test.denied)
		}
	}
}
