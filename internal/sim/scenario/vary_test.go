package scenario

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/sim"
)

// varied has a loop, static weights and no weights.
const varied = `
warm-up: 0s
measure: 60s
proxies: 8
load: {rate: 100}
endpoints: [{kind: a, demand: 4ms, distribution: constant}, {kind: b, demand: 16ms, distribution: constant}]
control: {interval: 10s, delay: 2s}
arms:
  - {name: plain, policy: random}
  - {name: loop, policy: random, weights: {strategy: equal-load, ramp: 1s}}
  - {name: static, policy: random, weights: {strategy: equal-load, static: true}}
`

func mustVary(t *testing.T, s *Scenario, parameter string, value float64) *Scenario {
	t.Helper()
	got, err := s.Vary(parameter, value)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// same compares scenarios apart from functions.
var same = cmp.Options{
	cmp.AllowUnexported(sim.LogNormal{}), cmpopts.IgnoreTypes(sim.NewPolicy(nil), func(balance.Input) balance.Decision { return balance.Decision{} }),
}

func TestVaryNeverChangesItsReceiver(t *testing.T) {
	t.Parallel()
	s, before := mustParse(t, varied), mustParse(t, varied)
	for _, p := range Parameters {
		got := mustVary(t, s, p.Name, 3)
		if diff := cmp.Diff(before, s, same); diff != "" {
			t.Errorf("%s (-before +after):\n%s", p.Name, diff)
		}
		if cmp.Equal(before, got, same) {
			t.Errorf("%s changed nothing", p.Name)
		}
	}
}

func TestVaryLoad(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sim.Arrivals{
		"{rate: 100}":                                sim.Poisson{{Rate: 150}},
		"{rate: 100, arrivals: constant}":            sim.Regular(150),
		"{steps: [{rate: 10}, {from: 5s, rate: 4}]}": sim.Poisson{{Rate: 15}, {From: 5, Rate: 6}},
		"{trace: arrivals.csv}":                      sim.Trace{0.5 / 1.5, 1 / 1.5, 1 / 1.5, 4 / 1.5},
	} {
		s := mustParse(t, strings.Replace(varied, "{rate: 100}", text, 1))
		if diff := cmp.Diff(want, mustVary(t, s, "load", 1.5).Service.Arrivals, about); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestVaryHeterogeneity(t *testing.T) {
	t.Parallel()
	s := mustParse(t, varied) // the geometric mean is 8 ms
	for h, want := range map[float64][]float64{0: {0.008, 0.008}, 0.5: {0.008 / math.Sqrt2, 0.008 * math.Sqrt2}, 1: {0.004, 0.016}, 2: {0.002, 0.032}} {
		got := mustVary(t, s, "heterogeneity", h)
		for i, server := range got.Service.Servers {
			if math.Abs(server.Demand.Mean()/want[i]-1) > 1e-9 {
				t.Errorf("at %g the demand of %s is %g, want %g", h, server.Address, server.Demand.Mean(), want[i])
			}
		}
		weights := got.Arms[2].Weigher.Fixed
		if ratio := float64(weights[0]) / float64(weights[1]); math.Abs(ratio/(want[1]/want[0])-1) > 0.01 {
			t.Errorf("at %g static weights are %v", h, weights)
		}
	}
}

func TestVaryProxies(t *testing.T) {
	t.Parallel()
	if got := mustVary(t, mustParse(t, varied), "proxies", 64); got.Service.Proxies != 64 {
		t.Errorf("%d proxies", got.Service.Proxies)
	}
}

func TestVaryIntervalTakesItsMultiplesAlong(t *testing.T) {
	t.Parallel()
	got := mustVary(t, mustParse(t, varied), "interval", 2.5).Arms[1].Weigher
	want := balance.DefaultPolicy(2500 * time.Millisecond)
	want.Strategy, want.Ramp = balance.EqualLoad, 250*time.Millisecond
	if diff := cmp.Diff(want, got.Policy); diff != "" || got.Delay != 2 {
		t.Errorf("delay %g, policy (-want +got):\n%s", got.Delay, diff)
	}
}

func TestVaryMetricDelay(t *testing.T) {
	t.Parallel()
	got := mustVary(t, mustParse(t, varied), "metric-delay", 30)
	if got.Arms[1].Weigher.Delay != 30 || got.Arms[2].Weigher.Delay != 0 {
		t.Errorf("delays are %g and, of static weights, %g", got.Arms[1].Weigher.Delay, got.Arms[2].Weigher.Delay)
	}
}

// What others made by hand has weights that nothing is known of.
func TestVaryLeavesWeightsThatNothingDecided(t *testing.T) {
	t.Parallel()
	s := mustParse(t, varied)
	s.Arms[2].Weigher = &sim.Weigher{Fixed: []uint32{1, 7}}
	if got := mustVary(t, s, "load", 2).Arms[2].Weigher.Fixed; got[0] != 1 || got[1] != 7 {
		t.Errorf("weights %v", got)
	}
}

func TestVaryRefuses(t *testing.T) {
	t.Parallel()
	unmoved := strings.Replace(varied, "policy: random, weights: {strategy: equal-load, ramp: 1s}", "policy: random", 1)
	for name, test := range map[string]struct {
		text, parameter string
		value           float64
		want            string
	}{
		"unknown":       {varied, "clients", 3, `unknown parameter "clients": it is one of load, heterogeneity, proxies, interval, metric-delay`},
		"no load":       {varied, "load", 0, "load is 0: it must be in"},
		"NaN":           {varied, "load", math.NaN(), "load is NaN"},
		"too much":      {strings.Replace(varied, "rate: 100", "rate: 1e6", 1), "load", 100, "load 100: that makes some 6e+09 requests"},
		"negative":      {varied, "heterogeneity", -1, "heterogeneity is -1"},
		"too unlike":    {strings.Replace(varied, "16ms", "900s", 1), "heterogeneity", 3, "the demand of a-1 would be out of"},
		"half a proxy":  {varied, "proxies", 1.5, "proxies 1.5: it takes a whole number"},
		"no proxies":    {varied, "proxies", 0, "proxies is 0"},
		"no interval":   {varied, "interval", 0.01, "interval is 0.01: it must be in 0.1..3600"},
		"out of bounds": {strings.Replace(varied, "ramp: 1s", "release-after: 24h", 1), "interval", 1000, "arm loop: release after in seconds"},
		"no loop":       {unmoved, "interval", 5, "no arm has a control loop"},
		"delay":         {varied, "metric-delay", -1, "metric-delay is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mustParse(t, test.text).Vary(test.parameter, test.value)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
