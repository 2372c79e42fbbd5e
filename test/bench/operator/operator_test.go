package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/test/cluster"
)

func TestPlansOutOfBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-policies=0", "-endpoints=3", "-endpoints=1001", "-interval=1s", "-for=0s", "-changes=0", "-cycles=0", "stray",
	} {
		if _, err := parse([]string{args}); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	if _, err := parse(nil); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// A write counts for a change only when it shows the change: the one before, or a
// change of weights, may be written in between.
func TestAChangeIsMatchedByContent(t *testing.T) {
	t.Parallel()
	f := newFollower()
	entry := func(addresses ...string) (all []serviceentry.WorkloadEntry) {
		for _, a := range addresses {
			all = append(all, serviceentry.WorkloadEntry{Address: a})
		}
		return all
	}
	c := &change{address: "b", joins: false}
	if !f.expect("ns/s", c) {
		t.Fatal("the first change is not expected")
	}
	if f.expect("ns/s", &change{address: "a"}) {
		t.Error("a second change is expected while one is pending")
	}
	at := func(ms int) time.Time { return c.sent.Add(time.Duration(ms) * time.Millisecond) }
	f.sliceSeen("ns/other", at(1))
	f.sliceSeen("ns/s", at(10))
	f.sliceSeen("ns/s", at(20))
	f.entrySeen("ns/s", entry("a", "b"), at(30))
	if done, pending := f.left(); done != 0 || pending != 1 {
		t.Errorf("%d done and %d pending by a write without the change", done, pending)
	}
	f.entrySeen("ns/s", entry("a"), at(45))
	if all := f.latencies(); len(all) != 1 || all[0] != 35*time.Millisecond {
		t.Errorf("latencies are %v, want 35ms", all)
	}
	if err := f.complete(1, 1); err != nil {
		t.Error(err)
	}
	if err := f.complete(1, 2); err == nil {
		t.Error("an entry that lacks an endpoint is complete")
	}
}

// The two watches are two connections: the write may be seen first.
func TestAWriteSeenBeforeItsEventIsNotFree(t *testing.T) {
	t.Parallel()
	f := newFollower()
	c := &change{address: "a", joins: true}
	f.expect("ns/s", c)
	f.entrySeen("ns/s", []serviceentry.WorkloadEntry{{Address: "a"}}, c.sent.Add(50*time.Millisecond))
	if all := f.latencies(); len(all) != 1 || all[0] != 50*time.Millisecond {
		t.Errorf("latencies are %v, want 50ms, from when it was sent", all)
	}
}

func TestEndpointsComeBack(t *testing.T) {
	t.Parallel()
	s := newWorld(plan{policies: 1, endpoints: 4, namespaces: 1}).services[0]
	s.slice = cluster.EndpointSlice(s.object, discoveryv1.AddressTypeIPv4, s.pods...)
	ready := func() (n int) {
		for _, e := range s.slice.Endpoints {
			if *e.Conditions.Ready {
				n++
			}
		}
		return n
	}
	for round := range 3 {
		for i, want := range []int{3, 2, 3, 4} {
			next, c := s.next()
			s.slice = next
			s.changes++
			if got := ready(); got != want || c.joins != (i >= 2) {
				t.Errorf("round %d, change %d: %d are ready, want %d; joins is %t", round, i, got, want, c.joins)
			}
		}
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1)*time.Millisecond)
	}
	if got, want := summarize(sorted, 0), (latency{200, 0.100, 0.198, 0.200}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := summarize(sorted[:100], 2); !math.IsInf(float64(got.P99Seconds), 1) || got.Changes != 102 {
		t.Errorf("two of 102 were lost: got %v, want an infinite p99", got)
	}
	if got := summarize(nil, 0); !math.IsNaN(float64(got.P99Seconds)) {
		t.Errorf("without changes: got %v", got)
	}
}

func TestQuantileOfAHistogram(t *testing.T) {
	t.Parallel()
	before := histogram{{0.1, 10}, {1, 10}, {math.Inf(1), 10}}
	after := histogram{{0.1, 100}, {1, 109}, {math.Inf(1), 110}}
	since := after.since(before)
	for q, want := range map[float64]float64{0.5: 0.1, 0.9: 0.1, 0.99: 1, 1: math.Inf(1)} {
		if got := since.quantile(q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := before.since(before).quantile(0.99); !math.IsNaN(got) {
		t.Errorf("of nothing: %g", got)
	}
}

func TestWhatIsUnknownDoesNotHold(t *testing.T) {
	t.Parallel()
	if most("x", math.NaN(), 1, "s").Held || least("x", math.NaN(), 1, "s").Held || most("x", 1.01, 1, "s").Held {
		t.Error("a bound is held that is not")
	}
	if !most("x", 0, 0, "").Held || !strings.HasSuffix(most("x", 2, 1, "s").line(), "MISSED") {
		t.Error("a bound of 0 is missed by 0, or a missed bound is not told")
	}
	r := &result{plan: plan{changes: 100}, Latency: summarize(nil, 3), OwnP99Seconds: number(math.NaN())}
	var out strings.Builder
	if err := r.writeJSON(&out); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("infinite and unknown numbers: %v, %s", err, out.String())
	}
}

func TestFieldOfProcStatus(t *testing.T) {
	t.Parallel()
	const status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t    1024 kB\n"
	if got, err := field(status, "VmRSS:"); err != nil || got != 1<<20 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := field(status, "VmSwap:"); err == nil {
		t.Error("a field that is not there has a number")
	}
}
