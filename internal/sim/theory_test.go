package sim_test

import (
	"fmt"
	"math"
	"testing"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// These tests hold the engine to what queueing theory says exactly. Each figure is the mean
// of many runs, and how far the runs lie apart gives its standard error. The error must be a
// third of the bound at most, or the test fails for being too short: a wrong engine that is
// off by twice the bound has then hardly a chance to pass, whatever the seeds. Lengths are
// such that the error is some 0.2 % where 1 % is the bound.

// meanDemand is the mean cost of a request, in CPU-seconds.
const meanDemand = 0.01

// runs is how many make a figure.
const runs = 20

// system is a queue, or several of which a request takes any alike, with a known mean.
type system struct {
	name       string
	servers    int
	cores      float64
	discipline sim.Discipline
	demand     sim.Demand
	load       float64 // utilization
	requests   float64 // of all runs together
	mean       float64 // of the time in the system, in mean demands
	// brief is one that is tested under the race detector, too.
	brief bool
}

// erlangC is the part of requests that wait in M/M/c at a load of a = c × utilization, from
// Erlang B by its recursion.
func erlangC(c int, a float64) float64 {
	b := 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	rho := a / float64(c)
	return b / (1 - rho*(1-b))
}

// inMMc is the mean time in M/M/c, in mean demands. Its mean number of requests is also that
// of c cores that are shared, whatever the distribution of demands (Cohen 1979, generalized
// processor sharing): n of them are served at a rate of min(n, c) in both.
func inMMc(c int, rho float64) float64 {
	return 1 + erlangC(c, float64(c)*rho)/(float64(c)*(1-rho))
}

// inMG1 is the mean time in M/G/1 first come, first served, in mean demands (Pollaczek and
// Khinchine); scv is the variance of demands over their squared mean.
func inMG1(rho, scv float64) float64 { return 1 + rho*(1+scv)/(2*(1-rho)) }

// measured are demands as from a log, of two kinds, with this mean.
func measured(mean float64) sim.Empirical {
	values := make([]float64, 1000)
	chance := random.New(1)
	sum := 0.0
	for i := range values {
		values[i] = 1 + chance.Unit()
		if i%10 == 0 {
			values[i] *= 8
		}
		sum += values[i]
	}
	for i := range values {
		values[i] *= mean * float64(len(values)) / sum
	}
	return sim.NewEmpirical(values)
}

func systems() []system {
	const ps, fcfs = sim.ProcessorSharing, sim.FirstComeFirstServed
	exponential, constant := sim.Exponential(meanDemand), sim.Constant(meanDemand)
	lognormal := sim.NewLogNormal(meanDemand, 1)
	return []system{
		{name: "M/M/1", cores: 1, discipline: fcfs, demand: exponential, load: 0.6, requests: 4e6, mean: inMMc(1, 0.6)},
		{name: "M/M/2", cores: 2, discipline: fcfs, demand: exponential, load: 0.6, requests: 4e6, mean: inMMc(2, 0.6)},
		{name: "M/M/4", cores: 4, discipline: fcfs, demand: exponential, load: 0.7, requests: 4e6, mean: inMMc(4, 0.7)},
		{name: "M/M/10", cores: 10, discipline: fcfs, demand: exponential, load: 0.8, requests: 5e6, mean: inMMc(10, 0.8)},
		{name: "M/M/1-PS", cores: 1, discipline: ps, demand: exponential, load: 0.6, requests: 4e6, mean: inMMc(1, 0.6)},
		{name: "M/M/2-PS", cores: 2, discipline: ps, demand: exponential, load: 0.6, requests: 4e6, mean: inMMc(2, 0.6)},
		{name: "M/M/4-PS", cores: 4, discipline: ps, demand: exponential, load: 0.7, requests: 4e6, mean: inMMc(4, 0.7)},
		{name: "M/M/10-PS", cores: 10, discipline: ps, demand: exponential, load: 0.8, requests: 5e6, mean: inMMc(10, 0.8)},

		{name: "M/D/1-PS", cores: 1, discipline: ps, demand: constant, load: 0.5, requests: 2e6, mean: inMMc(1, 0.5)},
		{name: "M/LN/1-PS", cores: 1, discipline: ps, demand: lognormal, load: 0.5, requests: 4e6, mean: inMMc(1, 0.5)},
		{name: "M/G/1-PS", cores: 1, discipline: ps, demand: measured(meanDemand), load: 0.5, requests: 4e6, mean: inMMc(1, 0.5)},
		{name: "M/D/4-PS", cores: 4, discipline: ps, demand: constant, load: 0.7, requests: 2e6, mean: inMMc(4, 0.7)},
		{name: "3 × M/LN/2-PS", servers: 3, cores: 2, discipline: ps, demand: lognormal, load: 0.5, requests: 4e6, mean: inMMc(2, 0.5)},

		{name: "M/D/1", cores: 1, discipline: fcfs, demand: constant, load: 0.5, requests: 4e5, mean: inMG1(0.5, 0), brief: true},
		{name: "M/LN/1", cores: 1, discipline: fcfs, demand: lognormal, load: 0.4, requests: 4e6, mean: inMG1(0.4, math.E-1)},
		{name: "M/M/∞", cores: 1000, discipline: ps, demand: exponential, load: 0.1, requests: 5e5, mean: 1, brief: true},
	}
}

// service is the system as it is simulated, in one of its runs.
func (s system) service() *sim.Service {
	servers := max(1, s.servers)
	rate := s.load * s.cores * float64(servers) / s.demand.Mean()
	of := &sim.Service{
		Proxies: 1, Arrivals: sim.Poisson{{Rate: rate}}, Measure: s.requests / runs / rate,
	}
	// Some 500 requests in a server's time outlast what it began with many times over.
	of.WarmUp = max(of.Measure/20, 500*s.demand.Mean()/(1-s.load))
	for i := range servers {
		of.Servers = append(of.Servers, sim.Server{
			Address: fmt.Sprintf("127.0.1.%d:80", i+1), Cores: s.cores, Demand: s.demand, Discipline: s.discipline,
		})
	}
	return of
}

// watching splits requests over all servers and watches how many each meets there. Those that
// come by chance see what is there at any time (Wolff 1982), so that the mean is over time.
type watching struct {
	split
	world     sim.World
	from      float64
	met, seen float64
}

func (w *watching) Pick(proxy int) int {
	server := w.split.Pick(proxy)
	if w.world.Now() >= w.from {
		w.met += float64(w.world.InFlight(server))
		w.seen++
	}
	return server
}

// figures are what several runs say of one thing.
type figures []float64

// is tells whether a figure is as theory says, within a part of it, and whether that can be
// told at all.
func (f figures) is(t *testing.T, what string, want, within float64) {
	t.Helper()
	mean, squares := 0.0, 0.0
	for _, v := range f {
		mean += v / float64(len(f))
	}
	for _, v := range f {
		squares += (v - mean) * (v - mean)
	}
	n := float64(len(f))
	off, sure := mean/want-1, math.Sqrt(squares/(n-1)/n)/want
	t.Logf("%s is %.5g, %+.2f %% off %.5g; its standard error is %.2f %%", what, mean, 100*off, want, 100*sure)
	if sure > within/3 {
		t.Errorf("%s: the standard error is %.2g %%: run longer to tell %g %%", what, 100*sure, 100*within)
	}
	if !(math.Abs(off) <= within) {
		t.Errorf("%s is %.5g, want %.5g within %g %%: it is %.2f %% off", what, mean, want, 100*within, 100*off)
	}
}

func long(t *testing.T, brief bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("simulates millions of requests")
	}
	if raced && !brief {
		t.Skip("simulates too many requests for the race detector")
	}
}

func TestMeansAreThoseOfTheory(t *testing.T) {
	t.Parallel()
	for i, s := range systems() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			long(t, s.brief)
			var latency, utilization, number figures
			of := s.service()
			for k := range runs {
				var seen *watching
				// Systems must not see the same requests, or one piece of luck is everywhere.
				seed := uint64(i*runs + k)
				r := run(t, sim.Trial{Service: of, Seed: seed, NewPolicy: func(set sim.Setting) sim.Policy {
					seen = &watching{split: split{chance: set.Random}, world: set.World, from: of.WarmUp}
					return seen
				}})
				if r.Errors > 0 || r.Left > 0 {
					t.Fatalf("seed %d: %d of %d requests failed, %d have no end", seed, r.Errors, r.Requests, r.Left)
				}
				servers := float64(len(of.Servers))
				latency = append(latency, r.Latency.Mean()/s.demand.Mean())
				utilization = append(utilization, r.CPU()/s.cores/servers)
				// Little: the mean number is the rate times the mean time.
				rate := float64(r.Requests) / r.Seconds / servers
				number = append(number, seen.met/seen.seen/(rate*r.Latency.Mean()))
			}
			latency.is(t, "the mean time in mean demands", s.mean, 0.01)
			utilization.is(t, "utilization", s.load, 0.01)
			number.is(t, "the mean number over rate × time", 1, 0.01)
		})
	}
}

// The time in M/M/1, first come, first served, is exponential with a mean of 1/(μ-λ). So it is
// where requests are split at random over several of them, and at each.
func TestPercentilesAreThoseOfTheory(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			t.Parallel()
			long(t, false)
			s := system{servers: servers, cores: 1, discipline: sim.FirstComeFirstServed, demand: sim.Exponential(meanDemand), load: 0.5, requests: 8e6}
			mean := meanDemand / (1 - s.load)
			parts := []float64{0.5, 0.9, 0.99, 0.999}
			all := make([]figures, len(parts))
			each := make([]figures, servers)
			for k := range runs {
				r := run(t, sim.Trial{Service: s.service(), Seed: uint64(1000*servers + k), NewPolicy: newSplit})
				for i, q := range parts {
					all[i] = append(all[i], r.Latency.Quantile(q))
				}
				for i := range each {
					each[i] = append(each[i], r.Servers[i].Latency.Mean())
				}
			}
			for i, q := range parts {
				all[i].is(t, fmt.Sprintf("p%g", 100*q), -math.Log(1-q)*mean, 0.02)
			}
			for i := range each {
				each[i].is(t, fmt.Sprintf("the mean at server %d", i), mean, 0.01)
			}
		})
	}
}
