package membership

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Pod is what of a pod is kept. Its fields must not be changed: pods share them.
type Pod struct {
	Namespace, Name string
	ResourceVersion string
	// Labels are shared between the pods of a template.
	Labels map[string]string
	// Node is where it runs; empty before it is scheduled.
	Node           string
	ServiceAccount string
	// IPs are its addresses, the first being the primary one.
	IPs []string
	// Cores is the CPU it can use, by its limits or else its requests; 0 when that is
	// not known. See [CompactPod].
	Cores float64

	template *template // keeps what is shared from being forgotten
}

// GetObjectMeta lets an informer find name, namespace and resource version without
// a whole ObjectMeta being kept: that is twice as large as all of Pod.
func (p *Pod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels}
}

// GetObjectKind implements [runtime.Object].
func (p *Pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements [runtime.Object]. What a Pod refers to is never changed.
func (p *Pod) DeepCopyObject() runtime.Object {
	out := *p
	return &out
}

// sameEndpoint tells whether two states of a pod give the same endpoint.
func (p *Pod) sameEndpoint(q *Pod) bool {
	return p.Node == q.Node && p.ServiceAccount == q.ServiceAccount && p.Cores == q.Cores &&
		slices.Equal(p.IPs, q.IPs) &&
		(p.template != nil && p.template == q.template || maps.Equal(p.Labels, q.Labels))
}

// CompactPod is the transform of an informer of pods: it makes a *[Pod] of a
// *[corev1.Pod], whose strings and labels it takes over. What has been made compact
// already is returned as it is.
//
// Cores is the limit that is set for the pod as a whole, or its request, or else
// the sum over its containers of what each is limited to, or requests where it has
// no limit. It is 0, unknown, when one of them has neither. Sidecars among the init
// containers count, since they run and are measured beside the others; istio-proxy
// does not, which serves no requests of its own. While a pod is being resized, what
// its kubelet has put into force counts.
func CompactPod(obj any) (any, error) {
	switch obj := obj.(type) {
	case *Pod:
		return obj, nil
	case *corev1.Pod:
		return compact(obj), nil
	case cache.DeletedFinalStateUnknown:
		return compactGone(obj, CompactPod)
	}
	return nil, fmt.Errorf("an informer of pods got a %T; want a Pod", obj)
}

func compact(pod *corev1.Pod) *Pod {
	t := templates.of(pod)
	return &Pod{
		Namespace:       t.namespace,
		Name:            pod.Name,
		ResourceVersion: pod.ResourceVersion,
		Labels:          t.labels,
		Node:            pod.Spec.NodeName,
		ServiceAccount:  t.serviceAccount,
		IPs:             podIPs(pod),
		Cores:           cores(pod),
		template:        t,
	}
}

func podIPs(pod *corev1.Pod) []string {
	if len(pod.Status.PodIPs) == 0 {
		if pod.Status.PodIP == "" {
			return nil
		}
		return []string{pod.Status.PodIP}
	}
	ips := make([]string, len(pod.Status.PodIPs))
	for i, ip := range pod.Status.PodIPs {
		ips[i] = ip.IP
	}
	return ips
}

// proxyContainer is the sidecar that Istio injects.
const proxyContainer = "istio-proxy"

// cores is described at [CompactPod].
func cores(pod *corev1.Pod) float64 {
	if pod.Spec.Resources != nil {
		if cpu := limitOrRequest(*pod.Spec.Resources); cpu != nil {
			return cpu.AsApproximateFloat64()
		}
	}
	var sum resource.Quantity
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if !addCores(&sum, c, pod.Status.ContainerStatuses) {
			return 0
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if sidecar && !addCores(&sum, c, pod.Status.InitContainerStatuses) {
			return 0
		}
	}
	return sum.AsApproximateFloat64()
}

// addCores adds a container's CPU to sum, and tells whether it is known.
func addCores(sum *resource.Quantity, c *corev1.Container, statuses []corev1.ContainerStatus) bool {
	if c.Name == proxyContainer {
		return true
	}
	cpu := limitOrRequest(c.Resources)
	for i := range statuses {
		if s := &statuses[i]; s.Name == c.Name && s.Resources != nil {
			if actual := limitOrRequest(*s.Resources); actual != nil {
				cpu = actual
			}
		}
	}
	if cpu == nil {
		return false
	}
	sum.Add(*cpu)
	return true
}

// limitOrRequest is the CPU limit, or else the request; nil when there is neither.
// A limit of 0 is none.
func limitOrRequest(r corev1.ResourceRequirements) *resource.Quantity {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		if cpu, ok := list[corev1.ResourceCPU]; ok && cpu.Sign() > 0 {
			return &cpu
		}
	}
	return nil
}
