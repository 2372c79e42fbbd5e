package balance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service is a closed loop without noise: requests follow shares, CPU follows requests.
type service struct {
	rate      float64
	demands   []float64
	endpoints []model.Endpoint
	weights   model.Weights
	memory    balance.Memory
	policy    balance.Policy
	now       time.Time
}

func newService(rate float64, policy balance.Policy, demands ...float64) *service {
	s := &service{rate: rate, demands: demands, policy: policy, now: epoch}
	for i := range demands {
		s.endpoints = append(s.endpoints, model.Endpoint{Address: fmt.Sprintf("127.0.1.%d:8080", i+1)})
	}
	return s
}

func (s *service) input() balance.Input {
	snapshot := model.Snapshot{}
	shares := s.weights.Shares()
	for i, ep := range s.endpoints {
		share := 1 / float64(len(s.endpoints))
		if len(shares) > 0 {
			share = shares[ep.Address]
		}
		rate := s.rate * share
		snapshot[ep.Address] = model.Sample{
			CPU:      model.Reading{Value: rate * s.demands[i], At: s.now},
			Requests: model.Reading{Value: rate, At: s.now},
		}
	}
	return balance.Input{Now: s.now, Endpoints: s.endpoints, Snapshot: snapshot, Current: s.weights, Memory: s.memory, Policy: s.policy}
}

func (s *service) decide() balance.Decision {
	s.now = s.now.Add(s.policy.Interval)
	d := balance.Decide(s.input())
	s.weights, s.memory = d.Weights, d.Memory
	return d
}

// article is the published experiment: fib(25) costs 2.73 ms, and 1.618 times as
// much with each step.
func article(strategy balance.Strategy) *service {
	var demands []float64
	for step, n := range []int{3, 2, 9, 0, 1} {
		for range n {
			demands = append(demands, 0.00273*math.Pow(1.618, float64(step)))
		}
	}
	p := balance.DefaultPolicy(30 * time.Second)
	p.Strategy, p.Capacity = strategy, 2
	return newService(1500, p, demands...)
}

func TestArticle(t *testing.T) {
	for _, test := range []struct {
		strategy         balance.Strategy
		cpu              float64 // cores, of the whole service
		least, most, tol float64 // requests per second and endpoint
	}{
		{balance.EqualLoad, 7.86, 28, 192, 0.01},
		{balance.LeastLatency, 4.97, 5, 377, 0.02},
	} {
		t.Run(string(test.strategy), func(t *testing.T) {
			s := article(test.strategy)
			for range 4 {
				s.decide()
			}
			var cpu float64
			least, most := math.Inf(1), 0.0
			for i, ep := range s.endpoints {
				rate := 1500 * s.weights.Shares()[ep.Address]
				cpu += rate * s.demands[i]
				least, most = min(least, rate), max(most, rate)
			}
			check := func(what string, got, want float64) {
				if math.Abs(got-want) > test.tol*want {
					t.Errorf("%s is %.4g, want %.4g within %.0f %%", what, got, want, 100*test.tol)
				}
			}
			check("total CPU", cpu, test.cpu)
			check("most requests/s", most, test.most)
			check("least requests/s", least, test.least)
		})
	}
}

func TestSettlesWithinThreeIntervals(t *testing.T) {
	for _, strategy := range balance.Strategies {
		s := article(strategy)
		var after3 map[string]float64
		for i := range 10 {
			s.decide()
			if i == 2 {
				after3 = s.weights.Shares()
			}
		}
		if moved := distance(after3, s.weights.Shares()); moved > 0.02 {
			t.Errorf("%s: %.3f of the requests still moved after 3 intervals", strategy, moved)
		}
		s.demands[0] *= 2
		for range 3 {
			s.decide()
		}
		after3 = s.weights.Shares()
		for range 7 {
			s.decide()
		}
		if moved := distance(after3, s.weights.Shares()); moved > 0.02 {
			t.Errorf("%s: %.3f of the requests still moved 3 intervals after a change", strategy, moved)
		}
	}
}

// distance is the fraction of requests that two shares place differently.
func distance(a, b map[string]float64) float64 {
	var sum float64
	for address, share := range a {
		sum += math.Abs(share - b[address])
	}
	return sum / 2
}

func TestNoisyDemandsKeepTheirOrder(t *testing.T) {
	s := article(balance.LeastLatency)
	rng := rand.New(rand.NewPCG(1, 2))
	truth := article(balance.LeastLatency)
	for range 5 {
		truth.decide()
	}
	for range 60 {
		s.now = s.now.Add(s.policy.Interval)
		in := s.input()
		for address, sample := range in.Snapshot {
			n := sample.Requests.Value * s.policy.Interval.Seconds()
			sample.CPU.Value *= 1 + 0.95*rng.NormFloat64()/math.Sqrt(max(1, n))
			sample.CPU.Value = max(0, sample.CPU.Value)
			in.Snapshot[address] = sample
		}
		d := balance.Decide(in)
		s.weights, s.memory = d.Weights, d.Memory
	}
	if off := distance(truth.weights.Shares(), s.weights.Shares()); off > 0.05 {
		t.Errorf("with noise %.3f of the requests go elsewhere than without", off)
	}
}

func TestInFlightFallsBackOnLittlesLaw(t *testing.T) {
	p := balance.DefaultPolicy(10 * time.Second)
	p.Strategy = balance.EqualLoad
	s := newService(60, p, 0.01, 0.02)
	for range 5 {
		s.now = s.now.Add(p.Interval)
		in := s.input()
		for address, sample := range in.Snapshot {
			rho := sample.CPU.Value // on one core
			in.Snapshot[address] = model.Sample{Requests: sample.Requests, InFlight: model.Reading{Value: rho / (1 - rho), At: s.now}}
		}
		d := balance.Decide(in)
		s.weights, s.memory = d.Weights, d.Memory
	}
	if got := s.weights.Shares()[s.endpoints[0].Address]; math.Abs(got-2.0/3) > 0.01 {
		t.Errorf("the fast endpoint has share %.3f, want 0.667", got)
	}
	if s.memory.Evidence != balance.FromInFlight {
		t.Errorf("evidence is %s", s.memory.Evidence)
	}
}

func TestMemorySurvivesStorage(t *testing.T) {
	s := article(balance.LeastLatency)
	for range 5 {
		s.decide()
	}
	stored, err := json.Marshal(s.memory)
	if err != nil {
		t.Fatal(err)
	}
	var restored balance.Memory
	if err := json.Unmarshal(stored, &restored); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(s.policy.Interval)
	in := s.input()
	want := balance.Decide(in)
	in.Memory = restored
	if got := balance.Decide(in); !reflect.DeepEqual(got.Weights, want.Weights) {
		t.Errorf("stored memory decides %v, want %v", got.Weights, want.Weights)
	}
}

func TestDecideLeavesItsInputAlone(t *testing.T) {
	s := article(balance.LeastLatency)
	s.decide()
	s.now = s.now.Add(s.policy.Interval)
	in, same := s.input(), s.input()
	before, err := json.Marshal(in.Memory)
	if err != nil {
		t.Fatal(err)
	}
	first := balance.Decide(in)
	if after, _ := json.Marshal(in.Memory); string(after) != string(before) || !reflect.DeepEqual(in, same) {
		t.Error("Decide changed its input")
	}
	if second := balance.Decide(in); !reflect.DeepEqual(first, second) {
		t.Error("the same input was decided differently")
	}
}

func TestHeldWeightsStayExactly(t *testing.T) {
	s := article(balance.LeastLatency)
	for range 5 {
		s.decide()
	}
	before := s.weights
	d := balance.Decide(balance.Input{Now: s.now.Add(time.Minute), Endpoints: s.endpoints, Current: before, Memory: s.memory, Policy: s.policy})
	if d.Hold.Reason == "" || !reflect.DeepEqual(d.Weights, before) {
		t.Errorf("without news: hold %q, weights changed: %v", d.Hold.Reason, !reflect.DeepEqual(d.Weights, before))
	}
	// One leaves: the others keep theirs to the integer.
	left := balance.Decide(balance.Input{Now: s.now.Add(time.Minute), Endpoints: s.endpoints[1:], Current: before, Memory: s.memory, Policy: s.policy})
	for _, ep := range s.endpoints[1:] {
		if left.Weights[ep.Address] != before[ep.Address] {
			t.Errorf("%s has weight %d, had %d", ep.Address, left.Weights[ep.Address], before[ep.Address])
		}
	}
	if len(left.Weights) != len(s.endpoints)-1 {
		t.Errorf("%d weights for %d endpoints", len(left.Weights), len(s.endpoints)-1)
	}
}

func TestEveryVerdictSaysWhy(t *testing.T) {
	s := article(balance.LeastLatency)
	d := s.decide()
	for _, v := range d.Verdicts {
		if v.Reason == "" || v.Why() == "" {
			t.Errorf("%s: no reason in %+v", v.Address, v)
		}
	}
}

func TestPolicyBounds(t *testing.T) {
	if err := balance.DefaultPolicy(30 * time.Second).Validate(); err != nil {
		t.Errorf("the default policy is not valid: %v", err)
	}
	for name, spoil := range map[string]func(*balance.Policy){
		"strategy":    func(p *balance.Policy) { p.Strategy = "fastest" },
		"utilization": func(p *balance.Policy) { p.UtilizationLimit = 1.2 },
		"NaN":         func(p *balance.Policy) { p.MinShare = math.NaN() },
		"no minimum":  func(p *balance.Policy) { p.MinShare = 0 },
		"interval":    func(p *balance.Policy) { p.Interval = 0 },
	} {
		p := balance.DefaultPolicy(30 * time.Second)
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("%s: a wrong policy passed", name)
		}
	}
}

// FuzzDecide feeds hostile numbers and demands what Envoy demands: a weight of at
// least 1 for each endpoint, and a sum that fits.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(1), 3, 0.2, 40.0, 1e-9, 5)
	f.Add(uint64(2), 1, math.NaN(), -1.0, 1e300, 3)
	f.Add(uint64(3), 40, math.Inf(1), 1e308, 0.0, 8)
	f.Fuzz(func(t *testing.T, seed uint64, n int, cpu, requests, tiny float64, rounds int) {
		if n < 1 || n > 200 || rounds < 1 || rounds > 12 {
			t.Skip()
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		p := balance.DefaultPolicy(10 * time.Second)
		if seed%2 == 0 {
			p.Strategy = balance.EqualLoad
		}
		values := []float64{cpu, requests, tiny, 0, 1, rng.Float64(), math.NaN()}
		pick := func() float64 { return values[rng.IntN(len(values))] }
		var memory balance.Memory
		var weights model.Weights
		for round := range rounds {
			now := epoch.Add(time.Duration(round) * p.Interval)
			in := balance.Input{Now: now, Current: weights, Memory: memory, Policy: p, Snapshot: model.Snapshot{}}
			for i := range n {
				if rng.IntN(8) == 0 {
					continue
				}
				address := fmt.Sprint(i)
				in.Endpoints = append(in.Endpoints, model.Endpoint{Address: address, Capacity: max(0, rng.NormFloat64())})
				at := now.Add(time.Duration(rng.IntN(60)-50) * time.Second)
				in.Snapshot[address] = model.Sample{CPU: model.Reading{Value: pick(), At: at}, Requests: model.Reading{Value: pick(), At: at}}
			}
			d := balance.Decide(in)
			checkWeights(t, in, d)
			memory, weights = d.Memory, d.Weights
		}
	})
}

func checkWeights(t *testing.T, in balance.Input, d balance.Decision) {
	t.Helper()
	if len(d.Weights) != len(in.Endpoints) {
		t.Fatalf("%d weights for %d endpoints", len(d.Weights), len(in.Endpoints))
	}
	var sum uint64
	for address, w := range d.Weights {
		if w == 0 {
			t.Fatalf("weight 0 for %s", address)
		}
		sum += uint64(w)
	}
	if sum > math.MaxUint32 {
		t.Fatalf("weights add up to %d", sum)
	}
	if _, err := json.Marshal(d.Memory); err != nil {
		t.Fatalf("the memory cannot be stored: %v", err)
	}
}

func BenchmarkDecide1000(b *testing.B) {
	demands := make([]float64, 1000)
	for i := range demands {
		demands[i] = 0.003 * (1 + float64(i%7)/3)
	}
	s := newService(20000, balance.DefaultPolicy(30*time.Second), demands...)
	s.decide()
	s.demands[3] *= 2
	s.now = s.now.Add(s.policy.Interval)
	in := s.input()
	for i, ep := range s.endpoints {
		sample := in.Snapshot[ep.Address]
		sample.InFlight = model.Reading{Value: sample.Requests.Value * demands[i] * 1.3, At: s.now}
		in.Snapshot[ep.Address] = sample
	}
	b.ReportAllocs()
	for b.Loop() {
		balance.Decide(in)
	}
}
