package scenario_test

import (
	"fmt"
	"math"
	"testing"

	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
	"taper.dev/taper/internal/sim/scenario"
)

// reference is a simulation of the article's service by another program, one run of 120 s
// each; milliseconds, cores, and the range of requests per second and pod. 0 is not known.
var reference = []struct {
	name, policy  string
	weights       func(*sim.Service) []uint32
	proxies       int
	p50, p99, cpu float64
	least, most   float64
}{
	{name: "random", policy: "random", proxies: 32, p50: 4.7, p99: 265, cpu: 10.05, least: 99, most: 101},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 32, p50: 4.6, p99: 78.6, cpu: 9.85, least: 91, most: 102},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 1, p50: 4.0, p99: 36.3, cpu: 9.20, least: 60, most: 123},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 4, p99: 43.5},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 8, p99: 52.1},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 16, p99: 61.3},
	{name: "LEAST_REQUEST", policy: "least-request", proxies: 64, p99: 98.6},
	{name: "equal-load", policy: "least-request", weights: equalLoad, proxies: 32, p50: 3.6, p99: 32.2, cpu: 7.86, least: 28, most: 192},
	{name: "least-latency", policy: "least-request", weights: oneCoreLeastLatency, proxies: 32, p50: 2.8, p99: 23.1, cpu: 5.73, least: 5, most: 325},
	{name: "all-knowing", policy: "all-knowing", proxies: 32, p50: 2.2, p99: 14.4, cpu: 4.16},
	{name: "all-knowing, first of equals", proxies: 32, p50: 2.2, p99: 14.4, cpu: 4.16, most: 598},
}

// firstOfEquals is all-knowing, but that it takes the first of several that are as good, as
// the reference does, and not any of them.
type firstOfEquals struct{ sim.Setting }

func (firstOfEquals) Assign([]int, []uint32)    {}
func (firstOfEquals) Done(int, int, sim.Answer) {}
func (p firstOfEquals) Pick(int) int {
	best := 0
	for i := range p.Servers {
		if p.World.Expected(i) < p.World.Expected(best) {
			best = i
		}
	}
	return best
}

func equalLoad(s *sim.Service) []uint32 {
	weights := make([]uint32, len(s.Servers))
	for i, server := range s.Servers {
		weights[i] = uint32(math.Round(1e4 * s.Servers[0].Demand.Mean() / server.Demand.Mean()))
	}
	return weights
}

// oneCoreLeastLatency are the shares of the reference: ρ = 1 - √(D/C/θ), from 0.05 of the equal
// share up to ρ = 0.7. [balance.LeastLatency] takes cores for what they are and does better.
func oneCoreLeastLatency(s *sim.Service) []uint32 {
	total := s.Arrivals.Rate(0)
	rates := make([]float64, len(s.Servers))
	served := func(theta float64) float64 {
		var sum float64
		for i, server := range s.Servers {
			d := server.Demand.Mean() / server.Cores
			rates[i] = max(0.05*total/float64(len(rates)), min(0.7, 1-math.Sqrt(d/theta))/d)
			sum += rates[i]
		}
		return sum
	}
	low, high := 1e-9, 1e9
	for range 200 {
		if mid := math.Sqrt(low * high); served(mid) < total {
			low = mid
		} else {
			high = mid
		}
	}
	weights := make([]uint32, len(rates))
	for i, rate := range rates {
		weights[i] = uint32(math.Round(1000 * rate))
	}
	return weights
}

// The reference's figures lie within 10 % of ours. Ours are of several seeds together: a
// single run of 120 s is off by as much, where a queue is almost full.
func TestArticleIsAsTheReference(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long")
	}
	s, err := scenario.Open("article")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range reference {
		t.Run(fmt.Sprintf("%s, %d proxies", want.name, want.proxies), func(t *testing.T) {
			t.Parallel()
			choose := func(s sim.Setting) sim.Policy { return firstOfEquals{s} }
			if want.policy != "" {
				kind, err := policy.Find(want.policy)
				if err != nil {
					t.Fatal(err)
				}
				choose = kind.New
			}
			service := s.Service
			service.Proxies = want.proxies
			service.WarmUp, service.Measure = 20, 120
			trial := sim.Trial{Service: &service, NewPolicy: choose, Steps: 1}
			if want.weights != nil {
				trial.Weigher = &sim.Weigher{Fixed: want.weights(&service)}
			}
			const seeds = 8
			latency, served := sim.NewHistogram(), make([]float64, len(service.Servers))
			cpu := 0.0
			for seed := range uint64(seeds) {
				trial.Seed = seed
				r, err := sim.Run(t.Context(), trial)
				if err != nil {
					t.Fatal(err)
				}
				latency.Add(r.Latency)
				cpu += r.CPU() / seeds
				for i := range r.Servers {
					served[i] += float64(r.Servers[i].Served) / r.Seconds / seeds
				}
			}
			least, most := math.Inf(1), 0.0
			for _, rate := range served {
				least, most = min(least, rate), max(most, rate)
			}
			for _, figure := range []struct {
				name      string
				got, want float64
			}{
				{"p50", 1000 * latency.Quantile(0.5), want.p50}, {"p99", 1000 * latency.Quantile(0.99), want.p99},
				{"CPU", cpu, want.cpu}, {"fewest requests per second", least, want.least}, {"most requests per second", most, want.most},
			} {
				if figure.want > 0 && math.Abs(figure.got/figure.want-1) > 0.1 {
					t.Errorf("%s is %.4g, reference %.4g: more than 10 %% apart", figure.name, figure.got, figure.want)
				}
			}
		})
	}
}

// Weights that are set once, from what endpoints really cost, come this near to what only
// somebody all-knowing could do.
func TestStaticLeastLatencyIsNearTheBound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long")
	}
	s, err := scenario.Open("article")
	if err != nil {
		t.Fatal(err)
	}
	p99, cpu := map[string]float64{}, map[string]float64{}
	for _, a := range s.Arms {
		if a.Name != "least-latency-static" && a.Name != "all-knowing" {
			continue
		}
		r, err := sim.Run(t.Context(), sim.Trial{Service: &s.Service, NewPolicy: a.NewPolicy, Weigher: a.Weigher, Seed: s.Seed, Steps: 1})
		if err != nil {
			t.Fatal(err)
		}
		p99[a.Name], cpu[a.Name] = r.Latency.Quantile(0.99), r.CPU()
	}
	if ratio := p99["least-latency-static"] / p99["all-knowing"]; !(ratio <= 1.6) {
		t.Errorf("p99 is %.2f times the bound's, may be 1.6", ratio)
	}
	if ratio := cpu["least-latency-static"] / cpu["all-knowing"]; !(ratio <= 1.4) {
		t.Errorf("CPU is %.2f times the bound's, may be 1.4", ratio)
	}
}
