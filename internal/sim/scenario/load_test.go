package scenario

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var about = cmpopts.EquateApprox(1e-9, 1e-12)

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text       string
		want       Load
		impossible bool
	}{
		// 100 requests/s of 5 and 20 ms: 50/s each are 0.25 + 1 of 1 + 1 cores. At best they are
		// served at 200 + 50 requests/s.
		"two unlike": {
			text: with("endpoints: [{kind: a, demand: 5ms}, {kind: b, demand: 20ms}]"),
			want: Load{Rate: 100, Cores: 2, Equal: 1.25, Best: 0.8, Fullest: 1},
		},
		"idling is not for requests": {
			text: with("endpoints: [{demand: 5ms, cores: 2, idle: 0.5}]"),
			want: Load{Rate: 100, Cores: 1.5, Equal: 0.5, Best: 0.5, Fullest: 1. / 3},
		},
		"too much": {
			text:       with("endpoints: [{demand: 15ms}]"),
			want:       Load{Rate: 100, Cores: 1, Equal: 1.5, Best: 1.5, Fullest: 1.5},
			impossible: true,
		},
		"exactly as much as there is": {
			text:       with("endpoints: [{demand: 10ms}]"),
			want:       Load{Rate: 100, Cores: 1, Equal: 1, Best: 1, Fullest: 1},
			impossible: true,
		},
		"the highest step": {
			text: with("load: {steps: [{rate: 10}, {from: 50s, rate: 90}, {from: 60s, rate: 20}]}"),
			want: Load{At: 50, Rate: 90, Cores: 1, Equal: 0.45, Best: 0.45, Fullest: 0.45},
		},
		"a step after the end": {
			text: with("load: {steps: [{rate: 10}, {from: 150s, rate: 90}]}"),
			want: Load{Rate: 10, Cores: 1, Equal: 0.05, Best: 0.05, Fullest: 0.05},
		},
		"when one has left": {
			text: with("endpoints: [{demand: 5ms}, {demand: 5ms, until: 40s}]"),
			want: Load{At: 40, Rate: 100, Cores: 1, Equal: 0.5, Best: 0.5, Fullest: 0.5},
		},
		"before one joins": {
			text: with("endpoints: [{demand: 5ms}, {demand: 5ms, from: 40s}]"),
			want: Load{Rate: 100, Cores: 1, Equal: 0.5, Best: 0.5, Fullest: 0.5},
		},
		"when two changes meet": {
			text: with("changes: [{kind: endpoint, at: 10s, until: 60s, stolen: 0.2}, {kind: endpoint, at: 50s, until: 70s, demand: 1.5}]"),
			want: Load{At: 50, Rate: 100, Cores: 0.8, Equal: 0.75, Best: 0.75, Fullest: 0.9375},
		},
		"when one is down": {
			text: with("endpoints: [{demand: 5ms, count: 2}]", "changes: [{endpoint: endpoint-1, at: 10s, until: 20s, down: true}]"),
			want: Load{At: 10, Rate: 100, Cores: 1, Equal: 0.5, Best: 0.5, Fullest: 0.5},
		},
		// While all refuse, no queue grows.
		"when all are down": {
			text: with("changes: [{kind: endpoint, at: 10s, until: 20s, down: true}]"),
			want: Load{Rate: 100, Cores: 1, Equal: 0.5, Best: 0.5, Fullest: 0.5},
		},
		"nobody ever": {
			text: with("endpoints: [{demand: 5ms, from: 1h}]"),
			want: Load{Rate: 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustParse(t, test.text).Load()
			if diff := cmp.Diff(test.want, got, about); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Impossible() != test.impossible {
				t.Errorf("impossible: %v", got.Impossible())
			}
		})
	}
}

func TestLoadAt(t *testing.T) {
	t.Parallel()
	s := mustParse(t, with("load: {steps: [{rate: 10}, {from: 50s, rate: 90}]}", "changes: [{kind: endpoint, at: 60s, demand: 2}]"))
	for at, equal := range map[float64]float64{0: 0.05, 49: 0.05, 50: 0.45, 60: 0.9, 1000: 0.9} {
		if got := s.LoadAt(at); math.Abs(got.Equal-equal) > 1e-9 || got.At != at {
			t.Errorf("at %g: %+v, want %g cores", at, got, equal)
		}
	}
}

// Bytes follows what is known of sizes; that it is near what a run really takes was measured
// and is not tested, since it depends on when garbage is collected.
func TestBytes(t *testing.T) {
	t.Parallel()
	small := mustParse(t, minimal).Bytes()
	for name, test := range map[string]struct {
		text        string
		least, most int64 // beyond the small one
	}{
		"pairs of proxies and endpoints": {with("proxies: 1000", "endpoints: [{demand: 5ms, count: 1000}]", "arms: [{name: a, policy: least-request}]"), 8e6, 64e6},
		"requests that pile up":          {with("load: {rate: 10000}"), 150 * 9800 * 100, 150 * 9800 * 400},
		"a loop":                         {with("endpoints: [{demand: 5ms, count: 1000}]", "arms: [{name: a, policy: random, weights: equal-load}]"), 4e6, 64e6},
		"the arm that takes most of all": {with("arms: [{name: a, policy: random}, {name: b, policy: random, weights: equal-load}, {name: c, policy: random}]"), 1e3, 1e5},
		"a timeout that is waited for":   {with("timeout: 10s", "load: {rate: 150}"), 150 * 10 * 16, 150 * 10 * 100},
		"endpoints, whatever the policy": {with("endpoints: [{demand: 5ms, count: 10000}]"), 25e6, 100e6},
	} {
		if got := mustParse(t, test.text).Bytes() - small; got < test.least || got > test.most {
			t.Errorf("%s: %d bytes more, want %d..%d", name, got, test.least, test.most)
		}
	}
}
