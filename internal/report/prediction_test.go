package report

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"taper.dev/taper/internal/contracttest"
)

// The shape that taper sim predict promises: every name here is there for good.
const predictionContract = `{"service": "shop", "strategy": "least-latency",
 "observed": {"from": "2026-11-21T21:00:00Z", "until": "2026-11-21T21:10:00Z", "windows": 10, "window_s": 60, "evidence": "cpu",
  "rate_per_s": {"median": 1500, "low": 1490, "high": 1510}},
 "assumed": {"policy": "least-request", "proxies": {"median": 32, "low": 32, "high": 32}, "proxies_known": true,
  "sigma": {"median": 0.8, "low": 0.6, "high": 1}, "overhead_ms": 0, "idle_cores": {"median": 0, "low": 0, "high": 0}},
 "calibration": {"measured_p50_ms": 5, "measured_p99_ms": 80, "simulated_p50_ms": 5, "simulated_p99_ms": 80, "sigma": 0.8, "overhead_ms": 0.5},
 "draws": 20, "requests_per_run": 100000, "seed": 1,
 "arms": [{"name": "today", "policy": "least-request", "p50_ms": {"median": 0, "low": 0, "high": 0}, "p99_ms": {"median": 0, "low": 0, "high": 0},
  "cpu_cores": {"median": 0, "low": 0, "high": 0}, "saturated": 0, "against_today": {"p50": {"median": 0, "low": 0, "high": 0},
  "p99": {"median": 0, "low": 0, "high": 0}, "cpu": {"median": 0, "low": 0, "high": 0}}}],
 "endpoints": [{"address": "10.0.0.1:80", "demand_ms": 2.73, "idle_cores": 0, "capacity_cores": 2, "utilization": 0.14, "requests_per_s": 100,
  "shares": {"least-latency": 0.25}}],
 "warnings": ["one"]}`

func TestPredictionKeepsTheContract(t *testing.T) {
	t.Parallel()
	var p Prediction
	contracttest.Keeps(t, predictionContract, &p, p.WriteJSON)
	var a Agreement
	contracttest.Keeps(t, `{"scenario": "fibonacci", "conditions": ["a"], "overhead_ms": 0.4, "within_percent": 15, "runs": 15,
 "arms": [{"name": "least-request", "figures": [{"name": "p50", "unit": "ms", "measured": 5, "lowest_round": 4, "highest_round": 6, "simulated": 5, "ratio": 1, "within": true}]}]}`, &a, a.WriteJSON)
	text, err := os.ReadFile("testdata/prediction.json")
	if err != nil {
		t.Fatal(err)
	}
	// A prediction that was made, but for the ratios to today, which today lacks.
	var made map[string]any
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	made["arms"] = made["arms"].([]any)[1:]
	made["warnings"] = []any{}
	if text, err = json.Marshal(made); err != nil {
		t.Fatal(err)
	}
	contracttest.Has(t, predictionContract, text)
}

func TestPredictionVerdict(t *testing.T) {
	t.Parallel()
	flat := Estimate{1, 0.95, 1.04}
	for _, tt := range []struct {
		p99, cpu Estimate
		says     string
	}{
		{Estimate{0.65, 0.52, 0.8}, Estimate{0.75, 0.7, 0.78}, "least-latency weights would cut p99 by 35 % (20 to 48 %) and CPU by 25 % (22 to 30 %)."},
		{Estimate{0.65, 0.52, 0.8}, flat, "least-latency weights would cut p99 by 35 % (20 to 48 %); no change of CPU (-5 to +4 %) can be told."},
		{flat, Estimate{0.75, 0.7, 0.78}, "least-latency weights would cut CPU by 25 % (22 to 30 %); no change of p99 (-5 to +4 %) can be told."},
		{flat, flat, "least-latency weights would change nothing that can be told: p99 (-5 to +4 %), CPU (-5 to +4 %)."},
		{Estimate{1.2, 1.1, 1.4}, Estimate{0.9, 0.85, 0.95}, "least-latency weights would raise p99 by 20 % (10 to 40 %) but cut CPU by 10 % (5 to 15 %)."},
		{Estimate{1.2, 1.1, 1.4}, Estimate{1.1, 1.05, 1.2}, "least-latency weights would raise p99 by 20 % (10 to 40 %) and CPU by 10 % (5 to 20 %)."},
		// Sure, and too small to matter.
		{Estimate{0.99, 0.984, 0.997}, flat, "least-latency weights would change nothing that can be told: p99 (-2 to 0 %), CPU (-5 to +4 %)."},
		{Estimate{math.NaN(), math.NaN(), math.NaN()}, flat, "least-latency weights would change nothing that can be told: p99 (unknown), CPU (-5 to +4 %)."},
	} {
		p := Prediction{Strategy: "least-latency", Arms: []PredictedArm{
			{Name: "today"}, {Name: "equal-load", Against: &PredictedRatio{}},
			{Name: "least-latency", Against: &PredictedRatio{P50: flat, P99: tt.p99, CPU: tt.cpu}},
		}}
		if got := p.Verdict(); got != tt.says {
			t.Errorf("got  %s\nwant %s", got, tt.says)
		}
	}
	saturated := Prediction{Strategy: "equal-load", Arms: []PredictedArm{{Name: "today"}, {Name: "equal-load", Against: &PredictedRatio{}, Saturated: 0.9}}}
	if got, want := saturated.Verdict(), "No prediction: with equal-load weights, too, endpoints are asked for more than they have: queues grow without bound."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAgreementVerdict(t *testing.T) {
	t.Parallel()
	a := Agreement{WithinPercent: 15, Arms: []AgreementOf{
		{Name: "x", Figures: []AgreementFigure{{Name: "p50", Ratio: 1.05, Within: true}, {Name: "p99", Ratio: 0.9, Within: true}}},
	}}
	if got, want := a.Verdict(), "The simulation agrees with what was measured within 15 %: the furthest apart of 2 figures is the p99 of x, at 0.90 times."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a.Arms[0].Figures[1].Ratio, a.Arms[0].Figures[1].Within = 0.7, false
	if got, want := a.Verdict(), "1 of 2 figures are more than 15 % apart; the furthest is the p99 of x, simulated as 0.70 times what was measured."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := (&Agreement{}).Verdict(), "No comparison: nothing was measured."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
