//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// What an entry says of an endpoint is what istiod makes of the pod itself: where it
// is, whether it takes mutual TLS and under which name, its subset and its network.
// Only weights differ, and the workload's name in telemetry, which an entry cannot say.
func TestEndpointsStayWhatTheyAre(t *testing.T) {
	s := startStage(t)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{Mesh: "enableAutoMtls: true\n"})
	must(t, err)
	pods := s.diversePods(t)
	services := s.diverseServices(t, pods)
	clients := map[string]*sidecar{
		"in zone eu-1/a":   newSidecar(t, istiod, "eu-1/a", "eu-1-a"),
		"in zone us-1/c":   newSidecar(t, istiod, "us-1/c", "us-1-c"),
		"of no known zone": newSidecar(t, istiod, "", ""),
	}
	clusters := awaitClusters(t, clients["of no known zone"], len(pods))
	before := look(t, clients, clusters)

	startOperator(t, s.Cluster, "operator", cluster.Admin)
	for _, service := range services {
		must(t, s.Create(t.Context(), s.policy(service.Name, v1alpha1.Enforce)))
	}
	want := map[string]model.Weights{}
	for _, service := range services {
		awaitCondition(t, s.Cluster, service.Name, v1alpha1.ConditionApplied, metav1.ConditionTrue, "")
		policy := s.awaitSettled(t, service.Name)
		weights := model.Weights{}
		for _, e := range policy.Status.Endpoints {
			weights[e.Address] = uint32(e.Weight)
		}
		if len(weights) != len(pods)-1 {
			t.Fatalf("policy %s gives weights to %d of %d ready pods: %v", service.Name, len(weights), len(pods)-1, weights)
		}
		if err := uneven(weights); err != nil {
			t.Fatalf("policy %s has weights %v: %v", service.Name, weights, err)
		}
		want[service.Name] = weights
	}
	for _, service := range services {
		// Subsets follow with the same push.
		name := fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", service.Spec.Ports[0].Port, service.Name, namespace)
		clients["of no known zone"].awaitTold(t, withinDefault, name, "the entry's weights", uneven)
	}
	after := look(t, clients, clusters)

	t.Run("told to clients", func(t *testing.T) {
		for who, seen := range after {
			for name := range clusters {
				compareClusters(t, who, name, before[who].clusters[name], seen.clusters[name])
				compareAssignments(t, who, name, before[who].assignments[name], seen.assignments[name], want)
			}
		}
	})
	t.Run("known to istiod", func(t *testing.T) { compareShards(t, istiod, services, len(pods)-1) })
}

// diversePods creates nodes and pods that differ in all that istiod looks at. The last
// one is not ready.
func (s *stage) diversePods(t *testing.T) []*corev1.Pod {
	t.Helper()
	subzone := cluster.Node("eu-1-b", "eu-1", "b")
	subzone.Labels["topology.istio.io/subzone"] = "rack-7"
	zoneOnly := cluster.Node("zone-only", "", "z")
	delete(zoneOnly.Labels, corev1.LabelTopologyRegion)
	bare := cluster.Node("bare", "", "")
	bare.Labels = map[string]string{corev1.LabelHostname: "bare"}
	must(t, s.Create(t.Context(), cluster.Node("eu-1-a", "eu-1", "a"), subzone, cluster.Node("us-1-c", "us-1", "c"), zoneOnly, bare))

	const (
		tlsMode = "security.istio.io/tlsMode"
		version = "version"
	)
	var pods []*corev1.Pod
	add := func(node, account string, labels map[string]string) *corev1.Pod {
		pod := cluster.Pod(namespace, fmt.Sprintf("shop-%d", len(pods)+1), "shop", node, s.address(true))
		pod.Spec.ServiceAccountName = account
		maps.Copy(pod.Labels, labels)
		pods = append(pods, pod)
		return pod
	}
	add("eu-1-a", "cart", map[string]string{version: "v1", tlsMode: "istio"})
	add("eu-1-a", "cart", map[string]string{version: "v2", tlsMode: "istio", "topology.istio.io/network": "net-2"})
	add("eu-1-b", "cart", map[string]string{version: "v2"})
	add("us-1-c", "basket", map[string]string{version: "v1", tlsMode: "istio", "service.istio.io/canonical-name": "till", "service.istio.io/canonical-revision": "r3"})
	add("us-1-c", "default", map[string]string{version: "v2", tlsMode: "disabled"})
	add("zone-only", "default", map[string]string{version: "v1", tlsMode: "istio"})
	add("bare", "default", map[string]string{version: "v2", tlsMode: "istio"})
	add("eu-1-a", "cart", map[string]string{version: "v1", tlsMode: "istio", "istio-locality": "eu-2.x.rack-1"})
	add("bare", "cart", map[string]string{version: "v1", tlsMode: "istio", "topology.istio.io/locality": "ap-3"})
	// Of a Deployment, as most pods are: telemetry then has the Deployment's name.
	owned := add("us-1-c", "cart", map[string]string{version: "v1", tlsMode: "istio", "pod-template-hash": "5d4f8c7b9d"})
	owned.GenerateName = "shop-5d4f8c7b9d-"
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "shop-5d4f8c7b9d", UID: "1", Controller: ptr.To(true),
	}}
	nameless := add("us-1-c", "cart", map[string]string{version: "v2"})
	delete(nameless.Labels, "app")
	add("us-1-c", "cart", map[string]string{version: "v2", tlsMode: "istio"})
	for i, pod := range pods {
		s.meter.set(client.ObjectKeyFromObject(pod), rate{cores: 0.05 * float64(1+i), requests: 20})
		must(t, s.Create(t.Context(), pod))
	}
	return pods
}

// diverseServices creates services over the same pods: one with subsets and failover
// between regions, one whose clients prefer their own node, and one without anything.
func (s *stage) diverseServices(t *testing.T, pods []*corev1.Pod) []*corev1.Service {
	t.Helper()
	shop := cluster.Service(namespace, "shop", 80)
	shop.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
		{Name: "grpc-api", Port: 9000, TargetPort: intstr.FromInt32(9000)},
	}
	near := cluster.Service(namespace, "near", 8080)
	near.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
	services := []*corev1.Service{shop, near, cluster.Service(namespace, "any", 8080)}
	for _, service := range services {
		slice := cluster.EndpointSlice(service, discoveryv1.AddressTypeIPv4, pods...)
		slice.Endpoints[len(pods)-1].Conditions.Ready = ptr.To(false)
		must(t, s.Create(t.Context(), service, slice))
	}
	must(t, s.Create(t.Context(), &istionetworkingv1.DestinationRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: networkingv1alpha3.DestinationRule{
			Host: "shop.lab.svc.cluster.local",
			TrafficPolicy: &networkingv1alpha3.TrafficPolicy{
				OutlierDetection: &networkingv1alpha3.OutlierDetection{
					Consecutive_5XxErrors: wrapperspb.UInt32(5), BaseEjectionTime: durationpb.New(30e9),
				},
				LoadBalancer: &networkingv1alpha3.LoadBalancerSettings{
					LocalityLbSetting: &networkingv1alpha3.LocalityLoadBalancerSetting{
						Failover: []*networkingv1alpha3.LocalityLoadBalancerSetting_Failover{{From: "eu-1", To: "us-1"}, {From: "us-1", To: "eu-1"}},
					},
				},
			},
			Subsets: []*networkingv1alpha3.Subset{
				{Name: "v1", Labels: map[string]string{"version": "v1"}},
				{Name: "v2", Labels: map[string]string{"version": "v2"}},
			},
		},
	}))
	return services
}

// awaitClusters waits until a client is told of all ports and subsets, and of n
// endpoints in them; it returns which endpoints each has, by cluster.
func awaitClusters(t *testing.T, client *sidecar, n int) map[string]model.Weights {
	t.Helper()
	clusters := map[string]model.Weights{}
	eventually(t, withinDefault, "clients are told of all pods", func(ctx context.Context) error {
		found, err := client.clusters(ctx, "."+namespace+".svc.cluster.local")
		if err != nil {
			return err
		}
		if len(found) != 8 { // two ports of shop, each whole and in two subsets, near and any
			return fmt.Errorf("clusters are %v", slices.Sorted(maps.Keys(found)))
		}
		subsets := 0
		for name := range found {
			weights, err := client.weights(ctx, name)
			if err != nil {
				return err
			}
			clusters[name] = weights
			whole := strings.Contains(name, "||")
			if whole && len(weights) != n || len(weights) == 0 {
				return fmt.Errorf("%s has %d endpoints", name, len(weights))
			}
			if !whole {
				subsets += len(weights)
			}
		}
		if subsets != 2*n { // of two ports
			return fmt.Errorf("subsets have %d endpoints in all, want %d", subsets, 2*n)
		}
		return nil
	})
	return clusters
}

// sight is what one client is told.
type sight struct {
	clusters    map[string]*clusterv3.Cluster
	assignments map[string]*endpointv3.ClusterLoadAssignment
}

func look(t *testing.T, clients map[string]*sidecar, clusters map[string]model.Weights) map[string]sight {
	t.Helper()
	sights := map[string]sight{}
	for name, client := range clients {
		found, err := client.clusters(t.Context(), "."+namespace+".svc.cluster.local")
		must(t, err)
		seen := sight{found, map[string]*endpointv3.ClusterLoadAssignment{}}
		for cluster := range clusters {
			seen.assignments[cluster], err = client.assignment(t.Context(), cluster)
			must(t, err)
		}
		sights[name] = seen
	}
	return sights
}

// compareClusters wants the whole cluster to be the same: how it balances, and the
// names that its endpoints may have under mutual TLS.
func compareClusters(t *testing.T, client, name string, before, after *clusterv3.Cluster) {
	t.Helper()
	if !strings.Contains(prototext.Format(before), "spiffe://cluster.local/ns/lab/sa/cart") {
		t.Errorf("%s names no accounts for mutual TLS: it would not be seen if one were missing", name)
	}
	if !proto.Equal(before, after) {
		t.Errorf("to a client %s, cluster %s was\n%s\nand is\n%s", client, name, prototext.Format(before), prototext.Format(after))
	}
}

// compareAssignments wants endpoints to be the same but for weight and workload name.
func compareAssignments(t *testing.T, client, name string, before, after *endpointv3.ClusterLoadAssignment, want map[string]model.Weights) {
	t.Helper()
	was, err := effective(before)
	must(t, err)
	is, err := effective(after)
	must(t, err)
	if a, b := slices.Sorted(maps.Keys(was)), slices.Sorted(maps.Keys(is)); !slices.Equal(a, b) {
		t.Errorf("to a client %s, %s had %v and has %v", client, name, a, b)
		return
	}
	service := strings.Split(strings.Split(name, "|")[3], ".")[0]
	for address, old := range was {
		now := is[address]
		if old.locality != now.locality || old.priority != now.priority {
			t.Errorf("to a client %s, %s of %s was in %s with priority %d, and is in %s with %d",
				client, address, name, old.locality, old.priority, now.locality, now.priority)
		}
		if old.endpoint.HealthStatus == corev3.HealthStatus_UNHEALTHY {
			if !proto.Equal(old.endpoint, now.endpoint) {
				t.Errorf("to a client %s, %s of %s, which is not ready, was\n%v\nand is\n%v", client, address, name, old.endpoint, now.endpoint)
			}
			continue
		}
		a, toldBefore := apart(old.endpoint)
		b, toldAfter := apart(now.endpoint)
		if a.HealthStatus == corev3.HealthStatus_HEALTHY && b.HealthStatus == corev3.HealthStatus_UNKNOWN {
			b.HealthStatus = a.HealthStatus // to Envoy these are one
		}
		if !proto.Equal(a, b) {
			t.Fatalf("to a client %s, %s of %s was\n%v\nand is\n%v", client, address, name, a, b)
		}
		if !renamed(toldBefore, toldAfter, "taper-"+service+".") {
			t.Errorf("to the telemetry of a client %s, %s of %s was %v and is %v", client, address, name, toldBefore, toldAfter)
		}
		ip := address[:strings.LastIndex(address, ":")]
		if got := now.endpoint.GetLoadBalancingWeight().GetValue(); got != want[service][ip] {
			t.Errorf("to a client %s, %s of %s weighs %d, want the policy's %d", client, address, name, got, want[service][ip])
		}
	}
	compareLocalityWeights(t, name, after)
}

// renamed tells whether telemetry differs in the workload's name and nothing else. It
// stands in for that of the canonical service where no label of the pod says one.
func renamed(was, is telemetry, prefix string) bool {
	if !strings.HasPrefix(was.workload, "shop") || !strings.HasPrefix(is.workload, prefix) {
		return false
	}
	if was.canonical == was.workload && is.canonical == is.workload {
		is.canonical = was.canonical
	}
	is.workload = was.workload
	return was == is
}

// compareLocalityWeights pins down what istiod makes of two endpoints with one address:
// a locality weighs what its entries and its pods weigh together, so that each pod adds
// one where an equal share is twenty. It counts only where Envoy weighs localities.
func compareLocalityWeights(t *testing.T, name string, a *endpointv3.ClusterLoadAssignment) {
	t.Helper()
	for _, group := range a.Endpoints {
		seen := map[string]bool{}
		var sum, twice uint32
		for _, e := range group.LbEndpoints {
			address := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			if e.HealthStatus == corev3.HealthStatus_UNHEALTHY {
				sum++ // the pod alone
				continue
			}
			sum += e.GetLoadBalancingWeight().GetValue()
			if seen[address] {
				twice++
				if w := e.GetLoadBalancingWeight().GetValue(); w != 1 {
					t.Errorf("%s of %s comes second with weight %d, want 1", address, name, w)
				}
			}
			seen[address] = true
		}
		if int(twice) != len(seen) || group.GetLoadBalancingWeight().GetValue() != sum {
			t.Errorf("in %s, locality %v weighs %d with %d endpoints, of which %d are there twice", name, group.Locality, group.GetLoadBalancingWeight().GetValue(), len(seen), twice)
		}
	}
}
