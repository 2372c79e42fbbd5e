package published

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

var now = time.Unix(1000, 0)

// input has endpoints a, b, c, … with CPU, in cores; a negative one is missing.
func input(current model.Weights, cpu ...float64) balance.Input {
	in := balance.Input{Now: now, Current: current, Snapshot: model.Snapshot{}}
	for i, used := range cpu {
		address := string(rune('a' + i))
		in.Endpoints = append(in.Endpoints, model.Endpoint{Address: address, Capacity: 2})
		if used >= 0 {
			in.Snapshot[address] = model.Sample{CPU: model.Reading{Value: used, At: now.Add(-time.Second)}}
		}
	}
	return in
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   balance.Input
		want model.Weights
		hold balance.Reason
	}{
		"the first time all are in the middle": {
			in: input(nil, 1, 1, 1), want: model.Weights{"a": 350, "b": 350, "c": 350},
		},
		// Mean 1: distances are -60 %, 0 and +60 %. 350 × 1.006 is 352.1, 350 × 0.994 is 347.9.
		"a hundredth of the distance, cut off": {
			in: input(nil, 0.4, 1, 1.6), want: model.Weights{"a": 352, "b": 350, "c": 347},
		},
		// Mean 1: 4 % is left alone, 8 % upwards moves by 0.28, which is cut off.
		"near enough is left alone": {
			in: input(nil, 0.92, 1.04, 1.04, 1), want: model.Weights{"a": 350, "b": 350, "c": 350, "d": 350},
		},
		// Mean 1; 5 % downwards is cut off to 1 less.
		"the least that falls": {
			in: input(nil, 0.975, 0.975, 1.05), want: model.Weights{"a": 350, "b": 350, "c": 349},
		},
		// Moved, the weights are 603.6 and 99.4 before the limits.
		"the limits": {
			in:   input(model.Weights{"a": 600, "b": 350, "c": 100}, 0.4, 1, 1.6),
			want: model.Weights{"a": 600, "b": 350, "c": 100},
		},
		// The median is 200: all are scaled by 1.75, and may leave the limits.
		"the median becomes the middle": {
			in:   input(model.Weights{"a": 600, "b": 200, "c": 100}, 1, 1, 1),
			want: model.Weights{"a": 1050, "b": 350, "c": 175},
		},
		"the median of two is their mean": {
			in:   input(model.Weights{"a": 300, "b": 200}, 1, 1),
			want: model.Weights{"a": 420, "b": 280},
		},
		// The lighter half of 100, 300, 400, 600 has a mean of 200; the median of all is 300.
		"a new one gets the mean of the lighter half": {
			in:   input(model.Weights{"a": 100, "b": 300, "c": 400, "d": 600}, 1, 1, 1, 1, 1),
			want: model.Weights{"a": 116, "b": 350, "c": 466, "d": 700, "e": 233},
		},
		"one that left is forgotten": {
			in: input(model.Weights{"a": 350, "z": 600}, 1), want: model.Weights{"a": 350},
		},
		// The mean is that of the two that were measured, 1.
		"what is missing keeps its weight": {
			in:   input(model.Weights{"a": 350, "b": 500, "c": 350}, 0.4, -1, 1.6),
			want: model.Weights{"a": 353, "b": 500, "c": 347}, // 352 and 347 before: their median is 349
		},
		"a CPU of 0 is missing": {
			in: input(model.Weights{"a": 350, "b": 500}, 1, 0), want: model.Weights{"a": 350, "b": 500},
		},
		"nothing measured": {
			in: input(model.Weights{"a": 600, "b": 100}, -1, -1), want: model.Weights{"a": 600, "b": 100}, hold: balance.Stale,
		},
		"nobody": {in: input(model.Weights{"a": 600}), want: model.Weights{}, hold: balance.NoEndpoints},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(test.in)
			if diff := cmp.Diff(test.want, d.Weights); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
			if d.Hold.Reason != test.hold {
				t.Errorf("held %q, want %q", d.Hold.Reason, test.hold)
			}
			checkVerdicts(t, test.in, d)
		})
	}
}

func checkVerdicts(t *testing.T, in balance.Input, d balance.Decision) {
	t.Helper()
	if len(d.Verdicts) != len(in.Endpoints) {
		t.Fatalf("%d verdicts about %d endpoints", len(d.Verdicts), len(in.Endpoints))
	}
	for i, v := range d.Verdicts {
		if v.Address != in.Endpoints[i].Address || v.Weight != d.Weights[v.Address] || v.Reason == "" {
			t.Errorf("verdict %d is %+v", i, v)
		}
	}
}

func TestMembershipAloneMovesNoWeight(t *testing.T) {
	t.Parallel()
	in := input(model.Weights{"a": 400, "b": 300}, -1, -1, -1)
	in.Snapshot = nil
	d := Decide(in)
	if diff := cmp.Diff(model.Weights{"a": 400, "b": 300, "c": 300}, d.Weights); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	if d.Hold.Reason != balance.MembershipOnly {
		t.Errorf("held %q", d.Hold.Reason)
	}
}

func TestWeightsBecomeEqualFiveMinutesAfterTheLastCPU(t *testing.T) {
	t.Parallel()
	in := input(model.Weights{"a": 600, "b": 100}, 1, 1)
	d := Decide(in)
	in.Snapshot, in.Memory, in.Current = model.Snapshot{}, d.Memory, d.Weights
	in.Now = now.Add(forgotten - time.Second)
	if d = Decide(in); d.Hold.Reason != balance.Stale || d.Weights["a"] == d.Weights["b"] {
		t.Errorf("before: held %q with %v", d.Hold.Reason, d.Weights)
	}
	in.Now = now.Add(forgotten)
	if d = Decide(in); d.Hold.Reason != balance.Released || d.Weights["a"] != middle || d.Weights["b"] != middle {
		t.Errorf("after: held %q with %v", d.Hold.Reason, d.Weights)
	}
}

func TestTheAgeOfASampleDoesNotMatter(t *testing.T) {
	t.Parallel()
	in := input(nil, 0.4, 1.6)
	fresh := Decide(in)
	in.Now = in.Now.Add(24 * time.Hour)
	old := Decide(in)
	if diff := cmp.Diff(fresh.Weights, old.Weights); diff != "" || fresh.Weights["a"] == fresh.Weights["b"] {
		t.Errorf("fresh %v, old %v", fresh.Weights, old.Weights)
	}
}

func TestInputIsNotChanged(t *testing.T) {
	t.Parallel()
	in := input(model.Weights{"a": 600, "b": 200, "c": 100}, 0.5, 1, 2)
	Decide(in)
	if diff := cmp.Diff(model.Weights{"a": 600, "b": 200, "c": 100}, in.Current); diff != "" {
		t.Errorf("current weights (-before +after):\n%s", diff)
	}
}
