package sim_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/sim"
)

// mixed is a service in which everything happens that can.
func mixed() *sim.Service {
	s := &sim.Service{
		Proxies: 3, Arrivals: sim.Poisson{{Rate: 100}, {From: 20, Rate: 150}}, RoundTrip: 0.0005,
		Timeout: 0.2, Retries: 1, WarmUp: 10, Measure: 50,
		Changes: []sim.Change{{Server: 0, At: 12, Until: 14, Down: true}, {Server: 1, At: 30, Demand: 2, Stolen: 0.5}},
	}
	for _, address := range []string{"127.0.1.1:80", "127.0.1.2:80", "127.0.1.3:80", "127.0.1.4:80"} {
		s.Servers = append(s.Servers, sim.Server{Address: address, Cores: 1, Idle: 0.02, Demand: sim.NewLogNormal(0.015, 0.8)})
	}
	s.Servers[2].Until, s.Servers[3].From = 40, 25
	s.Servers[3].Discipline = sim.FirstComeFirstServed
	return s
}

// looped is a control loop whose metrics are as bad as they get.
func looped() *sim.Weigher {
	return &sim.Weigher{
		Decide: balance.Decide, Policy: balance.DefaultPolicy(2 * time.Second), Evidence: balance.FromCPU,
		Delay: 1, Propagation: 0.1, Noise: 0.1, Missing: 0.05, Outages: []sim.Span{{From: 30, Until: 36}},
	}
}

func TestSameSeedSameResult(t *testing.T) {
	t.Parallel()
	trial := sim.Trial{Service: mixed(), NewPolicy: newSplit, Weigher: looped(), Seed: 7, Steps: 60}
	first := run(t, trial)
	if again := run(t, trial); !reflect.DeepEqual(first, again) {
		t.Errorf("two runs differ: %d requests of mean %g s, then %d of %g s", first.Requests, first.Latency.Mean(), again.Requests, again.Latency.Mean())
	}
	trial.Seed = 8
	if other := run(t, trial); other.Latency.Mean() == first.Latency.Mean() {
		t.Error("another seed gives the same")
	}
	if len(first.Decisions) < 25 {
		t.Errorf("%d decisions in 60 s, want one every 2 s", len(first.Decisions))
	}
}

// What is asked of a service does not depend on how it is balanced.
func TestArmsSeeTheSameRequests(t *testing.T) {
	t.Parallel()
	s := mixed()
	// Nothing that asks for an attempt more: then each pick is an arrival.
	s.Timeout, s.Retries = 0, 0
	for i := range s.Servers {
		s.Servers[i].From, s.Servers[i].Until = 0, 0
	}
	s.Changes = nil
	var one, other noted
	a := run(t, sim.Trial{Service: s, NewPolicy: noting(&one, newSplit), Seed: 3})
	b := run(t, sim.Trial{Service: s, NewPolicy: noting(&other, newInTurn), Weigher: looped(), Seed: 3})
	arrivals := min(len(one.picks), len(other.picks))
	if arrivals < 60*100 {
		t.Fatalf("%d arrivals", arrivals)
	}
	for i := range arrivals {
		if one.picks[i].At != other.picks[i].At || one.picks[i].Proxy != other.picks[i].Proxy {
			t.Fatalf("arrival %d is %v in one arm and %v in the other", i, one.picks[i], other.picks[i])
		}
	}
	if a.Requests != b.Requests || a.Errors != 0 || b.Errors != 0 {
		t.Errorf("%d requests and %d errors in one arm, %d and %d in the other", a.Requests, a.Errors, b.Requests, b.Errors)
	}
	// Servers are alike, so that requests cost the same at any: but for what is under way when
	// the measurement begins and ends.
	if off := math.Abs(a.CPU()-b.CPU()) * s.Measure; off > 1 {
		t.Errorf("CPU differs by %g core-seconds of %g", off, a.CPU()*s.Measure)
	}
}

// The series is the whole run, and its steps add up.
func TestTheSeriesAddsUp(t *testing.T) {
	t.Parallel()
	for _, steps := range []int{1, 3, 7, 49, 60} {
		s := mixed()
		// Nothing is under way at the end.
		arrivals := sim.Trace{}
		for at := 0.05; at < 50; at += 0.05 {
			arrivals = append(arrivals, at)
		}
		s.Arrivals, s.WarmUp, s.Measure = arrivals, 0, 60
		r := run(t, sim.Trial{Service: s, NewPolicy: newSplit, Seed: 5, Steps: steps})
		var requests, failed, answered uint64
		var cpu, latency float64
		for i, step := range r.Series {
			if want := 60 * float64(i) / float64(steps); !near(step.At, want) {
				t.Errorf("step %d of %d begins at %g s, want %g", i, steps, step.At, want)
			}
			requests += step.Requests
			failed += step.Errors
			answered += step.Latency.Count()
			cpu += step.CPU / float64(steps)
			latency += step.Latency.Mean() * float64(step.Latency.Count())
		}
		if len(r.Series) != steps || requests != uint64(len(arrivals)) || requests != r.Requests || failed != r.Errors || answered != r.Latency.Count() {
			t.Errorf("%d steps have %d requests, %d errors, %d answers; the run %d, %d, %d",
				steps, requests, failed, answered, r.Requests, r.Errors, r.Latency.Count())
		}
		if math.Abs(cpu/r.CPU()-1) > 1e-9 || math.Abs(latency/float64(answered)/r.Latency.Mean()-1) > 1e-9 {
			t.Errorf("%d steps have %g cores, %g s; the run %g, %g", steps, cpu, latency/float64(answered), r.CPU(), r.Latency.Mean())
		}
		if last := r.Series[steps-1].InFlight; last != 0 {
			t.Errorf("%d requests are under way at the end, want none", last)
		}
	}
}

// A server that is asked for more than it has is named, one that is only busy is not.
func TestQueuesThatGrowAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rates sim.Poisson
		stop  float64 // of members
		want  []int
	}{
		{name: "light load", rates: sim.Poisson{{Rate: 100}}},
		{name: "heavy load", rates: sim.Poisson{{Rate: 180}}},
		{name: "too much", rates: sim.Poisson{{Rate: 260}}, want: []int{0, 1}},
		{name: "too much for a while", rates: sim.Poisson{{Rate: 100}, {From: 30, Rate: 260}, {From: 50, Rate: 50}}},
		{name: "too much when one has left", rates: sim.Poisson{{Rate: 120}}, stop: 5, want: []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, d := range []sim.Discipline{sim.ProcessorSharing, sim.FirstComeFirstServed} {
				s := &sim.Service{
					Servers: []sim.Server{
						{Address: "127.0.1.1:80", Cores: 1, Demand: sim.Exponential(0.01), Discipline: d},
						{Address: "127.0.1.2:80", Cores: 1, Demand: sim.Exponential(0.01), Discipline: d, Until: c.stop},
					},
					Proxies: 1, Arrivals: c.rates, WarmUp: 10, Measure: 100,
				}
				for seed := range uint64(5) {
					r := run(t, sim.Trial{Service: s, NewPolicy: newSplit, Seed: seed})
					if !slices.Equal(r.Saturated, c.want) {
						t.Errorf("discipline %d, seed %d: %v are saturated, want %v", d, seed, r.Saturated, c.want)
					}
					if r.Latency.Count() != r.Requests {
						t.Errorf("discipline %d, seed %d: %d of %d requests have a latency", d, seed, r.Latency.Count(), r.Requests)
					}
				}
			}
		})
	}
}

func TestFixedWeightsReachThePolicy(t *testing.T) {
	t.Parallel()
	s := mixed()
	var n noted
	r := run(t, sim.Trial{Service: s, NewPolicy: noting(&n, newSplit), Weigher: &sim.Weigher{Fixed: []uint32{1, 20, 300, 4000}}})
	for _, a := range n.assigned {
		want := []uint32{}
		for _, i := range a.Endpoints {
			want = append(want, []uint32{1, 20, 300, 4000}[i])
		}
		if !slices.Equal(a.Weights, want) {
			t.Errorf("at %g s weights are %v, want %v", a.At, a.Weights, want)
		}
	}
	for i, want := range []uint32{1, 20, 0, 4000} { // the third has left
		if w := r.Servers[i].Weight; w != want {
			t.Errorf("server %d has weight %d at the end, want %d", i, w, want)
		}
	}
	if len(r.Decisions) != 0 {
		t.Errorf("%d decisions were taken, want none", len(r.Decisions))
	}
}

// A run ends soon after its context.
func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := mixed()
	s.WarmUp, s.Measure = 0, 1e9
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	parts := []float64{}
	trial := sim.Trial{Service: s, NewPolicy: newSplit, Steps: 10, Progress: func(part float64) {
		if parts = append(parts, part); len(parts) == 3 {
			cancel()
		}
	}}
	if r, err := sim.Run(ctx, trial); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the run returns %v, %v", r, err)
	}
	if len(parts) != 3 || !slices.IsSorted(parts) || parts[0] < 0 || parts[2] > 1 {
		t.Errorf("progress is %v, want three rising parts", parts)
	}
}
