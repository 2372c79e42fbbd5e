package operator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source"
)

// fakeSource counts what it is asked, and may hang or fail.
type fakeSource struct {
	mu    sync.Mutex
	asked [][]model.Endpoint
	at    []time.Time
	err   error
	hang  bool
	slow  time.Duration
	rail  float64
}

func (f *fakeSource) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	f.mu.Lock()
	f.asked, f.at = append(f.asked, endpoints), append(f.at, time.Now())
	hang, err := f.hang, f.err
	f.mu.Unlock()
	time.Sleep(f.slow)
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	snapshot := model.Snapshot{}
	for _, e := range endpoints {
		snapshot[e.Address] = model.Sample{CPU: model.Reading{Value: 1, At: time.Now()}}
	}
	return snapshot, nil
}

func (f *fakeSource) Value(context.Context, string) (float64, error) { return f.rail, nil }

func (f *fakeSource) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// recorder is told what the collector did.
type recorder struct {
	mu     sync.Mutex
	told   []types.NamespacedName
	cycles int
	failed int
}

func (r *recorder) tell(policy types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, policy)
}

func (r *recorder) Queried(_ string, _ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
	}
}

func (r *recorder) Cycled(time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cycles++
}

func (r *recorder) toldTimes(policy types.NamespacedName) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.told {
		if p == policy {
			n++
		}
	}
	return n
}

func name(s string) types.NamespacedName { return types.NamespacedName{Namespace: "demo", Name: s} }

func wants(ref sourceRef, interval time.Duration, pods ...string) subscription {
	s := subscription{source: ref, interval: interval}
	for _, pod := range pods {
		s.endpoints = append(s.endpoints, model.Endpoint{Address: "demo/" + pod, Name: "demo/" + pod})
	}
	return s
}

// bench starts a collector over the sources, for a test in a bubble of time.
func bench(t *testing.T, byRef map[sourceRef]*fakeSource) (*collector, *recorder) {
	t.Helper()
	rec := &recorder{}
	c := newCollector(func(_ context.Context, ref sourceRef) (source.Source, error) {
		if src, ok := byRef[ref]; ok {
			return src, nil
		}
		return nil, errors.New("no such source")
	}, rec.tell, rec, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c, rec
}

func TestOneQuestionForAllPoliciesOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := sourceRef{spec: `{"type":"ResourceMetrics"}`}
		src := &fakeSource{}
		c, rec := bench(t, map[sourceRef]*fakeSource{ref: src})
		for _, p := range []string{"a", "b", "c"} {
			c.subscribe(name(p), wants(ref, 30*time.Second, p+"-1", p+"-2"))
			time.Sleep(50 * time.Millisecond) // they turn up one after the other
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		// At the start, and then every 30 s.
		if n := src.times(); n < 10 || n > 11 {
			t.Errorf("asked %d times in 5 minutes, want once per 30 s", n)
		}
		for _, asked := range src.asked {
			if len(asked) != 6 {
				t.Errorf("asked for %d endpoints, want all 6 of the three policies at once", len(asked))
			}
		}
		if n := rec.toldTimes(name("b")); n != src.times() {
			t.Errorf("policy b was told %d times of %d rounds", n, src.times())
		}
	})
}

// However far apart policies turn up, they end up in one question per interval.
func TestPoliciesOfAnIntervalComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := sourceRef{spec: `{"type":"ResourceMetrics"}`}
		src := &fakeSource{}
		c, _ := bench(t, map[sourceRef]*fakeSource{ref: src})
		for _, p := range []string{"a", "b", "c"} {
			c.subscribe(name(p), wants(ref, 30*time.Second, p))
			time.Sleep(7 * time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := src.times()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := src.times() - before; n != 10 {
			t.Errorf("asked %d times in 5 minutes, want once per 30 s", n)
		}
		if last := src.asked[len(src.asked)-1]; len(last) != 3 {
			t.Errorf("asked for %d endpoints, want those of all three policies at once", len(last))
		}
	})
}

// A store that takes a while is not asked again and again while policies turn up,
// and nobody is put off for good by those that follow.
func TestPoliciesThatTurnUpDoNotTireTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := sourceRef{spec: `{"type":"ResourceMetrics"}`}
		src := &fakeSource{slow: time.Second}
		c, rec := bench(t, map[sourceRef]*fakeSource{ref: src})
		for i := range 200 {
			c.subscribe(name(strconv.Itoa(i)), wants(ref, time.Minute, strconv.Itoa(i)))
			time.Sleep(100 * time.Millisecond)
			if i == 50 {
				synctest.Wait()
				if rec.toldTimes(name("0")) == 0 {
					t.Error("5 seconds after it turned up, the first policy was not asked for")
				}
			}
		}
		if n := src.times(); n < 3 || n > 6 {
			t.Errorf("asked %d times in 20 seconds; want about one in 5, for a question that takes 1", n)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if rec.toldTimes(name("199")) == 0 {
			t.Error("6 seconds after it turned up, the last policy was not asked for")
		}
	})
}

func TestEachPolicyHasItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := sourceRef{spec: `{"type":"ResourceMetrics"}`}
		src := &fakeSource{}
		c, rec := bench(t, map[sourceRef]*fakeSource{ref: src})
		c.subscribe(name("fast"), wants(ref, 10*time.Second, "f"))
		c.subscribe(name("slow"), wants(ref, time.Minute, "s"))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if n := rec.toldTimes(name("fast")); n < 59 || n > 62 {
			t.Errorf("the policy of 10 s was told %d times in 10 minutes", n)
		}
		if n := rec.toldTimes(name("slow")); n < 10 || n > 11 {
			t.Errorf("the policy of 1 min was told %d times in 10 minutes", n)
		}
		// Every minute is a multiple of 10 s too: no question of its own for slow.
		if n := src.times(); n > 62 {
			t.Errorf("asked %d times: the policies are not asked for together", n)
		}
	})
}

func TestASourceThatHangsHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := sourceRef{spec: `{"type":"ResourceMetrics"}`}, sourceRef{spec: `{"type":"Prometheus","url":"http://h"}`}
		hanging := &fakeSource{hang: true}
		c, rec := bench(t, map[sourceRef]*fakeSource{good: {}, bad: hanging})
		c.subscribe(name("good"), wants(good, 10*time.Second, "g"))
		c.subscribe(name("bad"), wants(bad, 10*time.Second, "b"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := rec.toldTimes(name("good")); n < 6 {
			t.Errorf("the good source's policy was told %d times in a minute, want 6", n)
		}
		r := c.take(name("bad"))
		if r == nil || r.err == nil || r.snapshot == nil || len(r.snapshot) != 0 {
			t.Errorf("the hanging source's policy got %+v, want an empty snapshot and the error", r)
		}
		if rec.failed == 0 {
			t.Error("nobody was told of the failure")
		}
	})
}

func TestRoundsEndWhenEveryPolicyHasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ref := sourceRef{spec: `{"type":"ResourceMetrics"}`}
		c, rec := bench(t, map[sourceRef]*fakeSource{ref: {}})
		c.subscribe(name("a"), wants(ref, time.Hour, "a"))
		c.subscribe(name("b"), wants(ref, time.Hour, "b"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		c.take(name("a")).decided()
		if rec.cycles != 0 {
			t.Error("the cycle ended while b had not decided")
		}
		c.unsubscribe(name("b")) // it is gone, and nobody waits for it
		if rec.cycles != 1 {
			t.Errorf("%d cycles ended, want 1", rec.cycles)
		}
		if c.take(name("a")) != nil {
			t.Error("a was given the same round twice")
		}
		c.unsubscribe(name("a"))
		if len(c.groups) != 0 {
			t.Error("a source without policies is still asked")
		}
	})
}

func TestGuardRails(t *testing.T) {
	t.Parallel()
	rail := &v1alpha1.GuardRail{Query: "errors", Max: resource.MustParse("0.05")}
	for value, want := range map[float64]balance.RailState{0.01: balance.RailFine, 0.05: balance.RailFine, 0.051: balance.RailExceeded} {
		if got := readRail(t.Context(), &fakeSource{rail: value}, rail); got.State != want {
			t.Errorf("%g: %+v, want state %d", value, got, want)
		}
	}
	type silent struct{ source.Source }
	if got := readRail(t.Context(), silent{}, rail); got.State != balance.RailNotRead {
		t.Errorf("a source without queries: %+v, want it not read", got)
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	m := newMentions()
	m.watch(name("a"), []string{"demo/1", "demo/2"})
	m.watch(name("b"), []string{"demo/2", "demo/3"})
	check := func(pod string, want ...types.NamespacedName) {
		t.Helper()
		if got := m.of(pod); !slices.Equal(got, want) {
			t.Errorf("%s is mentioned by %v, want %v", pod, got, want)
		}
	}
	check("demo/2", name("a"), name("b"))
	m.watch(name("a"), []string{"demo/1", "demo/4"})
	check("demo/2", name("b"))
	check("demo/4", name("a"))
	m.watch(name("a"), nil)
	m.watch(name("b"), nil)
	check("demo/1")
	if len(m.byPod)+len(m.byPolicy) != 0 {
		t.Errorf("something is left: %v, %v", m.byPod, m.byPolicy)
	}
}
