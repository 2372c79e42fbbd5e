//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// startLoad sends requests through the bed's Envoys until the test ends.
func (b *bed) startLoad(rate float64) *load.Generator {
	b.t.Helper()
	g, err := load.Start(b.t.Context(), load.Plan{
		Targets: b.envoys.Addresses(), Host: arm.Name, Path: "/", Rate: rate, Seed: 1,
		Timeout: 10 * time.Second, MaxInFlight: 2000,
	})
	must(b.t, err)
	b.t.Cleanup(func() { g.Stop() })
	return g
}

// Recommend shows what it would do and writes nothing; Enforce does it, and reaches
// every Envoy; back at Recommend, and nothing is left.
func TestRecommendThenEnforceThenRecommend(t *testing.T) {
	b := startBed(t, 2, members(25, 25, 27, 29))
	b.startLoad(200)
	startOperator(t, b.Cluster, "operator", cluster.Admin)
	policy := b.policy("fib", v1alpha1.Recommend)
	must(t, b.Create(t.Context(), policy))

	awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "")
	got := awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionHeld, metav1.ConditionFalse, "Free")
	if entries := serviceEntries(t, b.Cluster); len(entries) != 0 {
		t.Errorf("Recommend wrote ServiceEntries: %v", entries)
	}
	proposed := map[string]int64{}
	for _, e := range got.Status.Endpoints {
		proposed[e.Pod] = e.ProposedWeight
		if e.Weight != 0 {
			t.Errorf("%s has weight %d in force with Recommend", e.Pod, e.Weight)
		}
	}
	if len(proposed) != 4 || proposed["fib-04"]*2 > proposed["fib-01"] {
		t.Errorf("proposed weights are %v: fib-04 costs almost seven times as much as fib-01", proposed)
	}
	if len(got.Finalizers) != 0 {
		t.Errorf("Recommend has finalizers %v", got.Finalizers)
	}

	must(t, b.Change(t.Context(), policy, func() { policy.Spec.Mode = v1alpha1.Enforce }))
	awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	b.awaitEnvoys(withinDefault, "the weights are enforced", func(w model.Weights) error {
		if slow, fast := w["10.9.1.4:8080"], w["10.9.1.1:8080"]; len(w) != 4 || slow == 0 || slow*2 > fast {
			return fmt.Errorf("the slow endpoint has %d and the fast one %d", slow, fast)
		}
		return nil
	})

	must(t, b.Change(t.Context(), policy, func() { policy.Spec.Mode = v1alpha1.Recommend }))
	awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionApplied, metav1.ConditionFalse, "Recommending")
	if entries := serviceEntries(t, b.Cluster); len(entries) != 0 {
		t.Errorf("entries are left: %v", entries)
	}
	b.awaitEnvoys(withinDefault, "the service has its own weights", func(w model.Weights) error {
		for address, weight := range w {
			if weight != 1 {
				return fmt.Errorf("%s has %d", address, weight)
			}
		}
		return nil
	})
	last := awaitCondition(t, b.Cluster, "fib", v1alpha1.ConditionReady, metav1.ConditionTrue, "Recommending")
	if len(last.Finalizers) != 0 {
		t.Errorf("finalizers are left: %v", last.Finalizers)
	}
}
