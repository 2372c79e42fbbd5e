//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/test/cluster"
)

// Each kind of service and each thing that may happen to one has a defined result.
func TestServices(t *testing.T) {
	s := startStage(t)
	s.warm("nowhere", "twice", "tie", "shared", "named", "later", "ports", "nearby", "phoenix", "night", "drift")
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	mesh := newSidecar(t, istiod, "eu-1/a", "node-0")
	startOperator(t, s.Cluster, "operator", cluster.Admin)
	for name, test := range map[string]func(*testing.T, *stage, *sidecar){
		"refused":                      testRefused,
		"two policies":                 testTwoPolicies,
		"two policies at once":         testTwoPoliciesAtOnce,
		"foreign entry for the host":   testForeignHost,
		"foreign entry of our name":    testForeignName,
		"foreign entry comes later":    testForeignLater,
		"several ports":                testSeveralPorts,
		"becomes node-local":           testBecomesNodeLocal,
		"deleted and created again":    testServiceComesBack,
		"scaled to zero and back":      testScaledToZero,
		"entry changed by others":      testDrift,
		"policy named like no service": testNoService,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s, mesh)
		})
	}
}

// outbound is what Envoys call port 8080 of a service in namespace lab.
func outbound(service string) string { return cluster.Outbound(namespace, service, 8080).Cluster }

// addresses are where the pods of an app take requests.
func (a *app) addresses() []string {
	var list []string
	for _, pod := range a.pods {
		list = append(list, hostPort(pod.Status.PodIP, 8080))
	}
	return list
}

// entriesOf are the names of taper's entries for a service.
func (s *stage) entriesOf(t *testing.T, service string) []string {
	t.Helper()
	var names []string
	for name, entry := range serviceEntries(t, s.Cluster) {
		if entry.Labels["taper.dev/service"] == service {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func testRefused(t *testing.T, s *stage, _ *sidecar) {
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		ports  []string
		reason string
		says   string
	}{
		"headless":    {change: func(o *corev1.Service) { o.Spec.ClusterIP = corev1.ClusterIPNone }, reason: "Headless", says: "clusterIP: None"},
		"no-selector": {change: func(o *corev1.Service) { o.Spec.Selector = nil }, reason: "NoSelector", says: "no selector"},
		"node-local": {change: func(o *corev1.Service) {
			o.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, reason: "NodeLocal", says: "set it to Cluster"},
		"external-name": {change: func(o *corev1.Service) {
			o.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
		}, reason: "ExternalName", says: "example.com"},
		"no-http":      {change: func(o *corev1.Service) { o.Spec.Ports[0].Name = "tcp-db" }, reason: "NoPorts", says: "tcp-db"},
		"unknown-port": {ports: []string{"grpc"}, reason: "UnknownPort", says: `no port "grpc"`},
		"udp":          {change: func(o *corev1.Service) { o.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, ports: []string{"http"}, reason: "NotTCP", says: "UDP"},
		"unnamed": {change: func(o *corev1.Service) {
			o.Spec.Ports[0].Name, o.Spec.Ports[0].AppProtocol = "", ptr.To("http")
		}, reason: "UnnamedPort", says: "has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.newApp(name, 2)
			if test.change != nil {
				test.change(a.service)
			}
			s.deploy(t, a)
			policy := s.policy(name, v1alpha1.Enforce)
			policy.Spec.Ports = test.ports
			must(t, s.Create(t.Context(), policy))
			got := awaitCondition(t, s.Cluster, name, v1alpha1.ConditionReady, metav1.ConditionFalse, test.reason)
			if c := apimeta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, test.says) {
				t.Errorf("the message %q does not say %q", c.Message, test.says)
			}
			awaitCondition(t, s.Cluster, name, v1alpha1.ConditionApplied, metav1.ConditionFalse, "NotReady")
			if entries := s.entriesOf(t, name); len(entries) != 0 || len(got.Finalizers) != 0 {
				t.Errorf("there are entries %v and finalizers %v", entries, got.Finalizers)
			}
			must(t, s.Client().Delete(t.Context(), policy))
			awaitGone(t, s.Cluster, withinDefault, policy)
		})
	}
}

func testNoService(t *testing.T, s *stage, _ *sidecar) {
	must(t, s.Create(t.Context(), s.policy("nowhere", v1alpha1.Enforce)))
	awaitCondition(t, s.Cluster, "nowhere", v1alpha1.ConditionReady, metav1.ConditionFalse, "ServiceNotFound")
	a := s.newApp("nowhere", 2)
	s.deploy(t, a)
	awaitCondition(t, s.Cluster, "nowhere", v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
}

// The older policy acts. The younger one says so, and takes over when the other is gone.
func testTwoPolicies(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("twice", 2)
	older := s.enforce(t, a)
	eventually(t, withinDefault, "another second has begun", func(context.Context) error {
		if now := time.Now().Truncate(time.Second); !now.After(older.CreationTimestamp.Time) {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
	younger := s.policy("twice", v1alpha1.Enforce)
	younger.Name = "another"
	must(t, s.Create(t.Context(), younger))
	got := awaitCondition(t, s.Cluster, "another", v1alpha1.ConditionReady, metav1.ConditionFalse, "Conflict")
	if c := apimeta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "policy twice") {
		t.Errorf("the message %q does not name the other policy", c.Message)
	}
	awaitCondition(t, s.Cluster, "twice", v1alpha1.ConditionReady, metav1.ConditionTrue, "Enforcing")
	if entry := serviceEntries(t, s.Cluster)["taper-twice.http"]; entry.Labels["taper.dev/policy"] != "twice" {
		t.Errorf("the entry is of policy %q", entry.Labels["taper.dev/policy"])
	}

	must(t, s.Client().Delete(t.Context(), older))
	awaitGone(t, s.Cluster, withinDefault, older)
	awaitCondition(t, s.Cluster, "another", v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	awaitCondition(t, s.Cluster, "another", v1alpha1.ConditionReady, metav1.ConditionTrue, "Enforcing")
	if entry := serviceEntries(t, s.Cluster)["taper-twice.http"]; entry.Labels["taper.dev/policy"] != "another" {
		t.Errorf("the entry is of policy %q", entry.Labels["taper.dev/policy"])
	}
	mesh.awaitTold(t, withinDefault, outbound("twice"), "the younger policy's weights", uneven)
}

// Of policies that are of one second, one acts: the same one whoever decides.
func testTwoPoliciesAtOnce(t *testing.T, s *stage, _ *sidecar) {
	s.deploy(t, s.newApp("tie", 2))
	policies := map[string]*v1alpha1.BalancePolicy{}
	for _, name := range []string{"tie-b", "tie-a", "tie-c"} {
		p := s.policy("tie", v1alpha1.Enforce)
		p.Name = name
		must(t, s.Create(t.Context(), p))
		policies[name] = p
	}
	names := slices.SortedFunc(maps.Keys(policies), func(a, b string) int {
		if d := policies[a].CreationTimestamp.Compare(policies[b].CreationTimestamp.Time); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	awaitCondition(t, s.Cluster, names[0], v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	for _, name := range names[1:] {
		awaitCondition(t, s.Cluster, name, v1alpha1.ConditionReady, metav1.ConditionFalse, "Conflict")
	}
	if entry := serviceEntries(t, s.Cluster)["taper-tie.http"]; entry.Labels["taper.dev/policy"] != names[0] {
		t.Errorf("the entry is of policy %q, want %q", entry.Labels["taper.dev/policy"], names[0])
	}
}

// Without a list, all ports of HTTP and gRPC are balanced; with one, those named and no
// others. A named target port is another number in each pod.
func testSeveralPorts(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("ports", 2)
	a.service.Spec.Ports = []corev1.ServicePort{
		{Name: "http-web", Port: 80, TargetPort: intstr.FromString("web")},
		{Name: "api", Port: 9000, TargetPort: intstr.FromInt32(9001), AppProtocol: ptr.To("kubernetes.io/h2c")},
		{Name: "tcp-db", Port: 5432, TargetPort: intstr.FromInt32(5432)},
		{Name: "metrics", Port: 9100, TargetPort: intstr.FromInt32(9100)},
	}
	for i, pod := range a.pods {
		slice := cluster.EndpointSlice(a.service, discoveryv1.AddressTypeIPv4, pod)
		slice.Name += fmt.Sprint("-", i)
		slice.Ports[0].Port = ptr.To(int32(8080 + i))
		a.slices = append(a.slices, slice)
	}
	ips := []string{a.pods[0].Status.PodIP, a.pods[1].Status.PodIP}
	told := func(port int, what string, check weightsCheck, targets ...int32) {
		t.Helper()
		name := cluster.Outbound(namespace, "ports", port).Cluster
		mesh.awaitTold(t, withinDefault, name, what, both(endpointsAre(hostPort(ips[0], targets[0]), hostPort(ips[1], targets[1])), check))
	}
	policy := s.enforce(t, a)
	told(80, "weights", uneven, 8080, 8081)
	told(9000, "weights", uneven, 9001, 9001)
	told(5432, "no weights", plain, 5432, 5432)
	told(9100, "no weights", plain, 9100, 9100)
	if entries := s.entriesOf(t, "ports"); !slices.Equal(entries, []string{"taper-ports.api", "taper-ports.http-web"}) {
		t.Errorf("there are entries %v", entries)
	}

	must(t, s.Change(t.Context(), policy, func() { policy.Spec.Ports = []string{"metrics", "tcp-db"} }))
	told(5432, "weights", uneven, 5432, 5432)
	told(9100, "weights", uneven, 9100, 9100)
	told(80, "no weights", plain, 8080, 8081)
	told(9000, "no weights", plain, 9001, 9001)
	if entries := s.entriesOf(t, "ports"); !slices.Equal(entries, []string{"taper-ports.metrics", "taper-ports.tcp-db"}) {
		t.Errorf("there are entries %v", entries)
	}
}

func testBecomesNodeLocal(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("nearby", 2)
	policy := s.enforce(t, a)
	must(t, s.Change(t.Context(), a.service, func() {
		a.service.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}))
	got := awaitCondition(t, s.Cluster, policy.Name, v1alpha1.ConditionReady, metav1.ConditionFalse, "NodeLocal")
	if entries := s.entriesOf(t, "nearby"); len(entries) != 0 || len(got.Finalizers) != 0 {
		t.Errorf("entries %v and finalizers %v are left", entries, got.Finalizers)
	}
	must(t, s.Change(t.Context(), a.service, func() {
		a.service.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	}))
	awaitCondition(t, s.Cluster, policy.Name, v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	mesh.awaitTold(t, withinDefault, outbound("nearby"), "weights", uneven)
}

func testServiceComesBack(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("phoenix", 2)
	policy := s.enforce(t, a)
	for _, o := range []client.Object{a.service, a.slices[0]} {
		must(t, s.Client().Delete(t.Context(), o))
	}
	got := awaitCondition(t, s.Cluster, policy.Name, v1alpha1.ConditionReady, metav1.ConditionFalse, "ServiceNotFound")
	if entries := s.entriesOf(t, "phoenix"); len(entries) != 0 || len(got.Finalizers) != 0 {
		t.Errorf("entries %v and finalizers %v are left", entries, got.Finalizers)
	}
	again := cluster.Service(namespace, "phoenix", 8080)
	must(t, s.Create(t.Context(), again, cluster.EndpointSlice(again, discoveryv1.AddressTypeIPv4, a.pods...)))
	awaitCondition(t, s.Cluster, policy.Name, v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	mesh.awaitTold(t, withinDefault, outbound("phoenix"), "weights", both(endpointsAre(a.addresses()...), uneven))
}

func testScaledToZero(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("night", 2)
	policy := s.enforce(t, a)
	mesh.awaitTold(t, withinDefault, outbound("night"), "weights", uneven)
	must(t, s.Change(t.Context(), a.slices[0], func() { a.slices[0].Endpoints = nil }))
	mesh.awaitTold(t, withinDefault, outbound("night"), "nobody", endpointsAre())
	eventually(t, withinDefault, "the policy has no endpoints", func(ctx context.Context) error {
		if err := s.Client().Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if policy.Status.EndpointCount != 0 || len(policy.Status.ServiceEntries) != 0 {
			return fmt.Errorf("its status is %+v", policy.Status)
		}
		return nil
	})
	awaitCondition(t, s.Cluster, policy.Name, v1alpha1.ConditionReady, metav1.ConditionTrue, "Enforcing")
	if entries := s.entriesOf(t, "night"); len(entries) != 0 {
		t.Errorf("entries %v are left", entries)
	}
	for _, pod := range a.pods {
		must(t, s.AddEndpoint(t.Context(), a.slices[0], pod))
	}
	mesh.awaitTold(t, withinDefault, outbound("night"), "weights", both(endpointsAre(a.addresses()...), uneven))
}
