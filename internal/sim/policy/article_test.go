package policy_test

import (
	"fmt"
	"testing"

	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// article is the published experiment: 15 pods of four kinds, 1,500 requests/s.
func article(proxies int) *sim.Service {
	s := &sim.Service{
		Proxies: proxies, Arrivals: sim.Poisson{{Rate: 1500}}, WarmUp: 20, Measure: 120,
	}
	for _, kind := range []struct {
		count  int
		demand float64
	}{{3, 2.73e-3}, {2, 4.417e-3}, {9, 7.147e-3}, {1, 18.71e-3}} {
		for i := range kind.count {
			s.Servers = append(s.Servers, sim.Server{
				Address: fmt.Sprint(kind.demand, "-", i), Cores: 2, Demand: sim.NewLogNormal(kind.demand, 0.8),
			})
		}
	}
	return s
}

// The figures are those of an earlier simulation of this service; 0 is one that is not known.
func TestPoliciesServeTheArticle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy             string
		proxies            int
		p50, p90, p99, cpu float64
	}{
		{"least-request", 1, 4.0, 13.3, 36.3, 9.20},
		{"least-request", 8, 0, 0, 52.1, 0},
		{"least-request", 32, 4.6, 17.3, 77.3, 9.85},
		{"all-knowing", 32, 2.2, 6.2, 14.4, 4.16},
	} {
		t.Run(fmt.Sprint(c.policy, c.proxies), func(t *testing.T) {
			t.Parallel()
			k, err := policy.Find(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			r, err := sim.Run(t.Context(), sim.Trial{Service: article(c.proxies), NewPolicy: k.New, Seed: 1, Steps: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, figure := range []struct {
				name      string
				got, want float64
			}{
				{"p50", 1000 * r.Latency.Quantile(0.5), c.p50},
				{"p90", 1000 * r.Latency.Quantile(0.9), c.p90},
				{"p99", 1000 * r.Latency.Quantile(0.99), c.p99},
				{"CPU", r.CPU(), c.cpu},
			} {
				if figure.want == 0 {
					continue
				}
				if figure.got < 0.94*figure.want || figure.got > 1.06*figure.want {
					t.Errorf("%s is %.2f, want %.2f ± 6 %%", figure.name, figure.got, figure.want)
				}
			}
		})
	}
}
