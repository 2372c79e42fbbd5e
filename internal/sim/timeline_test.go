package sim_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"taper.dev/taper/internal/sim"
)

// near compares times that were added up in different orders.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// answer is when a proxy has the end of an attempt, and how long that took it.
type answer struct {
	at, latency float64
	failed      bool
}

// What happens to a few requests at one server, calculated by hand. Each costs one second.
func TestTimelines(t *testing.T) {
	t.Parallel()
	const fcfs = sim.FirstComeFirstServed
	for _, c := range []struct {
		name     string
		server   sim.Server
		arrivals []float64
		changes  []sim.Change
		trip     float64
		timeout  float64
		retries  int
		want     []answer
		cpu      float64 // of requests, in core-seconds
	}{
		{
			name: "alone", server: sim.Server{Cores: 1}, arrivals: []float64{1},
			want: []answer{{at: 2, latency: 1}}, cpu: 1,
		},
		{
			name: "one core at a time", server: sim.Server{Cores: 4}, arrivals: []float64{1},
			want: []answer{{at: 2, latency: 1}}, cpu: 1,
		},
		{
			name: "at time 0", server: sim.Server{Cores: 1}, arrivals: []float64{0},
			want: []answer{{at: 1, latency: 1}}, cpu: 1,
		},
		{
			name: "a part of a core", server: sim.Server{Cores: 0.25}, arrivals: []float64{1},
			want: []answer{{at: 5, latency: 4}}, cpu: 1,
		},
		{
			name: "two share a core", server: sim.Server{Cores: 1}, arrivals: []float64{1, 1},
			want: []answer{{at: 3, latency: 2}, {at: 3, latency: 2}}, cpu: 2,
		},
		{
			name: "three share two cores", server: sim.Server{Cores: 2}, arrivals: []float64{1, 1, 1},
			want: []answer{{at: 2.5, latency: 1.5}, {at: 2.5, latency: 1.5}, {at: 2.5, latency: 1.5}}, cpu: 3,
		},
		{
			name: "one that comes later", server: sim.Server{Cores: 1}, arrivals: []float64{1, 1.5},
			want: []answer{{at: 2.5, latency: 1.5}, {at: 3, latency: 1.5}}, cpu: 2,
		},
		{
			name: "one after the other", server: sim.Server{Cores: 1, Discipline: fcfs}, arrivals: []float64{1, 1.5, 5},
			want: []answer{{at: 2, latency: 1}, {at: 3, latency: 1.5}, {at: 6, latency: 1}}, cpu: 3,
		},
		{
			name: "two before the third", server: sim.Server{Cores: 2, Discipline: fcfs}, arrivals: []float64{1, 1, 1.5},
			want: []answer{{at: 2, latency: 1}, {at: 2, latency: 1}, {at: 3, latency: 1.5}}, cpu: 3,
		},
		{
			name: "two on a core and a half", server: sim.Server{Cores: 1.5, Discipline: fcfs}, arrivals: []float64{1, 1},
			want: []answer{{at: 1 + 1/.75, latency: 1 / .75}, {at: 1 + 1/.75, latency: 1 / .75}}, cpu: 2,
		},
		{
			name: "beside idling", server: sim.Server{Cores: 1, Idle: 0.5}, arrivals: []float64{1},
			want: []answer{{at: 3, latency: 2}}, cpu: 1,
		},
		{
			name: "half of the core is stolen", server: sim.Server{Cores: 1}, arrivals: []float64{1},
			changes: []sim.Change{{At: 1.5, Stolen: 0.5}},
			want:    []answer{{at: 2.5, latency: 1.5}}, cpu: 1,
		},
		{
			name: "and given back", server: sim.Server{Cores: 1}, arrivals: []float64{1},
			changes: []sim.Change{{At: 1.5, Until: 2, Stolen: 0.5}},
			want:    []answer{{at: 2.25, latency: 1.25}}, cpu: 1,
		},
		{
			name: "stolen of one that has a core to spare", server: sim.Server{Cores: 2}, arrivals: []float64{1},
			changes: []sim.Change{{At: 0, Stolen: 1}},
			want:    []answer{{at: 2, latency: 1}}, cpu: 1,
		},
		{
			name: "stolen where one runs at a time", server: sim.Server{Cores: 2, Discipline: fcfs}, arrivals: []float64{1, 1},
			changes: []sim.Change{{At: 0, Until: 1.5, Stolen: 1}},
			want:    []answer{{at: 2, latency: 1}, {at: 2.5, latency: 1.5}}, cpu: 2,
		},
		{
			name: "costlier meanwhile", server: sim.Server{Cores: 1}, arrivals: []float64{1.5, 2.6, 9},
			changes: []sim.Change{{At: 2, Until: 3, Demand: 3}},
			want:    []answer{{at: 2.5, latency: 1}, {at: 5.6, latency: 3}, {at: 10, latency: 1}}, cpu: 5,
		},
		{
			name: "down", server: sim.Server{Cores: 1}, arrivals: []float64{1, 1.25, 1.75, 3},
			changes: []sim.Change{{At: 1.5, Until: 2, Down: true}},
			want: []answer{
				{at: 1.5, latency: 0.5, failed: true}, {at: 1.5, latency: 0.25, failed: true},
				{at: 1.75, failed: true}, {at: 4, latency: 1},
			}, cpu: 1.5,
		},
		{
			name: "down with a queue", server: sim.Server{Cores: 1, Discipline: fcfs}, arrivals: []float64{1, 1.25, 3},
			changes: []sim.Change{{At: 1.5, Until: 2, Down: true}},
			want:    []answer{{at: 1.5, latency: 0.5, failed: true}, {at: 1.5, latency: 0.25, failed: true}, {at: 4, latency: 1}}, cpu: 1.5,
		},
		{
			name: "down from the beginning", server: sim.Server{Cores: 1}, arrivals: []float64{1, 3},
			changes: []sim.Change{{Until: 2, Down: true}},
			want:    []answer{{at: 1, failed: true}, {at: 4, latency: 1}}, cpu: 1,
		},
		{
			name: "repeated where it was lost", server: sim.Server{Cores: 1}, arrivals: []float64{1, 3},
			changes: []sim.Change{{At: 1.5, Until: 2, Down: true}}, retries: 2,
			want: []answer{
				{at: 1.5, latency: 0.5, failed: true}, {at: 1.5, failed: true}, {at: 1.5, failed: true}, {at: 4, latency: 1},
			}, cpu: 1.5,
		},
		{
			name: "a way there and back", server: sim.Server{Cores: 1}, arrivals: []float64{1}, trip: 0.25,
			want: []answer{{at: 2.25, latency: 1.25}}, cpu: 1,
		},
		{
			name: "in time", server: sim.Server{Cores: 1}, arrivals: []float64{1}, timeout: 1.1,
			want: []answer{{at: 2, latency: 1}}, cpu: 1,
		},
		{
			name: "given up, and served for nothing", server: sim.Server{Cores: 1}, arrivals: []float64{1, 1.5}, timeout: 1.2,
			want: []answer{{at: 2.2, latency: 1.2, failed: true}, {at: 2.7, latency: 1.2, failed: true}}, cpu: 2,
		},
		{
			name: "given up on the way back", server: sim.Server{Cores: 1}, arrivals: []float64{1}, trip: 0.5, timeout: 1.25,
			want: []answer{{at: 2.25, latency: 1.25, failed: true}}, cpu: 1,
		},
		{
			// The first attempt has had 0.7 when the second comes, which shares with it
			// until 2.3 and goes on alone.
			name: "given up and repeated", server: sim.Server{Cores: 1}, arrivals: []float64{1}, timeout: 0.7, retries: 1,
			want: []answer{{at: 1.7, latency: 0.7, failed: true}, {at: 2.4, latency: 0.7, failed: true}}, cpu: 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.server.Address, c.server.Demand = "127.0.1.1:80", sim.Constant(1)
			s := sim.Service{
				Servers: []sim.Server{c.server}, Proxies: 1, Arrivals: sim.Trace(c.arrivals), RoundTrip: c.trip,
				Timeout: c.timeout, Retries: c.retries, Changes: c.changes, Measure: 20,
			}
			var n noted
			r := run(t, sim.Trial{Service: &s, NewPolicy: noting(&n, toFirst)})
			same := slices.EqualFunc(n.ends, c.want, func(e end, w answer) bool {
				return near(e.At, w.at) && near(e.Answer.Latency, w.latency) && e.Answer.Failed == w.failed
			})
			if !same {
				t.Errorf("ends are\n%v, want\n%v", n.ends, c.want)
			}
			if cpu := r.CPU() - c.server.Idle; !near(cpu*20, c.cpu) {
				t.Errorf("CPU is %g core-seconds, want %g", cpu*20, c.cpu)
			}
			if r.Requests != uint64(len(c.arrivals)) || r.Left != 0 {
				t.Errorf("%d requests ended and %d did not, want %d", r.Requests, r.Left, len(c.arrivals))
			}
		})
	}
}

// A request that is repeated counts once, with all the time that it took.
func TestARepeatedRequestCountsOnce(t *testing.T) {
	t.Parallel()
	s := sim.Service{
		Servers: []sim.Server{
			{Address: "127.0.1.1:80", Cores: 1, Demand: sim.Constant(1)},
			{Address: "127.0.1.2:80", Cores: 1, Demand: sim.Constant(0.25)},
		},
		Proxies: 1, Arrivals: sim.Trace{1}, Timeout: 0.5, Retries: 1, Measure: 20,
	}
	r := run(t, sim.Trial{Service: &s, NewPolicy: newInTurn})
	if r.Requests != 1 || r.Errors != 0 || r.Latency.Count() != 1 || !near(r.Latency.Mean(), 0.75) {
		t.Errorf("%d requests, %d errors, %g s: want one of 0.75 s", r.Requests, r.Errors, r.Latency.Mean())
	}
	// The first server was never asked whether its answer is still wanted.
	for i, want := range []float64{1, 0.25} {
		if cpu := r.Servers[i].CPU * 20; !near(cpu, want) {
			t.Errorf("server %d used %g core-seconds, want %g", i, cpu, want)
		}
	}
	if n := r.Servers[1].Latency.Count(); n != 1 || !near(r.Servers[1].Latency.Mean(), 0.25) {
		t.Errorf("the second server answered %d in %g s, want one in 0.25 s", n, r.Servers[1].Latency.Mean())
	}
	if n := r.Servers[0].Latency.Count(); n != 0 {
		t.Errorf("%d answers of the first server arrived, want none: the proxy had given up", n)
	}
}

// What a server refuses or loses is repeated at another, at once.
func TestWhatIsLostIsRepeatedElsewhere(t *testing.T) {
	t.Parallel()
	s := sim.Service{
		Servers: []sim.Server{
			{Address: "127.0.1.1:80", Cores: 1, Demand: sim.Constant(1)},
			{Address: "127.0.1.2:80", Cores: 1, Demand: sim.Constant(1)},
		},
		Proxies: 1, Arrivals: sim.Trace{1, 5}, Retries: 1, Measure: 20,
		Changes: []sim.Change{{Server: 0, At: 1.5, Down: true}},
	}
	var n noted
	r := run(t, sim.Trial{Service: &s, NewPolicy: noting(&n, newInTurn)})
	want := []end{
		{1.5, 0, 0, sim.Answer{Latency: 0.5, Failed: true}}, {2.5, 0, 1, sim.Answer{Latency: 1}},
		{5, 0, 0, sim.Answer{Failed: true}}, {6, 0, 1, sim.Answer{Latency: 1}},
	}
	if !slices.Equal(n.ends, want) {
		t.Errorf("ends are\n%v, want\n%v", n.ends, want)
	}
	if r.Requests != 2 || r.Errors != 0 || !near(r.Latency.Mean(), (1.5+1)/2) {
		t.Errorf("%d requests, %d errors, %g s on average: want 2 without an error, and 1.25 s", r.Requests, r.Errors, r.Latency.Mean())
	}
}

// Who is there is told at once, and nobody else is asked. One that leaves answers what it has.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	demand := sim.Constant(0.001)
	s := sim.Service{
		Servers: []sim.Server{
			{Address: "127.0.1.1:80", Cores: 1, Idle: 0.1, Demand: demand},
			{Address: "127.0.1.2:80", Cores: 1, Idle: 0.1, Demand: demand, From: 10},
			{Address: "127.0.1.3:80", Cores: 1, Idle: 0.1, Demand: demand, From: 10, Until: 20},
			{Address: "127.0.1.4:80", Cores: 1, Idle: 0.1, Demand: sim.Constant(4), Until: 15},
		},
		Proxies: 4, Arrivals: sim.Regular(100), Measure: 40,
	}
	// The last one is slow on purpose: it has work when it leaves.
	var n noted
	r := run(t, sim.Trial{Service: &s, NewPolicy: noting(&n, newSplit)})
	members := []assignment{
		{0, []int{0, 3}, []uint32{1, 1}}, {10, []int{0, 1, 2, 3}, []uint32{1, 1, 1, 1}},
		{15, []int{0, 1, 2}, []uint32{1, 1, 1}}, {20, []int{0, 1}, []uint32{1, 1}},
	}
	same := slices.EqualFunc(n.assigned, members, func(a, b assignment) bool {
		return near(a.At, b.At) && slices.Equal(a.Endpoints, b.Endpoints) && slices.Equal(a.Weights, b.Weights)
	})
	if !same {
		t.Errorf("assigned were\n%v, want\n%v", n.assigned, members)
	}
	if r.Errors != 0 || r.Requests != uint64(r.Latency.Count()) {
		t.Errorf("%d of %d requests failed: leaving loses nothing", r.Errors, r.Requests)
	}
	for i, want := range []float64{40, 30, 10, 15} {
		// Each idles while it is a member.
		if least := 0.1 * want / 40; r.Servers[i].CPU < least-1e-9 {
			t.Errorf("server %d used %g cores, want at least %g", i, r.Servers[i].CPU, least)
		}
	}
	for i, want := range []uint32{1, 1, 0, 0} {
		if w := r.Servers[i].Weight; w != want {
			t.Errorf("server %d has weight %d at the end, want %d", i, w, want)
		}
	}
}

// Where nobody is a member, requests fail and nothing else happens.
func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	s := sim.Service{
		Servers: []sim.Server{{Address: "127.0.1.1:80", Cores: 1, Demand: sim.Constant(0.01), From: 10, Until: 20}},
		Proxies: 1, Arrivals: sim.Regular(10), Measure: 30, Retries: 2,
	}
	var n noted
	r := run(t, sim.Trial{Service: &s, NewPolicy: noting(&n, newSplit)})
	for _, p := range n.picks {
		if p.At < 10 || p.At >= 20 {
			t.Fatalf("a pick at %g s, when nobody is there", p.At)
		}
	}
	if answered := r.Requests - r.Errors; r.Requests < 299 || answered < 99 || answered > 101 {
		t.Errorf("%d of %d requests were answered, want 100 of 300", answered, r.Requests)
	}
	if w := r.Servers[0].Weight; w != 0 {
		t.Errorf("weight is %d at the end, want 0", w)
	}
}

// What a server says of itself is what it did.
func TestServersReport(t *testing.T) {
	t.Parallel()
	s := sim.Service{
		Servers: []sim.Server{{Address: "127.0.1.1:80", Cores: 2, Idle: 0.2, Demand: sim.Constant(0.02)}},
		Proxies: 1, Arrivals: sim.Regular(20), Measure: 10,
	}
	var asked []string
	new := func(set sim.Setting) sim.Policy {
		w := set.World
		w.Later(0.001, func() {
			if d := w.Expected(0); !near(d, 0.02) {
				t.Errorf("a request at an idle server is expected to take %g s, want 0.02", d)
			}
		})
		for _, at := range []float64{1.01, 5.01} {
			w.Later(at, func() {
				asked = append(asked, fmt.Sprintf("%.2f: %.2f %.0f %d", w.Now(), w.Utilization(0), w.Served(0), w.InFlight(0)))
			})
		}
		return only(0)
	}
	run(t, sim.Trial{Service: &s, NewPolicy: new})
	// 20 requests of 0.02 CPU-seconds and 0.2 for idling, of 2; one began at 1 s and 5 s.
	if want := []string{"1.01: 0.29 19 1", "5.01: 0.30 20 1"}; !slices.Equal(asked, want) {
		t.Errorf("reports are %q, want %q", asked, want)
	}
}
