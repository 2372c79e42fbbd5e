package report

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/contracttest"
)

// read is a result of the simulator, thinned out.
func read[T any](t *testing.T, name string) *T {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var result T
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&result); err != nil {
		t.Fatal(err)
	}
	return &result
}

// What a simulation adds to the contract of all experiments.
const simulationContract = `{"scenario": "article", "arms": [{"name": "least-request", "requests": 60000, "errors": 0,
  "p50_ms": 0, "p90_ms": 0, "p95_ms": 0, "p99_ms": 0, "p999_ms": 0, "cpu_cores": 0, "mean_ms": 1,
  "rounds": [{"requests": 1, "errors": 0, "p50_ms": 1, "p99_ms": 1, "cpu_cores": 1, "mean_ms": 1}],
  "endpoints": [{"address": "fib(25)-1", "demand": "fib(25)", "requests_per_s": 0, "cpu_cores": 0, "p50_ms": 0, "p99_ms": 0, "weight": 0}],
  "kinds": [{"kind": "fib(25)", "endpoints": 3, "requests_per_s": 0, "cpu_cores": 0, "p50_ms": 0, "p99_ms": 0, "weight": 0}],
  "percentiles": [{"quantile": 0, "latency_ms": 0}],
  "series": [{"at_s": 0, "requests_per_s": 0, "errors": 0, "p50_ms": 0, "p99_ms": 0, "cpu_cores": 0, "in_flight": 0}]}],
 "ratios": {"least-latency/least-request": {"p50": 0, "p99": 0, "cpu": 0}},
 "simulation": {"source": "article", "about": "…", "endpoints": 15, "warm_up_s": 60}}`

func TestSimulationKeepsTheContract(t *testing.T) {
	t.Parallel()
	e := read[Experiment](t, "simulation")
	var out bytes.Buffer
	if err := e.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	contracttest.Has(t, simulationContract, out.Bytes())
	contracttest.Has(t, contract, out.Bytes())
}

// simulated is a simulation of arms with these p99s.
func simulated(arms ...Arm) *Experiment {
	for i := range arms {
		arms[i].Requests, arms[i].CPU = 10_000, 1
	}
	return &Experiment{Scenario: "s", Simulation: &Simulation{Endpoints: 4}, Arms: arms}
}

func TestSimulationVerdict(t *testing.T) {
	t.Parallel()
	loop := []WeightsAt{{}}
	for name, tt := range map[string]struct {
		e    *Experiment
		want string
	}{
		"the best of several": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "b", P99: 50}, Arm{Name: "c", P99: 70}),
			"b, the best of 3 arms, cut p99 by 50 % (100 → 50.0 ms)"},
		"a bound is no choice": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "b", P99: 50}, Arm{Name: "c", P99: 70}, Arm{Name: "d", P99: 20, Bound: true}),
			"b, the best of 3 arms, cut p99 by 50 %"},
		"a loop before weights that are hardly better": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "fixed", P99: 50}, Arm{Name: "loop", P99: 50.5, Weights: loop}),
			"loop weights, the best of 3 arms, cut"},
		"and not before much better ones": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "fixed", P99: 50}, Arm{Name: "loop", P99: 52, Weights: loop}),
			"fixed, the best of 3 arms, cut"},
		"the best of two loops": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "fixed", P99: 50}, Arm{Name: "loop", P99: 50.9, Weights: loop}, Arm{Name: "other", P99: 50.1, Weights: loop}),
			"other weights, the best of 4 arms"},
		"none is better": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "b", P99: 150}, Arm{Name: "c", P99: 120}),
			"no arm beats a; c, the best of the others, raised p99 by 20 %"},
		"failing is worse than slow": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "b", P99: 50, Errors: 500}, Arm{Name: "c", P99: 90}),
			"c, the best of 3 arms, cut p99 by 10 %"},
		"nobody to choose from": {simulated(Arm{Name: "a", P99: 100}, Arm{Name: "all-knowing", P99: 50, Bound: true}),
			"all-knowing cut p99 by 50 %"},
		"growing": {simulated(Arm{Name: "a", P99: 100, Simulated: Simulated{Grows: true}}, Arm{Name: "b", P99: 50}),
			"without a failed request; but endpoints are saturated, and queues may grow without bound."},
	} {
		got := tt.e.Verdict()
		if !strings.HasPrefix(got, "Simulation of s: ") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: the verdict is %q, want %q in it", name, got, tt.want)
		}
	}
}

func TestCaveats(t *testing.T) {
	t.Parallel()
	e := simulated(Arm{Name: "a", P99: 100, Simulated: Simulated{Grows: true, Saturated: 2}}, Arm{Name: "b", P99: 14.5, Bound: true})
	e.Simulation.Notes = []string{"A note."}
	want := []string{
		"A note.",
		"What no proxy can know shows what is left to gain: b (p99 14.5 ms).",
		"Endpoints are saturated, that is never without requests, under a (2 of 4). Where their queues grow without bound, figures depend on how long was measured.",
	}
	if diff := cmp.Diff(want, e.Caveats()); diff != "" {
		t.Errorf("caveats (-want +got):\n%s", diff)
	}
	if got := (&Experiment{}).Caveats(); got != nil {
		t.Errorf("what was measured has the caveats %q", got)
	}
}

func TestByKind(t *testing.T) {
	t.Parallel()
	arm := &Arm{
		Name: "a", Endpoints: make([]Endpoint, 5),
		Kinds:   []Kind{{Kind: "fast", Endpoints: 4, Requests: 30, CPU: 0.5, P99: 9, Weight: 99.6}, {Kind: "slow", Endpoints: 1}},
		Weights: []WeightsAt{{At: 5, Held: "Stale", KindShares: []float64{0.8, 0.2}}, {At: 10}},
	}
	got := arm.ByKind()
	want := []Endpoint{{Address: "4 × fast", Demand: "fast", Requests: 30, CPU: 0.5, P99: 9, Weight: 100}, {Address: "1 × slow", Demand: "slow"}}
	if diff := cmp.Diff(want, got.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0.2, 0.2}, got.Weights[0].Shares); diff != "" || got.Weights[0].Held != "Stale" {
		t.Errorf("shares of one endpoint each (-want +got):\n%s", diff)
	}
	if len(got.Weights[1].Shares) != 2 || len(arm.Endpoints) != 5 || arm.Weights[0].Shares != nil {
		t.Error("a decision lacks shares, or the arm was changed")
	}
	plain := &Arm{Endpoints: make([]Endpoint, 2)}
	if plain.ByKind() != plain {
		t.Error("an arm without kinds does not stay as it is")
	}
}

func TestByArm(t *testing.T) {
	t.Parallel()
	e := read[Experiment](t, "simulation")
	columns, rows := e.ByArm()
	if diff := cmp.Diff([]string{"mean", "p50", "p90", "p95", "p99", "p99.9", "CPU", "errors", "p50 ×", "p99 ×", "CPU ×"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if len(rows) != len(e.Arms) {
		t.Fatalf("%d rows of %d arms", len(rows), len(e.Arms))
	}
	for i, row := range rows {
		if row.Name != e.Arms[i].Name || len(row.Cells) != len(columns) || row.Cells[4].Value != Number(e.Arms[i].P99) {
			t.Errorf("row %d is %+v", i, row)
		}
	}
	e.Arms[0].Unfinished, e.Arms[1].Grows, e.Arms[1].Saturated = 7, true, 3
	columns, rows = e.ByArm()
	if diff := cmp.Diff([]string{"errors", "unfinished", "saturated", "p50 ×"}, columns[7:11]); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Cell{{Value: "0"}, {Value: "3", Trend: Worse}}, []Cell{rows[0].Cells[9], rows[1].Cells[9]}); diff != "" {
		t.Errorf("saturated (-want +got):\n%s", diff)
	}
}

func TestSimulationCommand(t *testing.T) {
	t.Parallel()
	e := read[Experiment](t, "simulation")
	want := "taper sim run article --arms least-request,equal-load,least-latency,least-latency-static,all-knowing --rounds 3 --seed 1"
	if got := e.Command(); got != want {
		t.Errorf("command\n got %s\nwant %s", got, want)
	}
	e.Simulation.Source, e.Simulation.Chosen = "my dir/it's.yaml", false
	if got, want := e.Command(), `taper sim run 'my dir/it'\''s.yaml' --rounds 3 --seed 1`; got != want {
		t.Errorf("command\n got %s\nwant %s", got, want)
	}
	e.Simulation.Source = ""
	if got := e.Command(); got != "" {
		t.Errorf("command %q of a simulation whose source is not known", got)
	}
}
