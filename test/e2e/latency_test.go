//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// lookEvery is how often the Envoys are asked for their weights: a fraction of the
// latencies that are measured.
const lookEvery = 20 * time.Millisecond

// observer follows the weights of all Envoys.
type observer struct {
	mu    sync.Mutex
	seen  []sighting
	waits sync.Cond
}

// sighting is what all Envoys balanced by at a time.
type sighting struct {
	at      time.Time
	weights []model.Weights
}

// observe follows the Envoys' weights until the test ends.
func (b *bed) observe() *observer {
	o := &observer{}
	o.waits.L = &o.mu
	ctx, cancel := context.WithCancel(b.t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			at := time.Now()
			if weights, err := b.envoys.Weights(ctx, arm.Cluster); err == nil {
				o.mu.Lock()
				o.seen = append(o.seen, sighting{at, weights})
				o.waits.Broadcast()
				o.mu.Unlock()
			}
			time.Sleep(time.Until(at.Add(lookEvery)))
		}
	})
	b.t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	return o
}

// since waits until all Envoys satisfy the check in a look that began after a time,
// and returns how long after it that was; it gives up at the limit.
func (o *observer) since(start time.Time, limit time.Duration, check func(model.Weights) bool) (time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := 0
	for {
		for ; next < len(o.seen); next++ {
			s := o.seen[next]
			if s.at.Before(start) {
				continue
			}
			if s.at.Sub(start) > limit {
				return limit, false
			}
			if !slices.ContainsFunc(s.weights, func(w model.Weights) bool { return !check(w) }) {
				return s.at.Sub(start), true
			}
		}
		o.waits.Wait()
	}
}

// between are the sightings of a stretch of time.
func (o *observer) between(from, to time.Time) []sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []sighting
	for _, s := range o.seen {
		if !s.at.Before(from) && !s.at.After(to) {
			list = append(list, s)
		}
	}
	return list
}

func has(address string) func(model.Weights) bool {
	return func(w model.Weights) bool { return w[address] > 0 }
}

func lacks(address string) func(model.Weights) bool {
	return func(w model.Weights) bool { return len(w) > 0 && w[address] == 0 }
}

// enforce has the bed's service balanced, and returns when weights are in force.
func (b *bed) enforce() {
	b.t.Helper()
	policy := b.policy("fib", v1alpha1.Enforce)
	policy.Spec.Strategy = v1alpha1.EqualLoad // replicas alike get alike
	must(b.t, b.Create(b.t.Context(), policy))
	awaitCondition(b.t, b.Cluster, "fib", v1alpha1.ConditionApplied, metav1.ConditionTrue, "")
	b.awaitEnvoys(withinDefault, "weights are in force", func(w model.Weights) error {
		for address, weight := range w {
			if weight < 5 {
				return fmt.Errorf("%s has %d", address, weight)
			}
		}
		return nil
	})
}

// replicas are n endpoints, the first of which is slower: without any difference
// there would be nothing to enforce.
func replicas(n int) []int {
	fib := slices.Repeat([]int{25}, n)
	fib[0] = 26
	return fib
}

// requests is how many requests an endpoint has answered.
func (b *bed) requests(address string) uint64 {
	b.t.Helper()
	usages, err := b.fleet.Usage(b.t.Context())
	must(b.t, err)
	for _, u := range usages {
		if u.Address == address {
			return u.Requests
		}
	}
	b.t.Fatalf("no endpoint %s", address)
	return 0
}

// An endpoint that leaves its slice is gone from every Envoy within a second, and
// gets no request after that: none would fail if its pod ended then. One that comes
// has a quarter of its share after a second, and all of it within two intervals.
func TestEndpointsThatComeAndGo(t *testing.T) {
	const n, workers, each = 13, 4, 25
	b := startBed(t, 2, members(replicas(n)...))
	newcomer := b.pods[n-1]
	must(t, b.RemoveEndpoint(t.Context(), b.slice, newcomer))
	generator := b.startLoad(500)
	startOperator(t, b.Cluster, "operator", cluster.Admin)
	b.enforce()
	o := b.observe()
	failed := countFailures(t, generator)

	t.Run("added", func(t *testing.T) {
		must(t, b.AddEndpoint(t.Context(), b.slice, newcomer))
		added := time.Now()
		took, ok := o.since(added, 5*time.Second, has(address(newcomer)))
		t.Logf("a new endpoint is in every Envoy after %s: %t", took.Round(time.Millisecond), ok)
		time.Sleep(time.Until(added.Add(2*interval + time.Second)))
		const fair = 1.0 / n
		least, full := 1.0, time.Duration(0)
		for _, s := range o.between(added.Add(time.Second), added.Add(2*interval)) {
			for _, w := range s.weights {
				least = min(least, w.Shares()[address(newcomer)])
			}
		}
		if least < fair/4 {
			t.Errorf("its share was %.4f after a second, less than a quarter of %.4f", least, fair)
		}
		// What replicas get differs by some per cent: their demands are measured.
		full, ok = o.since(added, 2*interval, func(w model.Weights) bool { return w.Shares()[address(newcomer)] >= 0.85*fair })
		t.Logf("its least share after 1 s is %.2f of the fair one; it has that after %s of %s", least/fair, full.Round(time.Millisecond), 2*interval)
		if !ok {
			t.Errorf("it does not have its fair share after two intervals: %v", b.envoyWeights())
		}
	})

	t.Run("removed", func(t *testing.T) {
		var mu sync.Mutex
		var latencies []time.Duration
		var running sync.WaitGroup
		for w := range workers {
			slice := b.slice.DeepCopy() // a write reads anew into it
			running.Go(func() {
				for i := range each {
					pod := b.pods[1+w*3+i%3]
					latency, ok := b.removeAndReturn(t, o, address(pod), func(ready bool) error {
						return b.setTerminating(t.Context(), slice, pod, !ready)
					})
					if !ok {
						return
					}
					mu.Lock()
					latencies = append(latencies, latency)
					mu.Unlock()
				}
			})
		}
		running.Wait()
		slices.Sort(latencies)
		if len(latencies) != workers*each {
			t.Fatalf("%d of %d removals came through", len(latencies), workers*each)
		}
		t.Logf("removed from every Envoy: p50 %s, p99 %s, longest %s", latencies[49], latencies[98], latencies[99])
		if latencies[98] > time.Second {
			t.Errorf("p99 is %s, want at most 1 s", latencies[98])
		}
	})

	t.Run("removed without metrics", func(t *testing.T) {
		must(t, b.store.Close())
		awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, "")
		for _, pod := range b.pods[1:6] {
			if latency, ok := b.removeAndReturn(t, o, address(pod), func(ready bool) error {
				return b.setTerminating(t.Context(), b.slice, pod, !ready)
			}); ok {
				t.Logf("removed after %s", latency)
			}
		}
	})

	if sent, errors := failed(); errors != 0 || sent < 10_000 {
		t.Errorf("%d of %d requests failed, want none of many", errors, sent)
	}
}

// countFailures watches the load until the returned function is called, which tells
// how many requests were sent meanwhile and how many of them failed.
func countFailures(t *testing.T, g *load.Generator) func() (sent, failed uint64) {
	t.Helper()
	const stretch = 2 * time.Second
	stop := make(chan struct{})
	var sent, failed uint64
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			m, err := g.Measure(t.Context(), stretch)
			if err != nil {
				t.Error(err)
				return
			}
			sent, failed = sent+m.Requests, failed+m.Errors
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return func() (uint64, uint64) {
		close(stop)
		watching.Wait()
		return sent, failed
	}
}

// setTerminating says of a pod what the endpoint controller says when it is deleted:
// it takes no new requests, and still serves.
func (b *bed) setTerminating(ctx context.Context, slice *discoveryv1.EndpointSlice, pod *corev1.Pod, terminating bool) error {
	return b.Change(ctx, slice, func() {
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.TargetRef != nil && e.TargetRef.Name == pod.Name {
				e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(!terminating), Serving: ptr.To(true), Terminating: ptr.To(terminating)}
			}
		}
	})
}

// removeAndReturn takes an endpoint out of the service and puts it back. It returns
// how long it took for it to be gone from every Envoy.
func (b *bed) removeAndReturn(t *testing.T, o *observer, address string, setReady func(bool) error) (time.Duration, bool) {
	if err := setReady(false); err != nil {
		t.Error(err)
		return 0, false
	}
	removed := time.Now()
	latency, ok := o.since(removed, 10*time.Second, lacks(address))
	if !ok {
		t.Errorf("%s is not gone after %s", address, latency)
		return 0, false
	}
	// The pod serves for a second. What asks it then or later would have failed.
	time.Sleep(time.Until(removed.Add(time.Second)))
	served := b.requests(address)
	time.Sleep(300 * time.Millisecond)
	if later := b.requests(address); later != served {
		t.Errorf("%s got %d requests more than a second after it was removed", address, later-served)
	}
	if err := setReady(true); err != nil {
		t.Error(err)
		return 0, false
	}
	if _, ok := o.since(time.Now(), 10*time.Second, has(address)); !ok {
		t.Errorf("%s did not come back", address)
		return 0, false
	}
	return latency, true
}

// jumps lists the endpoints whose share, among those that stay, changed by more than
// a step between two looks.
func jumps(before, after model.Weights) (list []string) {
	stay := func(w, other model.Weights) map[string]float64 {
		kept := maps.Clone(w)
		maps.DeleteFunc(kept, func(address string, _ uint32) bool { return other[address] == 0 })
		return kept.Shares()
	}
	was, is := stay(before, after), stay(after, before)
	for address, share := range is {
		if share > 2.2*was[address]+0.01 || was[address] > 2.2*share+0.01 {
			list = append(list, fmt.Sprintf("%s from %.3f to %.3f", address, was[address], share))
		}
	}
	return list
}
