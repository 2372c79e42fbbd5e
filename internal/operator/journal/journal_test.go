package journal_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

var (
	shop  = types.NamespacedName{Namespace: "shop", Name: "cart"}
	start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
)

// decision is one of the policy shop, n intervals after the start.
func decision(n int, sampled bool, weights map[string]uint32) journal.Entry {
	e := journal.Entry{Policy: shop, Mode: "Enforce", At: start.Add(time.Duration(n) * 30 * time.Second), Sampled: sampled}
	for i := range 1000 { // in order, whatever the map's
		address := fmt.Sprintf("10.0.0.%d", i)
		if w, ok := weights[address]; ok {
			e.Endpoints = append(e.Endpoints, journal.Endpoint{
				Pod: fmt.Sprintf("cart-%d", i), Verdict: balance.Verdict{Address: address, Weight: w},
			})
		}
	}
	return e
}

func lines(h journal.History) map[string][]uint32 {
	all := map[string][]uint32{}
	for _, l := range h.Lines {
		all[l.Address] = l.Weights
	}
	return all
}

func TestHistoryFollowsEndpoints(t *testing.T) {
	t.Parallel()
	j := journal.New()
	held := decision(1, true, map[string]uint32{"10.0.0.1": 10, "10.0.0.2": 30, "10.0.0.3": 5})
	held.Hold = balance.Hold{Reason: balance.DeadBand, Message: "no share would change"}
	recommended := decision(4, false, map[string]uint32{"10.0.0.2": 30, "10.0.0.3": 70000})
	recommended.Mode = "Recommend"
	for _, e := range []journal.Entry{
		decision(0, true, map[string]uint32{"10.0.0.1": 10, "10.0.0.2": 30}),
		held,
		held, // once more, for its conditions: no point
		decision(2, false, map[string]uint32{"10.0.0.1": 10, "10.0.0.2": 30, "10.0.0.3": 5}), // nothing changed: no point
		decision(3, false, map[string]uint32{"10.0.0.2": 30, "10.0.0.3": 70000}),
		recommended,
		decision(5, true, nil),
	} {
		j.Record(e)
	}
	got := j.History(shop)
	wantPoints := []journal.Point{
		{At: start, Enforced: true, Total: 40},
		{At: start.Add(30 * time.Second), Enforced: true, Hold: balance.DeadBand, Total: 45},
		{At: start.Add(90 * time.Second), Enforced: true, Total: 70030},
		{At: start.Add(120 * time.Second), Total: 70030},
		{At: start.Add(150 * time.Second), Enforced: true},
	}
	if diff := cmp.Diff(wantPoints, got.Points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	wantLines := map[string][]uint32{
		"10.0.0.1": {10, 10, 0, 0, 0},
		"10.0.0.2": {30, 30, 30, 30, 0},
		"10.0.0.3": {0, 5, 70000, 70000, 0},
	}
	if diff := cmp.Diff(wantLines, lines(got)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A line goes when the last decision with its endpoint is no longer remembered,
// and one that widened keeps what it held before.
func TestHistoryForgets(t *testing.T) {
	t.Parallel()
	j := journal.New()
	j.Record(decision(0, true, map[string]uint32{"10.0.0.1": 1, "10.0.0.2": 1}))
	for n := 1; n < journal.HistoryLength; n++ {
		j.Record(decision(n, true, map[string]uint32{"10.0.0.2": uint32(n + 1)}))
	}
	h := j.History(shop)
	if len(h.Points) != journal.HistoryLength || len(h.Lines) != 2 || h.Lines[0].Weights[0] != 1 {
		t.Fatalf("%d points, lines %v", len(h.Points), lines(h))
	}
	j.Record(decision(journal.HistoryLength, true, map[string]uint32{"10.0.0.2": math.MaxUint32}))
	h = j.History(shop)
	if len(h.Points) != journal.HistoryLength || !h.Points[0].At.Equal(start.Add(30*time.Second)) {
		t.Errorf("%d points from %s, want %d without the first", len(h.Points), h.Points[0].At, journal.HistoryLength)
	}
	want := make([]uint32, journal.HistoryLength)
	for i := range want {
		want[i] = uint32(i + 2)
	}
	want[journal.HistoryLength-1] = math.MaxUint32
	if diff := cmp.Diff(map[string][]uint32{"10.0.0.2": want}, lines(h)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A service larger than the bound, all of whose endpoints are replaced again and
// again, stays within it and loses those first that left.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	j := journal.New()
	crowd := func(first, n int) journal.Entry {
		e := journal.Entry{Policy: shop, Sampled: true, At: start}
		for i := range n {
			e.Endpoints = append(e.Endpoints, journal.Endpoint{Verdict: balance.Verdict{Address: fmt.Sprint(first + i), Weight: 20}})
		}
		return e
	}
	j.Record(crowd(0, 100))
	j.Record(crowd(1000, 300))
	j.Record(crowd(2000, 200))
	got := lines(j.History(shop))
	if len(got) != journal.HistoryEndpoints {
		t.Errorf("%d lines, want %d", len(got), journal.HistoryEndpoints)
	}
	if got["0"] != nil || got["1299"] == nil || got["2199"] == nil {
		t.Error("endpoints did not go in the order in which they left")
	}
	j.Record(crowd(5000, 3*journal.HistoryEndpoints))
	h := j.History(shop)
	if len(h.Lines) != journal.HistoryEndpoints {
		t.Errorf("%d lines, want %d", len(h.Lines), journal.HistoryEndpoints)
	}
	if got, want := h.Points[3].Total, uint64(3*journal.HistoryEndpoints*20); got != want {
		t.Errorf("total %d, want %d: endpoints without a line count", got, want)
	}
	for _, l := range h.Lines {
		if l.Weights[3] == 0 {
			t.Fatalf("%s has a line but left long ago", l.Address)
		}
	}
}

func TestNoDecisionIsNoPoint(t *testing.T) {
	t.Parallel()
	j := journal.New()
	j.Record(journal.Entry{Policy: shop, Mode: "Recommend"})
	if h := j.History(shop); len(h.Points) > 0 {
		t.Errorf("points %v of what was never decided", h.Points)
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	j := journal.New()
	other := types.NamespacedName{Namespace: "a", Name: "z"}
	third := types.NamespacedName{Namespace: "shop", Name: "a"}
	sampled, followed := decision(1, true, map[string]uint32{"10.0.0.1": 1}), decision(2, false, map[string]uint32{"10.0.0.1": 1})
	j.Record(sampled)
	j.Record(followed)
	j.Record(journal.Entry{Policy: third, At: start})
	j.Record(journal.Entry{Policy: other, At: start})

	want := followed
	want.DecidedAt = sampled.At
	all := []journal.Entry{{Policy: other, At: start}, {Policy: third, At: start}, want}
	if diff := cmp.Diff(all, j.All()); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if got, ok := j.Latest(shop); !ok || !cmp.Equal(want, got) {
		t.Errorf("latest (-want +got):\n%s", cmp.Diff(want, got))
	}
	j.Forget(shop)
	if got, ok := j.Latest(shop); ok {
		t.Errorf("after Forget there is %v", got)
	}
	if diff := cmp.Diff(journal.History{}, j.History(shop), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("history after Forget (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all[:2], j.All()); diff != "" {
		t.Errorf("all after Forget (-want +got):\n%s", diff)
	}
	j.Reset()
	if got := j.All(); len(got) > 0 {
		t.Errorf("after Reset there are %v", got)
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	stale := balance.Hold{Reason: balance.Stale, Message: "no sample"}
	for _, tt := range []struct {
		name      string
		condition journal.Condition
		want      balance.Hold
	}{
		{"no condition", journal.Condition{}, stale},
		{"suspended", journal.Condition{Status: "True", Reason: "Suspended", Message: "m"}, balance.Hold{Reason: journal.Suspended, Message: "m"}},
		{"free", journal.Condition{Status: "False", Reason: "Free", Message: "m"}, stale},
		{"unknown", journal.Condition{Status: "Unknown", Reason: "NotReady", Message: "m"}, stale},
	} {
		e := journal.Entry{Hold: stale, Conditions: map[string]journal.Condition{"Held": tt.condition}}
		if got := e.Held(); got != tt.want {
			t.Errorf("%s: held by %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What was read stays as it was while others write; the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	j := journal.New()
	j.Record(decision(0, true, map[string]uint32{"10.0.0.1": 20}))
	before := j.History(shop)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			own := types.NamespacedName{Namespace: "own", Name: fmt.Sprint(worker)}
			for n := range 200 {
				e := decision(n, n%3 > 0, map[string]uint32{"10.0.0.1": uint32(n + 1), fmt.Sprintf("10.0.0.%d", n): 5})
				j.Record(e)
				e.Policy = own
				j.Record(e)
				for _, e := range j.All() {
					if h := j.History(e.Policy); len(h.Lines) > 0 && len(h.Lines[0].Weights) != len(h.Points) {
						t.Errorf("%d weights for %d points", len(h.Lines[0].Weights), len(h.Points))
					}
				}
				j.Forget(own)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(map[string][]uint32{"10.0.0.1": {20}}, lines(before)); diff != "" {
		t.Errorf("what was read has changed (-want +got):\n%s", diff)
	}
	if got := len(j.All()); got != 1 {
		t.Errorf("%d policies, want 1", got)
	}
}
