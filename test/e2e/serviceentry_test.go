//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"net/http"
	"testing"

	networkingv1 "istio.io/api/networking/v1"
	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// What the operator rests on: istiod merges a ServiceEntry into the Service of the
// same host. The entry's weights reach Envoy as they are, a pod that only the
// Service knows has weight 1, and one that only the entry knows stays.
func TestAServiceEntrySetsTheWeightsOfAService(t *testing.T) {
	c := startCluster(t)
	service := cluster.Service("demo", "fib", 8080)
	pods := make([]*corev1.Pod, 3)
	for i := range pods {
		pods[i] = cluster.Pod("demo", fmt.Sprintf("fib-%d", i), "fib", "node-0", fmt.Sprintf("10.9.1.%d", i+1))
		serve(t, address(pods[i]))
	}
	must(t, c.Create(t.Context(), cluster.Namespace("demo"), cluster.Node("node-0", "eu-1", "a"), service, pods[0], pods[1], pods[2]))
	slice := cluster.EndpointSlice(service, discoveryv1.AddressTypeIPv4, pods...)
	must(t, c.Create(t.Context(), slice))

	arm := cluster.Outbound("demo", "fib", 8080)
	_, envoys := startIstiod(t, c, 2, arm)
	awaitWeights(t, envoys, arm, model.Weights{address(pods[0]): 1, address(pods[1]): 1, address(pods[2]): 1})

	must(t, c.Create(t.Context(), entry(map[*corev1.Pod]uint32{pods[0]: 100, pods[1]: 300})))
	weights := model.Weights{address(pods[0]): 100, address(pods[1]): 300, address(pods[2]): 1}
	awaitWeights(t, envoys, arm, weights)
	for _, envoy := range envoys.Addresses() {
		got := make(map[string]int)
		for range 401 {
			status, body, err := get(t.Context(), envoy, arm)
			if err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v: %s", status, err, body)
			}
			got[body]++
		}
		for endpoint, want := range weights {
			// One request at a time is spread by a schedule, not by chance.
			if math.Abs(float64(got[endpoint])-float64(want)) > 2 {
				t.Errorf("%s got %d of 401 requests, want about %d: %v", endpoint, got[endpoint], want, got)
			}
		}
	}

	must(t, c.RemoveEndpoint(t.Context(), slice, pods[2]))
	delete(weights, address(pods[2]))
	awaitWeights(t, envoys, arm, weights)
	must(t, c.RemoveEndpoint(t.Context(), slice, pods[1]))
	must(t, c.AddEndpoint(t.Context(), slice, pods[2]))
	weights[address(pods[2])] = 1
	awaitWeights(t, envoys, arm, weights) // the entry keeps pods[1]
}

func address(pod *corev1.Pod) string { return pod.Status.PodIP + ":8080" }

// entry has the host of service fib in namespace demo.
func entry(weights map[*corev1.Pod]uint32) *istionetworkingv1.ServiceEntry {
	e := &istionetworkingv1.ServiceEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fib"},
		Spec: networkingv1.ServiceEntry{
			Hosts:      []string{"fib.demo.svc.cluster.local"},
			Location:   networkingv1.ServiceEntry_MESH_INTERNAL,
			Resolution: networkingv1.ServiceEntry_STATIC,
			Ports:      []*networkingv1.ServicePort{{Name: "http", Number: 8080, Protocol: "HTTP"}},
		},
	}
	for pod, weight := range weights {
		e.Spec.Endpoints = append(e.Spec.Endpoints, &networkingv1.WorkloadEntry{
			Address: pod.Status.PodIP, Labels: pod.Labels, Locality: "eu-1/a", ServiceAccount: "default", Weight: weight,
		})
	}
	return e
}
