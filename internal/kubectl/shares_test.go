package kubectl

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
)

// listing is a policy with endpoints of these weights, in force and proposed.
func listing(mode v1alpha1.Mode, count int32, weights ...[2]int64) *v1alpha1.BalancePolicy {
	p := policy(mode)
	p.Status.EndpointCount = count
	for i, w := range weights {
		p.Status.Endpoints = append(p.Status.Endpoints, v1alpha1.EndpointStatus{Pod: fmt.Sprintf("fib-%d", i), Weight: w[0], ProposedWeight: w[1], Share: "0.25"})
	}
	return p
}

const unknown = -1 // a share that is not known

func TestShares(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name              string
		policy            *v1alpha1.BalancePolicy
		inForce, proposed []float64
	}{
		{"in force", listing(v1alpha1.Enforce, 2, [2]int64{30, 30}, [2]int64{10, 10}), []float64{0.75, 0.25}, []float64{0.75, 0.25}},
		{"none was given one", listing(v1alpha1.Recommend, 2, [2]int64{0, 30}, [2]int64{0, 10}), []float64{0.5, 0.5}, []float64{0.75, 0.25}},
		{"one joined and has weight 1 from the mesh", listing(v1alpha1.Enforce, 2, [2]int64{19, 15}, [2]int64{0, 5}), []float64{0.95, 0.05}, []float64{0.75, 0.25}},
		{"nothing was decided", listing(v1alpha1.Recommend, 2, [2]int64{0, 0}, [2]int64{0, 0}), []float64{0.5, 0.5}, []float64{unknown, unknown}},
		{"cut list, none was given one", listing(v1alpha1.Recommend, 4, [2]int64{0, 30}), []float64{0.25}, []float64{0.25}},
		{"cut list", listing(v1alpha1.Enforce, 4, [2]int64{20, 30}), []float64{unknown}, []float64{0.25}},
		{"count of an old operator", listing(v1alpha1.Enforce, 0, [2]int64{30, 30}, [2]int64{10, 10}), []float64{0.75, 0.25}, []float64{0.75, 0.25}},
		{"weights that cannot be", listing(v1alpha1.Enforce, 2, [2]int64{-5, -5}, [2]int64{1, 1}), []float64{0.5, 0.5}, []float64{unknown, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i, e := range endpointViews(tt.policy, now) {
				for _, share := range []struct {
					name string
					got  *float64
					want float64
				}{{"share", e.Share, tt.inForce[i]}, {"proposed share", e.ProposedShare, tt.proposed[i]}} {
					got := float64(unknown)
					if share.got != nil {
						got = *share.got
					}
					if math.Abs(got-share.want) > 1e-12 {
						t.Errorf("%s of %s is %v, want %v", share.name, e.Pod, got, share.want)
					}
				}
			}
		})
	}
}

// An age grows with the time since the status was written; it is unknown without
// that time, and not negative when clocks differ.
func TestSampleAge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name              string
		observed, sampled *time.Duration
		fresh             string
		reason            string
		want              string
	}{
		{"grows", new(10 * time.Minute), new(time.Minute), "False", "Balanced", "11m ago"},
		{"fresh", new(10 * time.Minute), new(time.Minute), "True", "Balanced", "fresh"},
		{"stale among fresh ones", new(10 * time.Minute), new(time.Minute), "True", "StaleSample", "11m ago"},
		{"never sampled", new(10 * time.Minute), nil, "False", "Missing", unknownText},
		{"not observed", nil, new(time.Minute), "False", "Balanced", unknownText},
		{"clock behind", new(-10 * time.Minute), new(time.Minute), "False", "Balanced", "0s ago"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := policy(v1alpha1.Enforce, condition(v1alpha1.ConditionMetricsFresh, tt.fresh, "", 0))
			p.Status.Endpoints = []v1alpha1.EndpointStatus{{Pod: "fib-0", Reason: tt.reason}}
			if tt.observed != nil {
				p.Status.ObservedAt = new(before(*tt.observed))
			}
			if tt.sampled != nil {
				p.Status.Endpoints[0].SampleAge = &metav1.Duration{Duration: *tt.sampled}
			}
			if got := endpointViews(p, now)[0].sampled(); got != tt.want {
				t.Errorf("sampled %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0.125": "12.5 %", "0.0125": "1.25 %", "0": "0.00 %", "1": "100.0 %", "1.5": "150.0 %",
		"": unknownText, "NaN": unknownText, "Inf": unknownText, "a lot": unknownText,
	} {
		if got := percent(number(text)); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestDiffOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		policy  *v1alpha1.BalancePolicy
		changes []string
		moved   float64
	}{
		{"nothing", listing(v1alpha1.Enforce, 2, [2]int64{30, 30}, [2]int64{10, 10}), nil, 0},
		{"equal shares, whatever the scale", listing(v1alpha1.Recommend, 2, [2]int64{0, 20}, [2]int64{0, 20}), nil, 0},
		{"most changed first", listing(v1alpha1.Recommend, 4, [2]int64{0, 20}, [2]int64{0, 30}, [2]int64{0, 5}, [2]int64{0, 25}), []string{"fib-2", "fib-1", "fib-3"}, 0.1875},
		{"nothing was decided", listing(v1alpha1.Recommend, 2, [2]int64{0, 0}, [2]int64{0, 0}), nil, 0},
		{"cut list, in the status's decimals", listing(v1alpha1.Recommend, 4, [2]int64{0, 20}), nil, unknown},
		{"cut list, weights", listing(v1alpha1.Enforce, 4, [2]int64{20, 20}, [2]int64{20, 30}), []string{"fib-1"}, unknown},
		{"no status", &v1alpha1.BalancePolicy{}, nil, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := diffOf(tt.policy, now)
			var got []string
			for _, c := range d.Changes {
				got = append(got, c.Pod)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.changes) || d.Differs != (len(tt.changes) > 0) {
				t.Errorf("changes %v (differs: %v), want %v", got, d.Differs, tt.changes)
			}
			moved := float64(unknown)
			if d.MovedShare != nil {
				moved = *d.MovedShare
			}
			if math.Abs(moved-tt.moved) > 1e-12 {
				t.Errorf("%v moved, want %v", moved, tt.moved)
			}
		})
	}
}
