package scenario

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/sim"
)

// files are beside the scenarios of tests.
var files = fstest.MapFS{
	"arrivals.csv":    {Data: []byte("# seconds\n0.5\n\n1\n1\n4\n")},
	"demands.csv":     {Data: []byte("0.001\n0.003\n0.002\n")},
	"sub/demands.csv": {Data: []byte("0.010")},
	"falling.csv":     {Data: []byte("1\n0.5\n")},
	"negative.csv":    {Data: []byte("-1\n2\n")},
	"zero.csv":        {Data: []byte("0\n0\n")},
	"empty.csv":       {Data: []byte("# nothing\n")},
	"words.csv":       {Data: []byte("1\ntwo\n")},
	"nan.csv":         {Data: []byte("NaN\n")},
	"infinite.csv":    {Data: []byte("1e999\n")},
	"long.csv":        {Data: []byte(strings.Repeat("1", 5000))},
	"folder/x.csv":    {Data: []byte("1")},
}

const minimal = `
proxies: 2
load: {rate: 100}
endpoints: [{demand: 5ms}]
arms: [{name: a, policy: random}]
`

func mustParse(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := parse("dir/test.yaml", strings.NewReader(text), files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMinimalScenarioIsFilledIn(t *testing.T) {
	t.Parallel()
	s := mustParse(t, minimal)
	if s.Name != "test" || s.Rounds != 3 || s.Seed != 1 || len(s.Arms) != 1 || s.Arms[0].Policy != "random" || s.Arms[0].NewPolicy == nil || s.Arms[0].Weigher != nil {
		t.Errorf("got %+v", s)
	}
	want := sim.Service{
		Servers:  []sim.Server{{Address: "endpoint-1", Kind: "endpoint", Cores: 1, Demand: sim.NewLogNormal(0.005, 0.8)}},
		Proxies:  2,
		Arrivals: sim.Poisson{{Rate: 100}},
		WarmUp:   30, Measure: 120,
	}
	if diff := cmp.Diff(want, s.Service, cmp.AllowUnexported(sim.LogNormal{})); diff != "" {
		t.Errorf("service (-want +got):\n%s", diff)
	}
}

func TestEverythingThatAFileMaySay(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
about: >
  All of
  it.
rounds: 5
seed: 18446744073709551615
warm-up: 10s
measure: 1m30s
proxies: 4
round-trip: 250us
timeout: 1.5s
retries: 2
load:
  steps: [{from: 0s, rate: 100}, {from: 60s, rate: 0}, {from: 70s, rate: 250.5}]
endpoints:
  - {kind: a, count: 2, cores: 2, idle: 0.1, demand: 2.73ms, distribution: lognormal, sigma: 0.5}
  - {kind: b, cores: 0.5, demand: 4ms, distribution: exponential, discipline: first-come-first-served, from: 20s, until: 80s}
  - {kind: c, demand: 3ms, distribution: constant, discipline: processor-sharing}
  - {kind: d, distribution: empirical, file: demands.csv}
  - {kind: e, distribution: empirical, file: sub/demands.csv, demand: 20ms}
  - {kind: a, cores: 2, idle: 0.1, demand: 2.73ms, sigma: 0.5, distribution: lognormal, from: 30s}
changes:
  - {endpoint: a-2, at: 60s, until: 90s, demand: 2.5}
  - {kind: a, stolen: 1.5}
  - {endpoint: b-1, at: 5s, down: true}
control: {interval: 20s, noise: 0.1, dead-band: 0, utilization-limit: 0.6}
arms:
  - {name: plain, policy: least-request}
  - {name: loop, policy: round-robin, weights: least-latency}
  - name: own
    policy: least-request
    weights:
      strategy: equal-load
      interval: 10s
      delay: 5s
      propagation: 1s
      noise: 0
      missing: 0.01
      evidence: in-flight
      outages: [{from: 10s, until: 20s}, {from: 60s}]
      utilization-limit: 0.9
      min-share: 0.1
      max-share: 5
      max-step: 1.5
      dead-band: 0.1
      ramp: 1s
      equal-weight: 100
      max-age: 1m
      release-after: 5m
      coverage: 0.5
  - {name: published, policy: least-request, weights: published}
`)
	if s.About != "All of it." || s.Rounds != 5 || s.Seed != math.MaxUint64 {
		t.Errorf("about %q, %d rounds, seed %d", s.About, s.Rounds, s.Seed)
	}
	a := sim.Server{Kind: "a", Address: "a-1", Cores: 2, Idle: 0.1, Demand: sim.NewLogNormal(0.00273, 0.5)}
	a2, a3 := a, a
	a2.Address = "a-2"
	a3.Address, a3.From = "a-3", 30
	want := sim.Service{
		Proxies: 4, RoundTrip: 0.00025, Timeout: 1.5, Retries: 2, WarmUp: 10, Measure: 90,
		Arrivals: sim.Poisson{{From: 0, Rate: 100}, {From: 60, Rate: 0}, {From: 70, Rate: 250.5}},
		Servers: []sim.Server{
			a, a2,
			{Kind: "b", Address: "b-1", Cores: 0.5, Demand: sim.Exponential(0.004), Discipline: sim.FirstComeFirstServed, From: 20, Until: 80},
			{Kind: "c", Address: "c-1", Cores: 1, Demand: sim.Constant(0.003)},
			{Kind: "d", Address: "d-1", Cores: 1, Demand: sim.NewEmpirical([]float64{0.001, 0.003, 0.002})},
			{Kind: "e", Address: "e-1", Cores: 1, Demand: sim.Scaled{Demand: sim.NewEmpirical([]float64{0.01}), Factor: 2}},
			a3,
		},
		Changes: []sim.Change{
			{Server: 1, At: 60, Until: 90, Demand: 2.5},
			{Server: 0, Stolen: 1.5}, {Server: 1, Stolen: 1.5}, {Server: 6, Stolen: 1.5},
			{Server: 2, At: 5, Down: true},
		},
	}
	if diff := cmp.Diff(want, s.Service, cmp.AllowUnexported(sim.LogNormal{}, sim.Empirical{})); diff != "" {
		t.Errorf("service (-want +got):\n%s", diff)
	}
	checkWeighers(t, s)
}

func checkWeighers(t *testing.T, s *Scenario) {
	t.Helper()
	loop := balance.DefaultPolicy(20 * time.Second)
	loop.DeadBand, loop.UtilizationLimit = 0, 0.6
	own := balance.Policy{
		Strategy: balance.EqualLoad, Interval: 10 * time.Second, Capacity: 1, UtilizationLimit: 0.9, MinShare: 0.1, MaxShare: 5, MaxStep: 1.5,
		DeadBand: 0.1, Ramp: time.Second, EqualWeight: 100, MaxAge: time.Minute, ReleaseAfter: 5 * time.Minute, Coverage: 0.5,
	}
	want := []*sim.Weigher{
		nil,
		{Policy: loop, Evidence: balance.FromCPU, Noise: 0.1},
		{
			Policy: own, Evidence: balance.FromInFlight, Delay: 5, Propagation: 1, Missing: 0.01,
			Outages: []sim.Span{{From: 10, Until: 20}, {From: 60}},
		},
		{Policy: balance.DefaultPolicy(20 * time.Second), Evidence: balance.FromCPUOnly, Noise: 0.1},
	}
	for i, a := range s.Arms {
		got := a.Weigher
		if got != nil {
			if got.Decide == nil {
				t.Errorf("arm %s decides nothing", a.Name)
			}
			without := *got
			without.Decide = nil
			got = &without
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("arm %s (-want +got):\n%s", a.Name, diff)
		}
	}
}

func TestLoads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sim.Arrivals{
		"{rate: 100}":                               sim.Poisson{{Rate: 100}},
		"{rate: 0.5, arrivals: poisson}":            sim.Poisson{{Rate: 0.5}},
		"{rate: 1e3, arrivals: constant}":           sim.Regular(1000),
		"{trace: arrivals.csv}":                     sim.Trace{0.5, 1, 1, 4},
		"{steps: [{rate: 0}, {from: 5s, rate: 1}]}": sim.Poisson{{}, {From: 5, Rate: 1}},
	} {
		s := mustParse(t, strings.Replace(minimal, "{rate: 100}", text, 1))
		if diff := cmp.Diff(want, s.Service.Arrivals); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// with replaces or adds lines of the minimal scenario.
func with(lines ...string) string {
	text := minimal
	for _, l := range lines {
		key, _, _ := strings.Cut(l, ":")
		kept := slices.DeleteFunc(strings.Split(text, "\n"), func(have string) bool { return strings.HasPrefix(have, key+":") })
		text = strings.Join(kept, "\n") + l + "\n"
	}
	return text
}

func TestOpen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "mine.yml")
	text := strings.Replace(minimal, "{rate: 100}", "{trace: arrivals.csv}", 1)
	for name, content := range map[string]string{path: text, filepath.Join(folder, "arrivals.csv"): "1\n2\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sim.Arrivals(sim.Trace{1, 2}), s.Service.Arrivals); diff != "" || s.Name != "mine" {
		t.Errorf("name %q, arrivals (-want +got):\n%s", s.Name, diff)
	}
	for what, path := range map[string]string{"no such file": "artikle", "folder": folder} {
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", path)) || !strings.Contains(err.Error(), strings.Join(Shipped(), ", ")) {
			t.Errorf("%s: got %v, want an error that names it and lists the shipped", what, err)
		}
	}
}

func TestShippedScenariosCanBeServed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"article", "autoscaling", "bad-node", "generations", "homogeneous", "large", "outage"} {
		if !slices.Contains(Shipped(), name) {
			t.Errorf("%s is not among %v", name, Shipped())
		}
	}
	for _, name := range Shipped() {
		s, err := Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || s.About == "" || s.Arms[0].Name != "least-request" || s.Arms[0].Weigher != nil {
			t.Errorf("%s: name %q, about %q, first arm %+v", name, s.Name, s.About, s.Arms[0])
		}
		if l := s.Load(); l.Impossible() {
			t.Errorf("%s cannot be served: %+v", name, l)
		}
		if bytes := s.Bytes(); bytes > 1<<30 {
			t.Errorf("%s takes %d bytes", name, bytes)
		}
	}
}

// The article's service is the lab's.
func TestArticleHasTheEndpointsOfTheLab(t *testing.T) {
	t.Parallel()
	s, err := Open("article")
	if err != nil {
		t.Fatal(err)
	}
	members := fleet.Fibonacci()
	if len(members) != len(s.Service.Servers) {
		t.Fatalf("%d endpoints, want %d", len(s.Service.Servers), len(members))
	}
	for i, m := range members {
		got := s.Service.Servers[i]
		want := 0.00273 * math.Pow(1.618, float64(m.Fib-25))
		if got.Kind != fmt.Sprintf("fib(%d)", m.Fib) || got.Cores != m.Capacity || math.Abs(got.Demand.Mean()/want-1) > 0.001 {
			t.Errorf("endpoint %d is %+v, want fib(%d) with %g cores and %g s", i, got, m.Fib, m.Capacity, want)
		}
	}
}
