//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/test/cluster"
)

// Types may be installed in any order. Without taper's there is nothing to do, and
// nothing to release; without Istio's, policies are decided, and written when it comes.
func TestTypesThatComeLate(t *testing.T) {
	s := &stage{Cluster: startEmptyCluster(t)}
	s.measure(t)
	s.warm("early", "short")
	must(t, s.Create(t.Context(), cluster.Namespace(namespace), cluster.Node("node-0", "eu-1", "a")))

	if code, out := runOperator(t, s.Cluster, "--metrics-bind-address=0", "--health-probe-bind-address=0"); code != 1 || !strings.Contains(out, "the cluster has no BalancePolicies: install their definition") {
		t.Errorf("without its type, the operator ends with %d and says\n%s", code, out)
	}
	if code, out := runOperator(t, s.Cluster, "release", "--within=20s"); code != 0 || !strings.Contains(out, "nothing to release") {
		t.Errorf("without policies, release ends with %d and says\n%s", code, out)
	}

	must(t, s.InstallTaperCRDs(t.Context()))
	startOperator(t, s.Cluster, "operator", cluster.Admin)
	for _, name := range []string{"early", "short"} {
		s.deploy(t, s.newApp(name, 2))
		must(t, s.Create(t.Context(), s.policy(name, v1alpha1.Enforce)))
	}
	for _, name := range []string{"early", "short"} {
		awaitCondition(t, s.Cluster, name, v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh")
		awaitCondition(t, s.Cluster, name, v1alpha1.ConditionApplied, metav1.ConditionFalse, "WriteFailed")
	}
	short := s.policy("short", v1alpha1.Enforce)
	must(t, s.Client().Delete(t.Context(), short))
	awaitGone(t, s.Cluster, withinDefault, short)
	if code, out := runOperator(t, s.Cluster, "release", "--within=2s"); code != 1 || !strings.Contains(out, "lease taper-operator") {
		t.Errorf("beside an operator, release ends with %d and says\n%s", code, out)
	}

	must(t, s.InstallIstioCRDs(t.Context()))
	start := time.Now()
	awaitCondition(t, s.Cluster, "early", v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	t.Logf("written %v after Istio's types were there", time.Since(start).Round(time.Millisecond))
}
