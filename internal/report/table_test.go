package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumber(t *testing.T) {
	tests := map[float64]string{
		0: "0.00", 4.6: "4.60", 9.996: "10.0", 31.24: "31.2", 99.96: "100", 217.4: "217",
		1204: "1,204", 1234567: "1,234,567", -1204: "-1,204", -100: "-100",
		math.Inf(1): Missing, math.NaN(): Missing,
	}
	for v, want := range tests {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}

func row(t *testing.T, rows []Row, name string) []Cell {
	t.Helper()
	for _, row := range rows {
		if row.Name == name {
			return row.Cells
		}
	}
	t.Fatalf("there is no row %q", name)
	return nil
}

func TestFigures(t *testing.T) {
	e := Experiment{Arms: []Arm{
		{Name: "a", Requests: 1000, P99: 31.24, CPU: 2,
			Rounds:    []Round{{P99: 33.04}, {P99: 31.24}, {P99: 29.76}, {P99: 0}},
			Endpoints: []Endpoint{{CPU: 0.5, Requests: 28.4}, {CPU: 1.25, Requests: 192.3}, {CPU: math.NaN(), Requests: -1}}},
		{Name: "b", Requests: 1000, Errors: 3, P99: 15, Rounds: []Round{{P99: 15}}, Endpoints: []Endpoint{{Requests: 100}}},
		{Name: "empty"},
	}}
	tests := map[string][]Cell{
		"p99":                     {{Value: "31.2", Spread: "29.8–33.0"}, {Value: "15.0"}, {Value: Missing}},
		"p50":                     {{Value: Missing}, {Value: Missing}, {Value: Missing}},
		"total CPU":               {{Value: "2.00"}, {Value: Missing}, {Value: Missing}},
		"CPU per endpoint":        {{Value: "0.50..1.25"}, {Value: Missing}, {Value: Missing}},
		"requests/s per endpoint": {{Value: "28..192"}, {Value: "100..100"}, {Value: Missing}},
		"errors":                  {{Value: "0"}, {Value: "3", Trend: Worse}, {Value: Missing}},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, row(t, e.Figures(), name)); diff != "" {
			t.Errorf("row %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRatioRows(t *testing.T) {
	e := Experiment{
		Arms: []Arm{{Name: "a", Requests: 1}, {Name: "b", Requests: 1}, {Name: "c", Requests: 1}, {Name: "d"}},
		Ratios: map[string]Ratio{
			"b/a": {P50: 1.01, P99: 0.414, CPU: 1.3}, "c/a": {P99: math.NaN()}, "d/a": {P99: 0.5},
		},
	}
	tests := map[string][]Cell{
		"p50":       {{Value: "1"}, {Value: "1.01"}, {Value: Missing}, {Value: Missing}},
		"p99":       {{Value: "1"}, {Value: "0.41", Trend: Better}, {Value: Missing}, {Value: Missing}},
		"total CPU": {{Value: "1"}, {Value: "1.30", Trend: Worse}, {Value: Missing}, {Value: Missing}},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, row(t, e.RatioRows(), name)); diff != "" {
			t.Errorf("row %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSettling(t *testing.T) {
	one, three := 1, 3
	loop := []WeightsAt{{At: 0}, {At: 5}}
	e := Experiment{
		Settings: Settings{IntervalS: 5},
		Arms: []Arm{
			{Name: "least-request"},
			{Name: "equal-load", Weights: loop, SettledAfter: &one},
			{Name: "least-latency", Weights: loop, SettledAfter: &three},
			{Name: "restless", Weights: loop},
		},
		Disturbance: &Disturbance{Address: "127.0.1.4:8080", Factor: 2, SettledAfter: map[string]int{"least-latency": 2, "restless": -1}},
	}
	want := []string{
		"equal-load settled after 1 control interval (5 s).",
		"least-latency settled after 3 control intervals (15 s).",
		"restless did not settle within its 2 decisions.",
		"After a request on 127.0.1.4:8080 came to cost 2 times as much: least-latency settled again after 2 control intervals (10 s); restless did not settle again.",
	}
	if diff := cmp.Diff(want, e.Settling()); diff != "" {
		t.Errorf("settling (-want +got):\n%s", diff)
	}
}

func TestEndpointRows(t *testing.T) {
	before := &Arm{Requests: 1, CPU: 1, Endpoints: []Endpoint{{Address: "b", Requests: 100, CPU: 0.7, P99: 46.8}}}
	after := &Arm{Requests: 1, Endpoints: []Endpoint{
		{Address: "a", Demand: "fib(25)", Requests: 0, Weight: 14215, Why: "new"},
		{Address: "b", Requests: 28.1, CPU: 0.2, P99: 38.4},
	}}
	want := []EndpointRow{
		{Address: "a", Demand: "fib(25)", Weight: "14,215", Why: "new",
			Requests: BeforeAfter{Missing, "0.00"}, CPU: BeforeAfter{Missing, Missing}, P99: BeforeAfter{Missing, Missing}},
		{Address: "b", Weight: Missing,
			Requests: BeforeAfter{"100", "28.1"}, CPU: BeforeAfter{"0.70", Missing}, P99: BeforeAfter{"46.8", "38.4"}},
	}
	if diff := cmp.Diff(want, EndpointRows(before, after)); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

func TestCommand(t *testing.T) {
	e := Experiment{Scenario: "fibonacci", Arms: []Arm{{Name: "least-request"}, {Name: "equal-load"}}, Settings: Settings{EndpointKind: "nginx", Store: "victoria-metrics", Proxies: 16,
		RatePerS: 150, Rounds: 3, MeasureS: 12.5, IntervalS: 5, Seed: 7}, Disturbance: &Disturbance{}}
	want := "taper lab balance --endpoints nginx --store victoria-metrics --arms least-request,equal-load --proxies 16 --rate 150 --rounds 3 --measure 12.5s --interval 5s --seed 7 --disturb"
	if got := e.Command(); got != want {
		t.Errorf("command\n got %s\nwant %s", got, want)
	}
	if got := (&Experiment{Scenario: "article"}).Command(); got != "" {
		t.Errorf("command of another scenario is %q, want none", got)
	}
}
