package lab

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// measuredExperiment is what taper lab balance --json printed: real Envoys, on two cores
// that gave it precedence over all else (chrt -r 1).
func measuredExperiment(t testing.TB) *report.Experiment {
	t.Helper()
	text, err := os.ReadFile("testdata/fibonacci.json")
	if err != nil {
		t.Fatal(err)
	}
	var e report.Experiment
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return &e
}

func silent(float64) {}

// The simulator says what real Envoys did: p50, p99 and CPU of every arm within 15 %.
func TestAgreesWithWhatWasMeasured(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates 4 million requests")
	}
	a, err := Agree(t.Context(), measuredExperiment(t), 15, silent)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Arms) != 3 || !a.Holds() {
		t.Errorf("%s\n%+v", a.Verdict(), a.Arms)
	}
	if a.OverheadMS < 0.1 || a.OverheadMS > 2 {
		t.Errorf("Envoy and sockets add %.2f ms, which is not what they do", a.OverheadMS)
	}
}

func TestAgreeRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*report.Experiment)
		says   string
	}{
		"scenario":    {func(e *report.Experiment) { e.Scenario = "article" }, `scenario is "article": it takes what taper lab balance --json printed`},
		"nginx":       {func(e *report.Experiment) { e.Settings.EndpointKind = Nginx }, `endpoints are "nginx": it takes "emulated" ones`},
		"no proxies":  {func(e *report.Experiment) { e.Settings.Proxies = 0 }, "proxies is 0"},
		"no rate":     {func(e *report.Experiment) { e.Settings.RatePerS = 0 }, "rate is 0"},
		"odd times":   {func(e *report.Experiment) { e.Settings.MeasureS = math.NaN() }, "measure in seconds is 0"},
		"no arms":     {func(e *report.Experiment) { e.Arms = nil }, "there are no arms"},
		"another arm": {func(e *report.Experiment) { e.Arms[1].Name = "prequal" }, `unknown arm "prequal"`},
		"errors":      {func(e *report.Experiment) { e.Arms[2].Errors = 67 }, "arm least-latency: 67 of 44978 requests failed"},
		"nothing":     {func(e *report.Experiment) { e.Arms[0].Requests = 0 }, "arm least-request measured no requests"},
		"no CPU":      {func(e *report.Experiment) { e.Arms[0].CPU = 0 }, "arm least-request lacks latencies or CPU"},
		"no rates":    {func(e *report.Experiment) { e.Arms[1].Endpoints[2].Requests = 0 }, "arm equal-load: endpoint 127.0.1.3:8080 served 0 requests/s"},
		"fewer":       {func(e *report.Experiment) { e.Arms[0].Endpoints = e.Arms[0].Endpoints[1:] }, "14 endpoints: the experiment has 15"},
		"other":       {func(e *report.Experiment) { e.Arms[0].Endpoints[3].Demand = "fib(30)" }, "endpoint 127.0.1.4:8080 computes fib(30): in the experiment of this taper the 4. is 127.0.1.4:8080 and computes fib(26)"},
		"odd demand":  {func(e *report.Experiment) { e.Arms[0].Endpoints[3].Demand = "sum(1)" }, "computes sum(1)"},
		"second arm":  {func(e *report.Experiment) { e.Arms[2].Endpoints = nil }, "arm least-latency has 0 endpoints"},
		"no curve": {func(e *report.Experiment) {
			for i := range e.Arms {
				e.Arms[i].Percentiles = nil
			}
		}, "percentiles are missing"},
		"too large": {func(e *report.Experiment) { e.Settings.Rounds, e.Settings.MeasureS = 100, 3600 }, "simulated requests, and up to 5e+08 are simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := measuredExperiment(t)
			tt.change(e)
			if _, err := Agree(t.Context(), e, 15, silent); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
		})
	}
}

func TestAgreeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Agree(ctx, measuredExperiment(t), 15, func(float64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// The overhead is found again where it is known, within a tenth of a millisecond, from the
// quickest tenth alone.
func TestOverheadIsFound(t *testing.T) {
	t.Parallel()
	kind, err := policy.Find(LeastRequest)
	if err != nil {
		t.Fatal(err)
	}
	for _, overhead := range []float64{0, 0.0005, 0.002} {
		e := measuredExperiment(t)
		twin, err := newTwin(e)
		if err != nil {
			t.Fatal(err)
		}
		twin.overhead = overhead
		for i := range e.Arms {
			a := &e.Arms[i]
			s := twin.service(a.Name, 0)
			s.Measure = 20
			r, err := sim.Run(t.Context(), sim.Trial{Service: s, NewPolicy: kind.New, Weigher: twin.weigher(a.Name), Seed: 1, Steps: 1})
			if err != nil {
				t.Fatal(err)
			}
			for k := range a.Endpoints {
				a.Endpoints[k].Requests = float64(r.Servers[k].Served) / r.Seconds
			}
			a.P50, a.P99 = 1, 2 // which it does not look at
			a.Percentiles = report.Curve(r.Latency.Count(), func(q float64) float64 { return 1000 * r.Latency.Quantile(q) })
		}
		if got, err := twin.overheadOf(e); err != nil || math.Abs(got-overhead) > 0.0001 {
			t.Errorf("%.3g ms were found for %.3g, %v", 1000*got, 1000*overhead, err)
		}
	}
}

// A later round is what comes after the rounds before, with their loop's memory.
func TestTwinRunsTheExperimentsTurns(t *testing.T) {
	t.Parallel()
	twin, err := newTwin(measuredExperiment(t))
	if err != nil {
		t.Fatal(err)
	}
	for arm, want := range map[string][]float64{
		LeastRequest: {3, 3 + 10 + 3, 3 + 10 + 3 + 10 + 3},
		EqualLoad:    {13.5, 13.5 + 10 + 4.5, 13.5 + 10 + 4.5 + 10 + 4.5},
	} {
		var got []float64
		for round := range want {
			got = append(got, twin.service(arm, round).WarmUp)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s warms up for %v s, want %v", arm, got, want)
		}
	}
	if twin.weigher(LeastRequest) != nil || proxyPolicy(RoundRobin) != RoundRobin || proxyPolicy(EqualLoad) != LeastRequest {
		t.Error("arms are not balanced as in the testbed")
	}
	w := twin.weigher(LeastLatency)
	if w.Delay != 0.25 || string(w.Policy.Strategy) != LeastLatency || w.Policy.Interval.Seconds() != 3 {
		t.Errorf("the loop has %+v", w)
	}
}

// Whatever a file says, it is an experiment that can be simulated or is refused.
func FuzzTwin(f *testing.F) {
	text, err := os.ReadFile("testdata/fibonacci.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"scenario": "fibonacci", "settings": {"endpoint_kind": "emulated"}, "arms": [{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e report.Experiment
		if json.Unmarshal(text, &e) != nil {
			t.Skip()
		}
		twin, err := newTwin(&e)
		if err != nil {
			return
		}
		if overhead, err := twin.overheadOf(&e); err == nil && !(overhead >= 0) {
			t.Errorf("an overhead of %g", overhead)
		}
	})
}
