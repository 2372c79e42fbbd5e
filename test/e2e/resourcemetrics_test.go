//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/fleet/emulated"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	// limited is a user that may do what the operator does, but for reading metrics, in
	// the namespace of the same name.
	limited = "limited"
	// resourceMaxAge is above the 10 s between two samples of metrics-server.
	resourceMaxAge = 16 * time.Second
	// withinSamples is how long metrics-server takes to know of a pod, generously.
	withinSamples = 90 * time.Second
)

// resourceTest is a bed without a store: its node's kubelet tells metrics-server what
// the endpoints use.
type resourceTest struct {
	*bed
	kubelet *cluster.Kubelet
	metrics *cluster.Server
	ledger  *ledger
	track   *track
}

// With nothing but metrics-server there are no request rates: CPU alone moves weights,
// and it does not take a permission on nodes.
func TestResourceMetrics(t *testing.T) {
	r := startResourceMetrics(t)
	grantOperator(t, r.Cluster, cluster.Operator)
	r.grantLimited(t)
	r.startLoad(200)
	startOperator(t, r.Cluster, "operator", cluster.Operator, "--namespaces="+namespace, "--leader-election-namespace="+operatorNamespace)
	startOperator(t, r.Cluster, "operator-limited", limited, "--namespaces="+limited, "--leader-elect=false")
	t.Run("Permissions", r.permissions)
	t.Run("Forbidden", r.forbidden)
	t.Run("CPUAlone", r.cpuAlone)
	t.Run("Outage", r.outage)
}

func startResourceMetrics(t *testing.T) *resourceTest {
	need(t, "metrics-server")
	r := &resourceTest{bed: &bed{Cluster: startCluster(t, cluster.User{Name: limited}), t: t}}
	node := cluster.Node("node-0", "eu-1", "a")
	var err error
	r.kubelet, err = r.StartKubelet(node, "10.9.0.2")
	must(t, err)
	list := members(25, 25, 27, 29)
	r.fleet, err = emulated.Start(list, emulated.Options{Seed: 1})
	must(t, err)
	t.Cleanup(func() { r.fleet.Close() })
	r.service = cluster.Service(namespace, service, 8080)
	must(t, r.Create(t.Context(), cluster.Namespace(namespace), cluster.Namespace(limited), node, r.service))
	for _, m := range list {
		r.pods = append(r.pods, r.newPod(m))
	}
	r.slice = cluster.EndpointSlice(r.service, discoveryv1.AddressTypeIPv4, r.pods...)
	must(t, r.Create(t.Context(), r.slice))
	r.account(t)
	r.metrics, err = r.StartMetricsServer(t.Context())
	must(t, err)
	r.istiod, err = r.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	r.envoys, err = r.istiod.StartEnvoys(t.Context(), cluster.Envoys{Namespace: namespace, Count: 2, Arms: []proxy.Arm{arm}})
	must(t, err)
	r.ledger, r.track = startLedger(t, r.Cluster), newSidecar(t, r.istiod, "", "").track(t, arm.Cluster)
	return r
}

// account lets the kubelet count what the fleet uses, a moment later, until the test ends.
func (r *resourceTest) account(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before, err := r.fleet.Usage(ctx)
	must(t, err)
	for _, pod := range r.pods {
		r.kubelet.Use(pod, 0)
	}
	var counting sync.WaitGroup
	counting.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := r.fleet.Usage(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for i, pod := range r.pods {
				r.kubelet.Use(pod, coresBetween(before[i], now[i]))
			}
			before = now
		}
	})
	t.Cleanup(func() {
		cancel()
		counting.Wait()
	})
}

// coresBetween is what an endpoint has used on average.
func coresBetween(before, after fleet.Usage) float64 {
	return (after.CPUSeconds - before.CPUSeconds) / after.At.Sub(before.At).Seconds()
}

// grantLimited gives the limited user the operator's role but for metrics.k8s.io.
func (r *resourceTest) grantLimited(t *testing.T) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	must(t, r.Client().Get(t.Context(), client.ObjectKey{Name: "taper-operator"}, role))
	all := len(role.Rules)
	rules := slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, "metrics.k8s.io") })
	if len(rules) != all-1 {
		t.Fatalf("the operator's role has %d rules for metrics.k8s.io, want 1", all-len(rules))
	}
	meta := metav1.ObjectMeta{Name: limited}
	must(t, r.Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: limited}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: limited},
		}))
}

// permissions asks the API server what the operator may do to nodes: see them, which
// localities are read from, and not ask their kubelets.
func (r *resourceTest) permissions(t *testing.T) {
	for _, test := range []struct {
		group, resource, sub, verb string
		want                       bool
	}{
		{"metrics.k8s.io", "pods", "", "list", true},
		{"metrics.k8s.io", "pods", "", "get", false},
		{"metrics.k8s.io", "nodes", "", "list", false},
		{"metrics.k8s.io", "nodes", "", "get", false},
		{"", "nodes", "", "list", true},
		{"", "nodes", "", "patch", false},
		{"", "nodes", "metrics", "get", false},
		{"", "nodes", "proxy", "get", false},
		{"", "nodes", "proxy", "create", false},
		{"", "nodes", "stats", "get", false},
		{"", "nodes", "pods", "get", false},
		{"", "pods", "log", "get", false},
		{"", "pods", "exec", "create", false},
		{"", "secrets", "", "list", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: cluster.Operator,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: test.group, Resource: test.resource, Subresource: test.sub, Verb: test.verb,
			},
		}}
		must(t, r.Client().Create(t.Context(), review))
		if review.Status.Allowed != test.want {
			t.Errorf("%s of %s/%s in the group %q: allowed %t, want %t", test.verb, test.resource, test.sub, test.group, review.Status.Allowed, test.want)
		}
	}
}

// resourceSpec has a policy without a source: that of the operator, which by default is
// metrics.k8s.io.
func resourceSpec(service string) v1alpha1.BalancePolicySpec {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	return v1alpha1.BalancePolicySpec{
		TargetRef: v1alpha1.TargetRef{Name: service}, Mode: v1alpha1.Enforce, Interval: duration(3 * time.Second),
		Freshness: v1alpha1.Freshness{MaxAge: duration(resourceMaxAge), ReleaseAfter: duration(time.Hour)},
	}
}

// forbidden has an operator that may not read metrics: it says what it lacks, and
// writes nothing.
func (r *resourceTest) forbidden(t *testing.T) {
	app := cluster.Service(limited, "app", 8080)
	pods := []client.Object{cluster.Pod(limited, "app-1", "app", "node-0", "10.9.2.1"), cluster.Pod(limited, "app-2", "app", "node-0", "10.9.2.2")}
	slice := cluster.EndpointSlice(app, discoveryv1.AddressTypeIPv4, cluster.Pod(limited, "app-1", "app", "node-0", "10.9.2.1"), cluster.Pod(limited, "app-2", "app", "node-0", "10.9.2.2"))
	must(t, r.Create(t.Context(), append(pods, app, slice)...))
	policy := &v1alpha1.BalancePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: limited, Name: "app"}, Spec: resourceSpec("app")}
	must(t, r.Create(t.Context(), policy))
	held := awaitConditionOf(t, r.Cluster, limited, "app", v1alpha1.ConditionHeld, metav1.ConditionTrue, "Stale")
	const says = `reading metrics.k8s.io failed for 1 of 1 namespaces: limited: not allowed: grant the verb "list" on "pods" of the API group "metrics.k8s.io"`
	if c := condition(held, v1alpha1.ConditionMetricsFresh); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, says) {
		t.Errorf("MetricsFresh is %s with %q, want %q", c.Status, c.Message, says)
	}
	if len(held.Status.ServiceEntries) > 0 {
		t.Errorf("it wrote %v without a sample", held.Status.ServiceEntries)
	}
}

func condition(policy *v1alpha1.BalancePolicy, kind string) metav1.Condition {
	for _, c := range policy.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// cpuAlone wants weights to go the way of what a request costs, and to arrive.
func (r *resourceTest) cpuAlone(t *testing.T) {
	begun := time.Now()
	policy := &v1alpha1.BalancePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fib"}, Spec: resourceSpec(service)}
	must(t, r.Create(t.Context(), policy))
	fast, slow := "10.9.1.1:8080", "10.9.1.4:8080"
	right := func(w model.Weights) error {
		if len(w) != 4 || w[slow] == 0 || w[fast] < 3*w[slow] || w["10.9.1.3:8080"] < w[slow] || w["10.9.1.3:8080"] > w[fast] {
			return fmt.Errorf("it costs 1, 1, 2.6 and 6.9 at 10.9.1.1 to 10.9.1.4")
		}
		return nil
	}
	r.track.await(t, withinSamples, "CPU alone moves the weights", right)
	t.Logf("weights are right %s after the policy was there", time.Since(begun).Round(100*time.Millisecond))
	r.awaitEnvoys(withinDefault, "Envoys have the weights", right)
	n := r.ledger.await(t, withinDefault, begun, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh", "")
	if n.policy.Status.Evidence != "cpu-only" {
		t.Errorf("the evidence is %q", n.policy.Status.Evidence)
	}
	for _, s := range r.track.during(begun, time.Now()) {
		if s.weights[slow] > s.weights[fast] {
			t.Errorf("weights went the wrong way: %v", s.weights)
		}
	}
}

// outage ends metrics-server for a while.
func (r *resourceTest) outage(t *testing.T) {
	stopped := time.Now()
	r.metrics.Stop()
	r.ledger.await(t, withinDefault, stopped, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, "SourceFailed",
		"reading metrics.k8s.io failed for 1 of 1 namespaces: lab: metrics-server is not ready: see kubectl get apiservice v1beta1.metrics.k8s.io")
	held := r.ledger.await(t, withinDefault, stopped, "fib", v1alpha1.ConditionHeld, metav1.ConditionTrue, "Stale", "no endpoint has a sample younger than 16s")
	must(t, r.metrics.Start(t.Context()))
	again := time.Now()
	r.ledger.await(t, withinSamples, again, "fib", v1alpha1.ConditionHeld, metav1.ConditionFalse, "Free", "")
	back := r.ledger.await(t, withinSamples, again, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh", "")
	t.Logf("held %s after metrics-server ended, free %s after it was back", held.at.Sub(stopped).Round(100*time.Millisecond), back.at.Sub(again).Round(100*time.Millisecond))
	if moved := r.track.during(stopped.Add(time.Second), again); len(moved) != 1 {
		t.Errorf("weights moved while metrics-server was away: %v", moved)
	}
}
