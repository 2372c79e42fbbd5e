//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// dualNamespace belongs to an operator with --dual-stack.
const dualNamespace = "dual"

// Weights are given to pods of IPv6 as to those of IPv4. A pod of both families is two
// endpoints to an istiod as it is installed by default, and one with dual stack.
func TestAddressFamilies(t *testing.T) {
	s := startStage(t)
	single, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	dual, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{Env: []string{"ISTIO_DUAL_STACK=true"}})
	must(t, err)
	must(t, s.Create(t.Context(), cluster.Namespace(dualNamespace)))
	startOperator(t, s.Cluster, "operator", cluster.Admin, "--namespaces="+namespace)
	startOperator(t, s.Cluster, "operator-dual", cluster.Admin, "--namespaces="+dualNamespace, "--dual-stack", "--leader-elect=false")

	t.Run("IPv6", func(t *testing.T) {
		t.Parallel()
		testIPv6(t, s, single)
	})
	t.Run("both, without dual stack", func(t *testing.T) {
		t.Parallel()
		testBothFamilies(t, s, single, dual)
	})
	t.Run("both, with dual stack", func(t *testing.T) {
		t.Parallel()
		testDualStack(t, s, dual)
	})
}

func families(service *corev1.Service, policy corev1.IPFamilyPolicy, list ...corev1.IPFamily) *corev1.Service {
	service.Spec.IPFamilyPolicy, service.Spec.IPFamilies = ptr.To(policy), list
	return service
}

// testIPv6 sends requests through a real Envoy to pods that have IPv6 only.
func testIPv6(t *testing.T, s *stage, istiod *cluster.Istiod) {
	a := s.newApp("six", 0)
	families(a.service, corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol)
	for i := range 2 {
		pod := cluster.Pod(namespace, fmt.Sprintf("six-%d", i), "six", "node-0", s.address(false))
		a.pods = append(a.pods, pod)
		serve(t, hostPort(pod.Status.PodIP, 8080))
	}
	a.slices = []*discoveryv1.EndpointSlice{cluster.EndpointSlice(a.service, discoveryv1.AddressTypeIPv6, a.pods...)}
	s.enforce(t, a)
	policy := s.awaitSettled(t, "six")
	want := model.Weights{}
	for _, e := range policy.Status.Endpoints {
		want[hostPort(e.Address, 8080)] = uint32(e.Weight)
	}
	if len(want) != 2 || uneven(want) != nil {
		t.Fatalf("the policy has weights %v", want)
	}
	arm := cluster.Outbound(namespace, "six", 8080)
	envoys, err := istiod.StartEnvoys(t.Context(), cluster.Envoys{Namespace: namespace, Count: 1, Arms: []proxy.Arm{arm}})
	must(t, err)
	awaitWeights(t, envoys, arm, want)
	for range 20 {
		status, body, err := get(t.Context(), envoys.Addresses()[0], arm)
		if err != nil || status != http.StatusOK || want[body] == 0 {
			t.Fatalf("status %d, %v: %s", status, err, body)
		}
	}
}

// both gives an app pods of both families in a namespace; the last one's primary address
// is of IPv6.
func (s *stage) bothFamilies(namespace, name string) *app {
	a := &app{service: families(cluster.Service(namespace, name, 8080), corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)}
	for i := range 3 {
		ips := []string{s.address(true), s.address(false)}
		if i == 2 {
			slices.Reverse(ips)
		}
		a.pods = append(a.pods, cluster.Pod(namespace, fmt.Sprintf("%s-%d", name, i), name, "node-0", ips...))
	}
	for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		a.slices = append(a.slices, cluster.EndpointSlice(a.service, family, a.pods...))
	}
	return a
}

// testBothFamilies wants the two endpoints of a pod to weigh the same, which leaves pods
// their shares; also where somebody has forgotten to tell the operator of dual stack.
func testBothFamilies(t *testing.T, s *stage, single, dual *cluster.Istiod) {
	a := s.bothFamilies(namespace, "two")
	s.enforce(t, a)
	s.awaitSettled(t, "two")
	check := func(w model.Weights) error {
		if len(w) != 6 {
			return fmt.Errorf("there are %d endpoints, want 6", len(w))
		}
		for _, pod := range a.pods {
			ips := pod.Status.PodIPs
			if x, y := w[hostPort(ips[0].IP, 8080)], w[hostPort(ips[1].IP, 8080)]; x != y || x == 0 {
				return fmt.Errorf("pod %s weighs %d and %d", pod.Name, x, y)
			}
		}
		return uneven(w)
	}
	newSidecar(t, single, "", "").awaitTold(t, withinDefault, outbound("two"), "two endpoints of each pod", check)
	newSidecar(t, dual, "", "").awaitTold(t, withinDefault, outbound("two"), "two endpoints of each pod", check)
}

// testDualStack wants one endpoint of each pod, at its first address. One thing is lost:
// an entry's endpoint has no other address to try when the first does not answer.
func testDualStack(t *testing.T, s *stage, istiod *cluster.Istiod) {
	a := s.bothFamilies(dualNamespace, "one")
	mesh := newSidecar(t, istiod, "", "")
	name := cluster.Outbound(dualNamespace, "one", 8080).Cluster
	var firsts []string
	for _, pod := range a.pods {
		firsts = append(firsts, hostPort(pod.Status.PodIP, 8080))
	}
	s.deploy(t, a)
	mesh.awaitTold(t, withinDefault, name, "one endpoint of each pod", both(endpointsAre(firsts...), plain))
	if n := others(t, mesh, name); !maps.Equal(n, map[string]int{firsts[0]: 1, firsts[1]: 1, firsts[2]: 1}) {
		t.Errorf("without an entry, endpoints have other addresses: %v; want one each", n)
	}
	policy := s.policy("one", v1alpha1.Enforce)
	policy.Namespace = dualNamespace
	s.carryOut(t, policy)
	mesh.awaitTold(t, withinDefault, name, "one endpoint of each pod", both(endpointsAre(firsts...), uneven))
	if n := others(t, mesh, name); !maps.Equal(n, map[string]int{firsts[0]: 0, firsts[1]: 0, firsts[2]: 0}) {
		t.Errorf("with an entry, endpoints have other addresses: %v", n)
	}
}

// others counts the further addresses of each endpoint.
func others(t *testing.T, mesh *sidecar, name string) map[string]int {
	t.Helper()
	a, err := mesh.assignment(t.Context(), name)
	must(t, err)
	endpoints, err := effective(a)
	must(t, err)
	n := map[string]int{}
	for address, e := range endpoints {
		n[address] = len(e.endpoint.HostIdentifier.(*endpointv3.LbEndpoint_Endpoint).Endpoint.AdditionalAddresses)
	}
	return n
}
