package sim_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/sim"
)

// steady is a service that does the same in each second: the first server is asked 20 times,
// for 0.02 CPU-seconds each, and so is the second, where one costs 0.04.
func steady(measure float64) *sim.Service {
	return &sim.Service{
		Servers: []sim.Server{
			{Address: "127.0.1.1:80", Cores: 2, Idle: 0.1, Demand: sim.Constant(0.02)},
			{Address: "127.0.1.2:80", Cores: 4, Idle: 0.2, Demand: sim.Constant(0.04)},
		},
		Proxies: 1, Arrivals: sim.Regular(40), Measure: measure,
	}
}

// told are the inputs of a control loop's decisions, which change nothing but a weight: it is
// the number of the decision.
type told []balance.Input

func (d *told) decide(in balance.Input) balance.Decision {
	*d = append(*d, in)
	weights := model.Weights{}
	for _, e := range in.Endpoints {
		weights[e.Address] = uint32(len(*d))
	}
	return balance.Decision{Weights: weights}
}

// seconds is a time of a decision as the simulation has it.
func seconds(t time.Time) float64 { return t.Sub(time.Unix(0, 0)).Seconds() }

func TestTheLoopReadsWhatServersDid(t *testing.T) {
	t.Parallel()
	var in told
	w := &sim.Weigher{Decide: in.decide, Policy: balance.DefaultPolicy(2 * time.Second), Evidence: balance.FromCPU, Delay: 3, Propagation: 0.5}
	var n noted
	run(t, sim.Trial{Service: steady(30), NewPolicy: noting(&n, newInTurn), Weigher: w})
	if len(in) < 14 {
		t.Fatalf("%d decisions in 30 s, want one every 2 s", len(in))
	}
	for i, d := range in {
		now := 2 * float64(i+1)
		if !near(seconds(d.Now), now) {
			t.Fatalf("decision %d is taken at %g s, want %g", i, seconds(d.Now), now)
		}
		for k, e := range d.Endpoints {
			s, there := d.Snapshot[e.Address]
			if age := now - 3; age <= 0 {
				if there {
					t.Errorf("decision %d knows %v, which did not happen yet", i, s)
				}
				continue
			}
			if !near(seconds(s.CPU.At), now-3) || !near(seconds(s.Requests.At), now-3) {
				t.Errorf("decision %d reads what was true at %g and %g s, want %g", i, seconds(s.CPU.At), seconds(s.Requests.At), now-3)
			}
			if i < 2 {
				continue // not a whole interval yet
			}
			cpu := []float64{0.1 + 20*0.02, 0.2 + 20*0.04}[k]
			// A request more or less is within the interval.
			if math.Abs(s.Requests.Value-20) > 0.51 || math.Abs(s.CPU.Value-cpu) > 0.021 {
				t.Errorf("decision %d reads %+v of server %d, want 20 requests and %g cores", i, s, k, cpu)
			}
			if capacity := []float64{2, 4}[k]; e.Capacity != capacity {
				t.Errorf("server %d has a capacity of %g cores, want %g", k, e.Capacity, capacity)
			}
		}
	}
	// Proxies have equal weights, and then each decision's half a second later.
	for i, a := range n.assigned[1:] {
		if want := uint32(i + 1); !near(a.At, 2*float64(i+1)+0.5) || !slices.Equal(a.Weights, []uint32{want, want}) {
			t.Errorf("at %g s weights are %v, want %d at %g s", a.At, a.Weights, want, 2*float64(i+1)+0.5)
		}
	}
}

func TestEvidenceIsWhatIsRead(t *testing.T) {
	t.Parallel()
	cpu, requests, inFlight := model.Reading{Value: 0.5}, model.Reading{Value: 20}, model.Reading{Value: 0.4}
	for _, c := range []struct {
		name    string
		weigher sim.Weigher
		want    model.Sample
	}{
		{"all", sim.Weigher{Evidence: balance.FromCPU}, model.Sample{CPU: cpu, Requests: requests, InFlight: inFlight}},
		{"all but requests in flight", sim.Weigher{Evidence: balance.FromCPU, NoInFlight: true}, model.Sample{CPU: cpu, Requests: requests}},
		{"CPU only", sim.Weigher{Evidence: balance.FromCPUOnly}, model.Sample{CPU: cpu}},
		{"no CPU", sim.Weigher{Evidence: balance.FromInFlight}, model.Sample{Requests: requests, InFlight: inFlight}},
	} {
		var in told
		w := c.weigher
		w.Decide, w.Policy = in.decide, balance.DefaultPolicy(10*time.Second)
		run(t, sim.Trial{Service: steady(40), NewPolicy: newInTurn, Weigher: &w})
		got := in[2].Snapshot["127.0.1.1:80"]
		for _, r := range []struct {
			name      string
			got, want model.Reading
		}{{"CPU", got.CPU, c.want.CPU}, {"requests", got.Requests, c.want.Requests}, {"in flight", got.InFlight, c.want.InFlight}} {
			if r.got.Known() != (r.want.Value > 0) || math.Abs(r.got.Value-r.want.Value) > 0.01*r.want.Value {
				t.Errorf("%s: %s is %v, want %g", c.name, r.name, r.got, r.want.Value)
			}
		}
	}
}

// What is said to be wrong with metrics is: by as much, and no more.
func TestMetricsAreAsBadAsIsSaid(t *testing.T) {
	t.Parallel()
	var in told
	w := &sim.Weigher{
		Decide: in.decide, Policy: balance.DefaultPolicy(time.Second), Evidence: balance.FromCPU, Noise: 0.1, Missing: 0.2,
		Outages: []sim.Span{{From: 100.5, Until: 200.5}},
	}
	run(t, sim.Trial{Service: steady(2100), NewPolicy: newInTurn, Weigher: w})
	var samples, sum, squares float64
	asked := 0.0
	for _, d := range in {
		if now := seconds(d.Now); now > 100.5 && now < 200.5 {
			if len(d.Snapshot) > 0 {
				t.Fatalf("at %g s, in an outage, %d samples are read", now, len(d.Snapshot))
			}
			if d.Snapshot == nil {
				t.Fatalf("at %g s, in an outage, nothing was asked", now)
			}
			continue
		}
		for range d.Endpoints {
			asked++
		}
		for _, s := range d.Snapshot {
			v := s.Requests.Value / 20
			samples++
			sum += v
			squares += (v - 1) * (v - 1)
		}
	}
	// 4,000 samples: each bound is some four standard errors.
	missing, mean, noise := 1-samples/asked, sum/samples, math.Sqrt(squares/samples)
	if asked < 3990 || math.Abs(missing-0.2) > 0.026 || math.Abs(mean-1) > 0.008 || math.Abs(noise-0.1) > 0.006 {
		t.Errorf("of %g samples %g are missing, want 0.2; their mean is %g, want 1, and their deviation %g, want 0.1", asked, missing, mean, noise)
	}
}

// A loop follows who comes and goes at once, not with its next interval.
func TestTheLoopFollowsMembersAtOnce(t *testing.T) {
	t.Parallel()
	s := steady(60)
	s.Servers[1].From, s.Servers[1].Until = 25, 45
	w := &sim.Weigher{Decide: balance.Decide, Policy: balance.DefaultPolicy(10 * time.Second), Evidence: balance.FromCPU, Propagation: 0.1}
	var n noted
	r := run(t, sim.Trial{Service: s, NewPolicy: noting(&n, newInTurn), Weigher: w})
	var joined, left bool
	for _, a := range n.assigned {
		if near(a.At, 25) {
			joined = len(a.Endpoints) == 2 && a.Weights[1] < a.Weights[0]
		}
		if near(a.At, 45) {
			left = len(a.Endpoints) == 1
		}
	}
	if !joined || !left {
		t.Errorf("a second server, with less weight at first, is there at 25 s: %v; and gone at 45 s: %v; assigned were %v", joined, left, n.assigned)
	}
	if len(r.Decisions) < 5 || len(r.Decisions) > 6 {
		t.Errorf("%d decisions are told of 60 s, want one every 10 s", len(r.Decisions))
	}
	for _, d := range r.Decisions {
		if member := d.At >= 25 && d.At < 45; (d.Weights[1] > 0) != member {
			t.Errorf("at %g s weights are %v", d.At, d.Weights)
		}
	}
}
