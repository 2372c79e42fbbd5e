package predict

import (
	"fmt"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// real is a service of which everything is known: it is simulated.
type real struct {
	demands, idle []float64
	rate, sigma   float64
	overhead      float64
	proxies       int
}

const cores = 2

// seeds is how often a service is observed anew.
const seeds = 3

// unequal is a small service whose endpoints differ.
func unequal() real {
	return real{
		demands: []float64{0.003, 0.003, 0.005, 0.005, 0.008, 0.014}, idle: []float64{0.05, 0.05, 0.05, 0.05, 0.05, 0.05},
		rate: 700, sigma: 0.8, proxies: 12,
	}
}

func (r real) endpoints() []model.Endpoint {
	list := make([]model.Endpoint, len(r.demands))
	for i := range list {
		list[i] = model.Endpoint{Address: fmt.Sprintf("10.0.0.%d:80", i+1), Name: fmt.Sprintf("web-%d", i+1), Capacity: cores}
	}
	return list
}

// run simulates the service for so many seconds.
func (r real) run(t testing.TB, choice string, loop *sim.Weigher, seed uint64, seconds float64) *sim.Result {
	t.Helper()
	kind, err := policy.Find(choice)
	if err != nil {
		t.Fatal(err)
	}
	s := &sim.Service{Proxies: r.proxies, Arrivals: sim.Poisson{{Rate: r.rate}}, RoundTrip: r.overhead, WarmUp: 10, Measure: seconds}
	if loop != nil {
		s.WarmUp = 10 * loop.Policy.Interval.Seconds()
	}
	for i, e := range r.endpoints() {
		s.Servers = append(s.Servers, sim.Server{Address: e.Address, Cores: cores, Idle: r.idle[i], Demand: sim.NewLogNormal(r.demands[i], r.sigma)})
	}
	result, err := sim.Run(t.Context(), sim.Trial{Service: s, NewPolicy: kind.New, Weigher: loop, Seed: seed, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// observed is what a store would have of the service: windows of its life, one after the
// other in time and each with luck of its own.
func (r real) observed(t testing.TB, windows int, length time.Duration, seed uint64) *Service {
	t.Helper()
	s := &Service{Name: "web", Endpoints: r.endpoints(), Length: length, Proxies: r.proxies, Policy: balance.DefaultPolicy(length)}
	chance := random.New(seed)
	for n := range windows {
		end := time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(n) * length)
		result := r.run(t, "least-request", nil, chance.Next(), length.Seconds())
		samples := model.Snapshot{}
		for i, e := range s.Endpoints {
			samples[e.Address] = model.Sample{
				CPU:      model.Reading{Value: result.Servers[i].CPU, At: end},
				Requests: model.Reading{Value: float64(result.Servers[i].Served) / result.Seconds, At: end},
				Window:   length,
			}
		}
		s.Windows = append(s.Windows, Window{End: end, Samples: samples})
	}
	return s
}

// truth is what each arm really gives, over long: today, and with a control loop at work.
func (r real) truth(t testing.TB, s *Service) map[string]outcome {
	t.Helper()
	const seconds = 1000
	all := map[string]outcome{}
	add := func(arm, choice string, loop *sim.Weigher) {
		result := r.run(t, choice, loop, 77, seconds)
		all[arm] = outcome{p50: 1000 * result.Latency.Quantile(0.5), p99: 1000 * result.Latency.Quantile(0.99), cpu: result.CPU()}
	}
	add(Today, "least-request", nil)
	add(AllKnowing, AllKnowing, nil)
	for _, strategy := range balance.Strategies {
		p := s.Policy
		p.Strategy = strategy
		add(string(strategy), "least-request", &sim.Weigher{Decide: balance.Decide, Policy: p, Evidence: balance.FromCPU})
	}
	return all
}

// coverageOf counts how many of the intervals hold the truth.
func coverageOf(t testing.TB, p *report.Prediction, truth map[string]outcome) (held, all int) {
	t.Helper()
	today := truth[Today]
	for _, arm := range p.Arms {
		is := truth[arm.Name]
		check := func(what string, e report.Estimate, really float64) {
			all++
			if e.Low <= really && really <= e.High {
				held++
			} else {
				t.Logf("%s %s: %.4g is not within %.4g (%.4g to %.4g)", arm.Name, what, really, e.Median, e.Low, e.High)
			}
		}
		check("p50", *arm.P50, is.p50)
		check("p99", *arm.P99, is.p99)
		check("CPU", arm.CPU, is.cpu)
		if arm.Against != nil {
			check("p50 ratio", arm.Against.P50, is.p50/today.p50)
			check("p99 ratio", arm.Against.P99, is.p99/today.p99)
			check("CPU ratio", arm.Against.CPU, is.cpu/today.cpu)
		}
	}
	return held, all
}

func silent(Progress) {}

// The service is simulated, so that the truth is known, and observed as a store would.
// Intervals hold the truth as often as they promise, nearly: 85 times of 100.
func TestIntervalsHoldTheTruth(t *testing.T) {
	t.Parallel()
	if raced || testing.Short() {
		t.Skip("simulates 20 million requests; the other tests run the same code")
	}
	steep := unequal()
	steep.sigma, steep.proxies = 1, 4
	busy := unequal()
	busy.idle = make([]float64, len(busy.demands))
	for name, tt := range map[string]struct {
		service real
		fitted  bool // to today's latency
	}{
		"assumed sigma": {service: unequal()},
		"fitted sigma":  {service: steep, fitted: true},
		"no idle load":  {service: busy, fitted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tt.service
			if tt.fitted {
				r.overhead = 0.001
			}
			truth := r.truth(t, r.observed(t, leastWindows, 15*time.Second, 1))
			held, all := 0, 0
			for seed := range uint64(seeds) {
				s := r.observed(t, 8, 15*time.Second, seed+1)
				if tt.fitted {
					s.Today = &Latency{P50: truth[Today].p50 / 1000, P99: truth[Today].p99 / 1000}
				}
				o := DefaultOptions()
				o.Seed, o.requests = seed, 20_000
				p, err := Predict(t.Context(), s, o, silent)
				if err != nil {
					t.Fatal(err)
				}
				h, a := coverageOf(t, p, truth)
				held, all = held+h, all+a
			}
			t.Logf("%d of %d intervals hold the truth", held, all)
			if float64(held) < 0.85*float64(all) {
				t.Errorf("%d of %d intervals hold the truth, want 85 %%", held, all)
			}
		})
	}
}
