package sim_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// Whatever a service is like, what comes in comes out once, and CPU is not made.

// FuzzRun simulates services that are drawn by chance, from a seed.
func FuzzRun(f *testing.F) {
	seeds := uint64(200)
	if raced {
		seeds = 20
	}
	for seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		trial, arrived := draw(random.New(seed))
		r, n := observed(t, trial)
		conserve(t, trial.Service, r, n, *arrived)
		if again, _ := observed(t, trial); !reflect.DeepEqual(r, again) {
			t.Error("a second run differs from the first")
		}
	})
}

// observed is a run whose policy looks at everything.
func observed(t *testing.T, trial sim.Trial) (*sim.Result, *wary) {
	t.Helper()
	var w *wary
	made := trial.NewPolicy
	trial.NewPolicy = func(s sim.Setting) sim.Policy {
		w = &wary{t: t, of: trial.Service, world: s.World, underWay: map[[2]int]int{}, Policy: made(s)}
		return w
	}
	r, err := sim.Run(context.Background(), trial)
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// wary is a policy that checks what it is told against what the interface promises.
type wary struct {
	sim.Policy
	t     *testing.T
	of    *sim.Service
	world sim.World

	now         float64
	members     map[int]bool
	underWay    map[[2]int]int // by proxy and server
	picks, ends int
	answered    int
}

// look is at the world, which must be one that can be.
func (w *wary) look() {
	now := w.world.Now()
	if now < w.now {
		w.t.Fatalf("time went back from %g to %g s", w.now, now)
	}
	w.now = now
	for i := range w.members {
		if u := w.world.Utilization(i); !(u >= 0 && u <= 1+1e-6) {
			w.t.Errorf("at %g s server %d says that its utilization is %g", now, i, u)
		}
		if s := w.world.Served(i); !(s >= 0) {
			w.t.Errorf("at %g s server %d says that it served %g a second", now, i, s)
		}
		if e := w.world.Expected(i); !(e > 0) {
			w.t.Errorf("at %g s a request at server %d is expected to take %g s", now, i, e)
		}
		if n := w.world.InFlight(i); n < 0 {
			w.t.Errorf("at %g s server %d has %d requests", now, i, n)
		}
	}
}

func (w *wary) Assign(endpoints []int, weights []uint32) {
	w.members = map[int]bool{}
	for i, server := range endpoints {
		w.members[server] = true
		if weights[i] == 0 {
			w.t.Errorf("server %d has weight 0", server)
		}
		s := w.of.Servers[server]
		if now := w.world.Now(); now < s.From || s.Until > 0 && now >= s.Until {
			w.t.Errorf("server %d is a member at %g s, not from %g until %g", server, now, s.From, s.Until)
		}
		if i > 0 && endpoints[i-1] >= server {
			w.t.Errorf("endpoints do not rise: %v", endpoints)
		}
	}
	if len(endpoints) == 0 || len(endpoints) != len(weights) {
		w.t.Errorf("%d endpoints and %d weights are assigned", len(endpoints), len(weights))
	}
	w.Policy.Assign(endpoints, weights)
}

func (w *wary) Pick(proxy int) int {
	if w.picks++; w.picks%16 == 0 {
		w.look()
	}
	if proxy < 0 || proxy >= w.of.Proxies {
		w.t.Fatalf("proxy %d of %d picks", proxy, w.of.Proxies)
	}
	server := w.Policy.Pick(proxy)
	w.underWay[[2]int{proxy, server}]++
	return server
}

func (w *wary) Done(proxy, server int, a sim.Answer) {
	w.ends++
	pair := [2]int{proxy, server}
	if w.underWay[pair]--; w.underWay[pair] < 0 {
		w.t.Fatalf("at %g s proxy %d has more ends than requests at server %d", w.world.Now(), proxy, server)
	}
	if !a.Failed {
		w.answered++
		if !(a.Latency > w.of.RoundTrip) {
			w.t.Errorf("an answer took %g s, with %g s on the way", a.Latency, w.of.RoundTrip)
		}
	}
	if w.of.Timeout > 0 && a.Latency > w.of.Timeout+1e-9 {
		w.t.Errorf("an attempt took %g s, longer than the patience of %g s", a.Latency, w.of.Timeout)
	}
	w.Policy.Done(proxy, server, a)
}

// waits checks that, at the end of a run, what proxies wait for is at servers. Those may have
// more: what proxies have given up.
func (w *wary) waits(t *testing.T) {
	t.Helper()
	if w.of.RoundTrip > 0 {
		return // answers are on their way
	}
	waiting := make([]int, len(w.of.Servers))
	for pair, n := range w.underWay {
		waiting[pair[1]] += n
	}
	for i, n := range waiting {
		at := w.world.InFlight(i)
		if at < n || w.of.Timeout == 0 && at > n {
			t.Errorf("proxies wait for %d requests at server %d, which has %d", n, i, at)
		}
	}
}

// conserve checks a result against what came in.
func conserve(t *testing.T, s *sim.Service, r *sim.Result, w *wary, arrived int) {
	t.Helper()
	if r.Requests != uint64(arrived) {
		t.Errorf("%d requests arrived and %d ended", arrived, r.Requests)
	}
	if r.Latency.Count()+r.Errors != r.Requests || r.Left > r.Requests {
		t.Errorf("%d answered and %d failed of %d requests, %d of them left", r.Latency.Count(), r.Errors, r.Requests, r.Left)
	}
	if r.Latency.Count() > 0 && !(r.Latency.Mean() > 0) {
		t.Errorf("the mean of %d latencies is %g s", r.Latency.Count(), r.Latency.Mean())
	}
	w.waits(t)
	var answers uint64
	for i, server := range r.Servers {
		of := s.Servers[i]
		if !(server.CPU >= 0 && server.CPU <= of.Cores*(1+1e-9)) {
			t.Errorf("server %d used %g of %g cores", i, server.CPU, of.Cores)
		}
		if n := server.Latency.Count(); n > 0 && !(server.Latency.Mean() > s.RoundTrip) {
			t.Errorf("the mean of %d latencies at server %d is %g s", n, i, server.Latency.Mean())
		}
		answers += server.Latency.Count()
	}
	if answers+r.Left < r.Requests-r.Errors || answers > uint64(w.answered) {
		t.Errorf("servers have %d answers for %d requests without an error, %d of them left; proxies saw %d", answers, r.Requests-r.Errors, r.Left, w.answered)
	}
	var steps uint64
	for i, step := range r.Series {
		steps += step.Requests
		if step.Latency.Count()+step.Errors != step.Requests || step.Errors > step.Requests {
			t.Errorf("step %d has %d answers and %d errors of %d requests", i, step.Latency.Count(), step.Errors, step.Requests)
		}
		if !(step.CPU >= -1e-9) || step.InFlight < 0 {
			t.Errorf("step %d has %g cores, %d in flight", i, step.CPU, step.InFlight)
		}
	}
	if s.WarmUp == 0 && steps > r.Requests {
		t.Errorf("the series has %d requests of %d", steps, r.Requests)
	}
}

// counting counts the arrivals of a span.
type counting struct {
	sim.Arrivals
	from, until float64
	n           *int
}

func (c counting) Next(after float64, n int, r *random.Source) (float64, bool) {
	if n == 0 {
		*c.n = 0 // another run
	}
	at, ok := c.Arrivals.Next(after, n, r)
	if ok && at >= c.from && at < c.until {
		*c.n++
	}
	return at, ok
}

// draw is a trial that nobody thought of, of some thousand requests, and where its arrivals
// are counted.
func draw(r *random.Source) (sim.Trial, *int) {
	between := func(low, high float64) float64 { return low + (high-low)*r.Unit() }
	oneIn := func(n int) bool { return r.Below(n) == 0 }
	s := &sim.Service{Proxies: 1 + r.Below(5), Measure: between(1, 60)}
	if oneIn(2) {
		s.WarmUp = between(0, 20)
	}
	whole := s.WarmUp + s.Measure
	cores, mean := 0.0, math.Pow(10, between(-4, 0))
	for i := range 1 + r.Below(8) {
		server := sim.Server{
			Address: fmt.Sprintf("127.0.1.%d:80", i+1), Cores: between(0.1, 8), Demand: drawDemand(r, mean*between(0.3, 3)),
			Discipline: sim.Discipline(r.Below(2)),
		}
		if oneIn(2) {
			server.Idle = server.Cores * between(0, 0.8)
		}
		if oneIn(3) {
			server.From = between(0, whole)
		}
		if oneIn(3) {
			server.Until = server.From + between(0.001, whole)
		}
		cores += server.Cores
		s.Servers = append(s.Servers, server)
	}
	rate := min(between(0.05, 1.4)*cores/mean, 4000/whole)
	arrived := new(int)
	s.Arrivals = counting{drawArrivals(r, rate, whole), s.WarmUp, whole, arrived}
	if oneIn(2) {
		s.RoundTrip = between(0, 2*mean)
	}
	if oneIn(2) {
		s.Timeout = mean * between(0.1, 20)
	}
	if oneIn(2) {
		s.Retries = r.Below(4)
	}
	for range r.Below(6) {
		s.Changes = append(s.Changes, drawChange(r, len(s.Servers), whole))
	}
	trial := sim.Trial{Service: s, NewPolicy: []sim.NewPolicy{newSplit, newInTurn}[r.Below(2)], Seed: r.Next(), Steps: 1 + r.Below(50)}
	if oneIn(2) {
		trial.Weigher = drawWeigher(r, whole)
	}
	return trial, arrived
}

func drawDemand(r *random.Source, mean float64) sim.Demand {
	switch r.Below(5) {
	case 0:
		return sim.Constant(mean)
	case 1:
		return sim.Exponential(mean)
	case 2:
		return measured(mean)
	case 3:
		return sim.Scaled{Demand: sim.Exponential(1), Factor: mean}
	default:
		return sim.NewLogNormal(mean, 2*r.Unit())
	}
}

func drawArrivals(r *random.Source, rate, whole float64) sim.Arrivals {
	switch r.Below(4) {
	case 0:
		return sim.Regular(rate)
	case 1:
		trace := sim.Trace{}
		for at := 0.0; at < whole && len(trace) < 4000; at -= math.Log(r.Unit()) / rate {
			for range 1 + r.Below(3) { // in groups
				trace = append(trace, at)
			}
		}
		return trace
	case 2:
		return sim.Poisson{{Rate: rate}, {From: whole / 3, Rate: 0}, {From: whole / 2, Rate: rate / 2}}
	default:
		return sim.Poisson{{Rate: rate}}
	}
}

func drawChange(r *random.Source, servers int, whole float64) sim.Change {
	c := sim.Change{Server: r.Below(servers)}
	if r.Below(4) > 0 {
		c.At = whole * r.Unit()
	}
	if r.Below(3) > 0 {
		c.Until = c.At + whole*r.Unit()/4
	}
	switch r.Below(3) {
	case 0:
		c.Demand = 4 * r.Unit()
	case 1:
		c.Stolen = 8 * r.Unit()
	default:
		c.Down = true
	}
	return c
}

func drawWeigher(r *random.Source, whole float64) *sim.Weigher {
	p := balance.DefaultPolicy(time.Duration((0.2 + r.Unit()*whole/8) * float64(time.Second)))
	p.Strategy = balance.Strategies[r.Below(len(balance.Strategies))]
	w := &sim.Weigher{
		Decide: balance.Decide, Policy: p,
		Evidence: []balance.Evidence{balance.FromCPU, balance.FromCPUOnly, balance.FromInFlight}[r.Below(3)],
		Delay:    r.Unit() * 3 * p.Interval.Seconds() * float64(r.Below(2)), Propagation: r.Unit() * float64(r.Below(2)),
		Noise: r.Unit() * float64(r.Below(2)), Missing: r.Unit() * float64(r.Below(2)),
	}
	if r.Below(3) == 0 {
		from := whole * r.Unit()
		w.Outages = []sim.Span{{From: from, Until: from + whole/4}}
	}
	return w
}
