package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/test/cluster"
)

const (
	// writers is how many requests are under way at once while the world is made.
	writers = 32
	// podsPerNode is what a kubelet takes by default, nearly.
	podsPerNode = 100
	port        = 8080
)

// world is what the cluster holds.
type world struct {
	plan     plan
	services []*service
}

// service is one with its pods, its EndpointSlice and its policy.
type service struct {
	object  *corev1.Service
	pods    []*corev1.Pod
	slice   *discoveryv1.EndpointSlice // as it was written last
	changes int                        // of the slice so far
}

func (s *service) key() string { return s.object.Namespace + "/" + s.object.Name }

func newWorld(p plan) *world {
	w := &world{plan: p, services: make([]*service, p.policies)}
	for i := range w.services {
		s := &service{object: cluster.Service(namespaceOf(p, i), fmt.Sprintf("svc-%04d", i), port)}
		for j := range p.endpoints {
			s.pods = append(s.pods, newPod(s.object, i*p.endpoints+j, j))
		}
		w.services[i] = s
	}
	return w
}

func namespaceOf(p plan, service int) string { return fmt.Sprintf("bench-%03d", service%p.namespaces) }

func nodeName(n int) string { return fmt.Sprintf("node-%05d", n) }

// newPod is as a Deployment with Istio's sidecar makes them: what of a pod gets into
// an entry has its usual size. n counts all pods, j those of the service.
func newPod(s *corev1.Service, n, j int) *corev1.Pod {
	address := netip.AddrFrom4([4]byte{10, byte((n + 1) >> 16), byte((n + 1) >> 8), byte(n + 1)})
	const template = "6c8f9b7d5c"
	pod := cluster.Pod(s.Namespace, fmt.Sprintf("%s-%s-%05x", s.Name, template, j), s.Name, nodeName(n/podsPerNode), address.String())
	for key, value := range map[string]string{
		"version":                             "v1",
		"pod-template-hash":                   template,
		"security.istio.io/tlsMode":           "istio",
		"service.istio.io/canonical-name":     s.Name,
		"service.istio.io/canonical-revision": "v1",
	} {
		pod.Labels[key] = value
	}
	pod.Spec.ServiceAccountName = s.Name
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "istio-proxy", Image: "istio/proxyv2:1.31.1",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
	})
	return pod
}

// policy is one for the service, with the operator's own source.
func (s *service) policy(interval time.Duration) *v1alpha1.BalancePolicy {
	return &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.object.Namespace, Name: s.object.Name},
		Spec: v1alpha1.BalancePolicySpec{
			TargetRef: v1alpha1.TargetRef{Name: s.object.Name}, Mode: v1alpha1.Enforce,
			Interval: &metav1.Duration{Duration: interval},
		},
	}
}

// create writes everything. The pods have no status: of it an operator keeps only
// the addresses.
func (w *world) create(ctx context.Context, c *cluster.Cluster) error {
	typed, err := newClientset(c.REST())
	if err != nil {
		return err
	}
	for n := range w.plan.namespaces {
		if err := c.Create(ctx, cluster.Namespace(fmt.Sprintf("bench-%03d", n))); err != nil {
			return err
		}
	}
	var made atomic.Int64
	defer every(10*time.Second, func() { progress("%d of %d services with their pods", made.Load(), len(w.services)) })()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for n := range (w.plan.policies*w.plan.endpoints + podsPerNode - 1) / podsPerNode {
		group.Go(func() error { return c.Create(ctx, cluster.Node(nodeName(n), "eu-1", "eu-1"+string(rune('a'+n%3)))) })
	}
	for _, s := range w.services {
		group.Go(func() error {
			defer made.Add(1)
			return s.create(ctx, typed, c.Client(), w.plan.interval)
		})
	}
	return group.Wait()
}

func newClientset(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

func (s *service) create(ctx context.Context, typed *kubernetes.Clientset, c client.Client, interval time.Duration) error {
	if err := c.Create(ctx, s.object); err != nil {
		return fmt.Errorf("creating service %s: %w", s.key(), err)
	}
	for _, pod := range s.pods {
		if _, err := typed.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	s.slice = cluster.EndpointSlice(s.object, discoveryv1.AddressTypeIPv4, s.pods...)
	if _, err := typed.DiscoveryV1().EndpointSlices(s.slice.Namespace).Create(ctx, s.slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the EndpointSlice of %s: %w", s.key(), err)
	}
	if err := c.Create(ctx, s.policy(interval)); err != nil {
		return fmt.Errorf("creating the policy of %s: %w", s.key(), err)
	}
	return nil
}
