package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/scenario"
)

// small is a scenario of a second or less of computing.
const small = `
about: A slow kind beside a fast one.
rounds: 3
seed: 7
warm-up: 10s
measure: 30s
proxies: 4
load: {rate: 200}
endpoints:
  - {kind: fast, count: 3, cores: 2, demand: 5ms, distribution: lognormal, sigma: 0.8}
  - {kind: slow, count: 2, cores: 2, demand: 15ms, distribution: exponential}
arms:
  - {name: least-request, policy: least-request}
  - {name: least-latency, policy: least-request, weights: {strategy: least-latency, interval: 2s}}
  - {name: all-knowing, policy: all-knowing}
`

func parse(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("small.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulate(t testing.TB, s *scenario.Scenario, o Options) *report.Experiment {
	t.Helper()
	e, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	e.Started = time.Time{}
	return e
}

// TestDeterminism runs trials one after the other and side by side.
func TestDeterminism(t *testing.T) {
	s := parse(t, small)
	side := simulate(t, s, Options{})
	alone := simulate(t, s, Options{Memory: s.Bytes()})
	if diff := cmp.Diff(alone, side); diff != "" {
		t.Errorf("one at a time and side by side differ (-alone +side):\n%s", diff)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(7))
	if diff := cmp.Diff(alone, simulate(t, s, Options{})); diff != "" {
		t.Errorf("with more processors (-alone +side):\n%s", diff)
	}
	// Which arms there are makes no difference to each.
	s.Arms = s.Arms[1:2]
	if diff := cmp.Diff(alone.Arms[1], simulate(t, s, Options{}).Arms[0]); diff != "" {
		t.Errorf("an arm on its own (-with others +alone):\n%s", diff)
	}
	s.Seed++
	if cmp.Equal(alone.Arms[1], simulate(t, s, Options{}).Arms[0]) {
		t.Error("another seed makes no difference")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := parse(t, small)
	e := simulate(t, s, Options{})
	want := report.Settings{EndpointKind: "simulated", Proxies: 4, RatePerS: 200, Rounds: 3, MeasureS: 30, IntervalS: 2, Seed: 7}
	got := e.Settings
	got.RatePerS = math.Round(got.RatePerS)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if e.Scenario != "small" || e.Simulation.Endpoints != 5 || e.Simulation.WarmUp != 10 || e.Simulation.About != "A slow kind beside a fast one." || e.Simulation.Notes != nil {
		t.Errorf("scenario %q, %+v", e.Scenario, e.Simulation)
	}
	for i, a := range e.Arms {
		checkArm(t, &a)
		if a.Bound != (i == 2) || a.Controlled() != (i == 1) {
			t.Errorf("%s: bound %v, controlled %v", a.Name, a.Bound, a.Controlled())
		}
		// All arms of a round see the same requests.
		for round, r := range a.Rounds {
			if first := e.Arms[0].Rounds[round]; r.Requests != first.Requests {
				t.Errorf("%s has %d requests in round %d, the first arm %d", a.Name, r.Requests, round, first.Requests)
			}
		}
	}
	if r := e.Ratios["all-knowing/least-request"]; !(r.P99 > 0 && r.P99 < 1 && r.CPU > 0 && r.CPU < 1) {
		t.Errorf("all-knowing is %+v of least-request", r)
	}
	loop := e.Arms[1]
	if n := len(loop.Weights); n < 18 || n > 20 {
		t.Errorf("%d decisions in 40 s of intervals of 2 s", n)
	}
	for _, w := range loop.Weights {
		near(t, "the sum of shares", sum(w.Shares), 1, 1e-9)
		near(t, "the sum of the fast ones' shares", w.Shares[0]+w.Shares[1]+w.Shares[2], w.KindShares[0], 1e-9)
	}
	if loop.Endpoints[0].Why == "" || loop.Endpoints[0].Weight <= loop.Endpoints[4].Weight {
		t.Errorf("a fast endpoint: %+v; a slow one: %+v", loop.Endpoints[0], loop.Endpoints[4])
	}
}

// checkArm holds what an arm's figures say to each other.
func checkArm(t *testing.T, a *report.Arm) {
	t.Helper()
	var rate, cores float64
	for _, p := range a.Endpoints {
		rate, cores = rate+p.Requests, cores+p.CPU
	}
	near(t, a.Name+": requests/s of all endpoints", rate, 200, 0.03)
	near(t, a.Name+": CPU of all endpoints", cores, a.CPU, 0.05) // a sum of medians is not quite the median of sums
	var byKind float64
	for _, k := range a.Kinds {
		byKind += float64(k.Endpoints) * k.CPU
	}
	near(t, a.Name+": CPU of all kinds", byKind, a.CPU, 0.05)
	if len(a.Kinds) != 2 || a.Kinds[0].Kind != "fast" || a.Kinds[0].Endpoints != 3 || a.Kinds[1].Endpoints != 2 {
		t.Errorf("%s: kinds %+v", a.Name, a.Kinds)
	}
	if !(a.P50 < a.P90 && a.P90 < a.P95 && a.P95 < a.P99 && a.P99 < a.P999 && a.Mean > 0 && len(a.Rounds) == 3) {
		t.Errorf("%s: %+v", a.Name, a)
	}
	if n := len(a.Series); n != 80 {
		t.Fatalf("%s: %d steps of 40 s, want 80", a.Name, n)
	}
	var mean float64
	for i, s := range a.Series {
		near(t, a.Name+": the time of a step", s.At, 0.5*float64(i), 1e-9)
		if s.At >= 10 {
			mean += s.CPU / 60
		}
	}
	near(t, a.Name+": CPU over time", mean, a.CPU, 0.05)
	last := a.Percentiles[len(a.Percentiles)-1]
	if last.Quantile < 0.9999 || last.Latency < a.P999 {
		t.Errorf("%s: the curve ends with %+v, p99.9 is %g", a.Name, last, a.P999)
	}
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// More is asked for than there is: it is simulated, and said.
func TestImpossibleLoad(t *testing.T) {
	t.Parallel()
	e := simulate(t, parse(t, `
rounds: 1
warm-up: 2s
measure: 20s
proxies: 2
load: {rate: 300}
endpoints: [{kind: small, count: 2, cores: 1, demand: 10ms}]
arms: [{name: least-request, policy: least-request}]
`), Options{})
	if !e.Arms[0].Grows || e.Arms[0].Saturated != 2 || e.Arms[0].Unfinished == 0 {
		t.Errorf("%+v", e.Arms[0].Simulated)
	}
	said := strings.Join(e.Caveats(), "\n")
	if !strings.Contains(said, "asks for 3.00 cores of 2.00 at 0 s") || !strings.Contains(said, "least-request (2 of 2)") {
		t.Errorf("it says:\n%s", said)
	}
}

// One endpoint gets more than it can serve, and all together do not.
func TestOneEndpointOverloaded(t *testing.T) {
	t.Parallel()
	e := simulate(t, parse(t, `
rounds: 1
warm-up: 2s
measure: 20s
proxies: 2
load: {rate: 100}
endpoints: [{kind: fast, cores: 1, demand: 1ms}, {kind: slow, cores: 1, demand: 25ms}]
arms: [{name: random, policy: random}]
`), Options{})
	if said := strings.Join(e.Caveats(), "\n"); !strings.Contains(said, "asked for 1.25 times what it can do at 0 s") || !strings.Contains(said, "random (1 of 2)") {
		t.Errorf("it says:\n%s", said)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := parse(t, small)
	_, err := Run(t.Context(), s, Options{Memory: s.Bytes() - 1})
	var large *TooLarge
	if !errors.As(err, &large) || large.Takes != s.Bytes() || large.Limit != s.Bytes()-1 || !strings.Contains(err.Error(), "simulating small takes") {
		t.Errorf("%v", err)
	}
	if _, err := Sweep(t.Context(), s, "proxies", []float64{1, 10_000}, Options{Memory: s.Bytes()}); !errors.As(err, &large) || large.Scenario != "small at proxies 10000" {
		t.Errorf("%v", err)
	}
}

func TestMemoryLimitsWhatRunsAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	s := parse(t, small)
	all := trials(s, 1, "")
	for memory, want := range map[int64]int{0: 8, s.Bytes(): 1, 3*s.Bytes() + 1: 3, 100 * s.Bytes(): 8} {
		if got, err := width(all, memory); got != want || err != nil {
			t.Errorf("%d at once with %d bytes, want %d; %v", got, memory, want, err)
		}
	}
	if got, _ := width(all[:2], 0); got != 2 {
		t.Errorf("%d at once of 2", got)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	s := parse(t, small)
	s.Rounds = 500 // minutes
	ctx, cancel := context.WithCancel(t.Context())
	var said atomic.Int32
	_, err := Run(ctx, s, Options{Progress: func(Progress) {
		if said.Add(1) == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	before, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Sweep(before, s, "load", []float64{1}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a context that had ended", err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	s := parse(t, small)
	s.Rounds = 12
	var last Progress
	said := 0
	simulate(t, s, Options{Progress: func(p Progress) {
		if p.Part < last.Part || p.Part > 1 || !strings.Contains(p.Doing, " of 12") {
			t.Errorf("%+v follows %+v", p, last)
		}
		last = p
		said++
	}})
	if said == 0 {
		t.Error("nothing was said")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	s := parse(t, small)
	s.Rounds = 2
	values := []float64{0.5, 1, 2}
	got, err := Sweep(t.Context(), s, "load", values, Options{})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := Sweep(t.Context(), s, "load", values, Options{Memory: s.Bytes() + s.Bytes()/2})
	if err != nil {
		t.Fatal(err)
	}
	got.Started = alone.Started
	if diff := cmp.Diff(alone, got); diff != "" {
		t.Errorf("one at a time and side by side differ (-alone +side):\n%s", diff)
	}
	e := simulate(t, s, Options{})
	for i, a := range got.Arms {
		if a.Name != s.Arms[i].Name || len(a.Points) != 3 || a.Bound != (i == 2) {
			t.Fatalf("arm %+v", a)
		}
		// At 1 it is the scenario itself.
		if p, arm := a.Points[1], e.Arms[i]; p.P99.Median != arm.P99 || p.CPU.Median != arm.CPU || p.Requests != arm.Requests {
			t.Errorf("%s: %+v, want p99 %g, CPU %g, %d requests", a.Name, p, arm.P99, arm.CPU, arm.Requests)
		}
		for n, p := range a.Points {
			near(t, fmt.Sprintf("%s: requests at load %g", a.Name, values[n]), float64(p.Requests), 2*30*200*values[n], 0.05)
			if p.Value != values[n] || !(p.P99.Low <= p.P99.Median && p.P99.Median <= p.P99.High) {
				t.Errorf("%s: %+v", a.Name, p)
			}
		}
	}
	for _, parameter := range []string{"colour", "proxies"} {
		if _, err := Sweep(t.Context(), s, parameter, []float64{0.5}, Options{}); err == nil {
			t.Errorf("%s of 0.5 is possible", parameter)
		}
	}
}

// What nobody reads is not kept, and nothing is lost of kinds.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]struct{ endpoints, shares int }{
		report.MaxExplained/2 - 1: {report.MaxExplained - 2, report.MaxExplained - 2},
		report.MaxExplained:       {2 * report.MaxExplained, 2 * report.MaxExplained},
		report.MaxEndpoints / 2:   {report.MaxEndpoints, 0},
		report.MaxEndpoints/2 + 1: {0, 0},
	} {
		e := simulate(t, parse(t, fmt.Sprintf(`
rounds: 1
warm-up: 5s
measure: 13s
proxies: 1
load: {rate: 100}
endpoints: [{kind: fast, count: %d, cores: 2, demand: 5ms}, {kind: slow, count: %d, cores: 2, demand: 10ms}]
arms: [{name: loop, policy: random, weights: {strategy: equal-load, interval: 1s}}]
`, count, count)), Options{})
		a := e.Arms[0]
		if len(a.Weights) == 0 || len(a.Endpoints) != want.endpoints || len(a.Weights[0].Shares) != want.shares {
			t.Errorf("%d endpoints: %d decisions, %d endpoints listed, %d shares, want %+v", 2*count, len(a.Weights), len(a.Endpoints), len(a.Weights[0].Shares), want)
			continue
		}
		if explained := len(a.Endpoints) > 0 && a.Endpoints[0].Why != ""; explained != (2*count <= report.MaxExplained) {
			t.Errorf("of %d endpoints the first is explained: %v", 2*count, explained)
		}
		near(t, "the sum of the kinds' shares", sum(a.Weights[0].KindShares), 1, 1e-9)
		if len(a.Kinds) != 2 || a.Kinds[0].Endpoints != count || a.Kinds[0].Requests <= 0 {
			t.Errorf("kinds %+v", a.Kinds)
		}
	}
}

func TestStretches(t *testing.T) {
	t.Parallel()
	for total, want := range map[float64]int{40: 80, 120: 120, 121: 61, 180: 90, 600: 120, 3600: 72, 0.001: 100, 86400: 86} {
		s := &scenario.Scenario{Service: sim.Service{WarmUp: total / 4, Measure: total * 3 / 4}}
		if got := stretches(s); got != want {
			t.Errorf("%g s have %d steps, want %d", total, got, want)
		}
	}
}

func TestCast(t *testing.T) {
	t.Parallel()
	var servers []sim.Server
	for i := range 120 {
		servers = append(servers, sim.Server{Kind: fmt.Sprintf("k%d", i%(maxKinds+10))})
	}
	c := newCast(&sim.Service{Servers: servers})
	if len(c.kinds) != maxKinds+1 || c.kinds[0] != "k0" || c.kinds[maxKinds] != "10 other kinds" || c.count[0] != 2 || c.count[maxKinds] != 20 || c.kindOf[119] != maxKinds {
		t.Errorf("kinds %q, counts %d", c.kinds, c.count)
	}
	if c := newCast(&sim.Service{Servers: servers[:maxKinds+1]}); c.kinds[maxKinds] != "k50" {
		t.Errorf("one kind more than %d is called %q", maxKinds, c.kinds[maxKinds])
	}
}

func TestChangedAreLikeNoOthers(t *testing.T) {
	t.Parallel()
	c := newCast(&sim.Service{
		Servers: []sim.Server{{Kind: "node"}, {Kind: "node"}, {Kind: "joiner"}, {Kind: "joiner"}},
		Changes: []sim.Change{{Server: 1}, {Server: 2}, {Server: 3}, {Server: 3}},
	})
	if diff := cmp.Diff([]string{"node", "node, changed", "joiner"}, c.kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
