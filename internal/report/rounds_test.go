package report

import (
	"math"
	"testing"
)

func TestSettledAfter(t *testing.T) {
	for name, test := range map[string]struct {
		shares [][]float64
		want   int
		ok     bool
	}{
		"at once":      {[][]float64{{0.7, 0.3}, {0.71, 0.29}, {0.7, 0.3}}, 1, true},
		"after two":    {[][]float64{{0.5, 0.5}, {0.6, 0.4}, {0.8, 0.2}, {0.79, 0.21}, {0.8, 0.2}, {0.8, 0.2}}, 3, true},
		"never":        {[][]float64{{0.5, 0.5}, {0.9, 0.1}, {0.1, 0.9}, {0.9, 0.1}, {0.1, 0.9}, {0.9, 0.1}}, 0, false},
		"late relapse": {[][]float64{{0.8, 0.2}, {0.8, 0.2}, {0.5, 0.5}, {0.8, 0.2}, {0.8, 0.2}, {0.8, 0.2}}, 4, true},
		"too few":      {[][]float64{{0.5, 0.5}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := SettledAfter(test.shares)
			if ok != test.ok || ok && got != test.want {
				t.Errorf("got %d, %v; want %d, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// Figures that can be checked by hand.
func TestConcludeAndCompare(t *testing.T) {
	t.Parallel()
	round := func(p50, p99, cpu float64, requests, errors, left uint64, saturated int) Round {
		return Round{Requests: requests, Errors: errors, P50: p50, P90: p50, P95: p50, P99: p99, P999: p99, CPU: cpu,
			Simulated: Simulated{Mean: p50 + 1, Unfinished: left, Grows: saturated > 0, Saturated: saturated}}
	}
	e := Experiment{Arms: []Arm{
		{Name: "first", Rounds: []Round{round(10, 100, 4, 100, 1, 0, 0), round(30, 300, 6, 110, 0, 2, 3), round(20, 200, 5, 120, 2, 0, 1), round(0, 0, 5, 9, 9, 0, 0)}},
		{Name: "half", Rounds: []Round{round(5, 25, 4, 1, 0, 0, 0), round(15, 150, 6, 1, 0, 0, 0), round(10, 40, 5, 1, 0, 0, 0), round(7, 7, 7, 1, 0, 0, 0)}},
		{Name: "dead", Rounds: []Round{{}, {}, {}, {}}},
	}}
	for i := range e.Arms {
		e.Arms[i].Conclude()
	}
	e.Compare()
	first := e.Arms[0]
	near(t, "p50", first.P50, 15)
	near(t, "p99", first.P99, 150)
	near(t, "CPU", first.CPU, 5)
	near(t, "mean", first.Mean, 16)
	if first.Requests != 339 || first.Errors != 12 || first.Unfinished != 2 || !first.Grows || first.Saturated != 3 {
		t.Errorf("%d requests, %d errors, %d unfinished, grows %v, %d saturated", first.Requests, first.Errors, first.Unfinished, first.Grows, first.Saturated)
	}
	// The first arm answered nothing in the last round, which says nothing of the others.
	ratio := e.Ratios["half/first"]
	near(t, "p50 ratio", ratio.P50, 0.5)
	near(t, "p99 ratio", ratio.P99, 0.25)
	near(t, "CPU ratio", ratio.CPU, 1)
	if _, ok := e.Ratios["first/first"]; ok {
		t.Error("the first arm is compared with itself")
	}
}

func TestCurve(t *testing.T) {
	t.Parallel()
	points := Curve(1000, func(q float64) float64 { return 100 * q })
	if len(points) != 61 {
		t.Fatalf("%d points of 1,000 requests, want 61: three nines and no more", len(points))
	}
	for i, p := range points {
		near(t, "latency", p.Latency, 100*p.Quantile)
		if i > 0 && p.Quantile <= points[i-1].Quantile {
			t.Errorf("quantile %g follows %g", p.Quantile, points[i-1].Quantile)
		}
	}
	if points := Curve(0, nil); points != nil {
		t.Errorf("a curve of nothing: %v", points)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{0: nil, 3: {3}, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		near(t, "median", Median(values), want)
	}
}
