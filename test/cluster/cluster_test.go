//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	taperv1alpha1 "taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/proxy"
)

// start needs etcd and kube-apiserver, and what else is named.
func start(t *testing.T, more ...string) *Cluster {
	t.Helper()
	needIsolation(t)
	for _, name := range append(more, "etcd", "kube-apiserver") {
		if _, err := process.Lookup(name, lookupHint); err != nil {
			if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	c, err := Start(t.Context(), Config{Users: []User{{Name: "reader", Groups: []string{"readers"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Err(); err != nil {
			t.Error(err)
		}
		pid := c.APIServer.PID()
		c.Close()
		if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of a closed cluster: %v", err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); pid == 0 || err == nil {
			t.Errorf("kube-apiserver, process %d, runs on after Close", pid)
		}
	})
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServersComeBackWithTheirData(t *testing.T) {
	c := start(t)
	must(t, c.Create(t.Context(), Namespace("demo")))
	for _, s := range []*Server{c.APIServer, c.Etcd} {
		before := s.PID()
		s.Kill()
		if err := s.Err(); err != nil || s.PID() != 0 {
			t.Errorf("killed: %v, process %d", err, s.PID())
		}
		if err := getDemo(t.Context(), c); err == nil {
			t.Errorf("an answer without %s", s.name)
		}
		must(t, s.Start(t.Context()))
		if s.PID() == before {
			t.Errorf("%s was not started", s.name)
		}
		must(t, Eventually(t.Context(), time.Minute, "namespace demo is still there", func(ctx context.Context) error {
			return getDemo(ctx, c)
		}))
	}

	c.APIServer.Pause()
	if err := getDemo(t.Context(), c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from a paused server: %v", err)
	}
	c.APIServer.Resume()
	must(t, Eventually(t.Context(), time.Minute, "an answer", func(ctx context.Context) error { return getDemo(ctx, c) }))
}

// getDemo asks for a namespace and waits a second for the answer.
func getDemo(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return c.Client().Get(ctx, client.ObjectKey{Name: "demo"}, &corev1.Namespace{})
}

func TestAServerThatDiesSaysWhy(t *testing.T) {
	c := start(t)
	s := &Server{name: "sh", path: "sh", args: []string{"-c", "echo no such flag >&2; exit 2"}, probe: func(context.Context) error { return errors.New("not yet") }}
	if err := c.run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("got %v", err)
	}
	must(t, c.Err()) // it never was a part
}

func TestUsersMayDoWhatTheyAreGranted(t *testing.T) {
	c := start(t)
	must(t, c.Create(t.Context(), Namespace("demo"),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "read"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "read"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "read"},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "readers"},
				{Kind: rbacv1.ServiceAccountKind, Namespace: "taper-system", Name: "taper-operator"},
			},
		}))
	for _, user := range []string{"reader", Operator} {
		path, err := c.KubeconfigFor(user)
		must(t, err)
		config, err := clientcmd.BuildConfigFromFlags("", path)
		must(t, err)
		limited, err := client.New(config, client.Options{Scheme: Scheme(), Log: quiet})
		must(t, err)
		must(t, Eventually(t.Context(), 10*time.Second, user+" may list pods", func(ctx context.Context) error {
			return limited.List(ctx, &corev1.PodList{})
		}))
		if err := limited.List(t.Context(), &corev1.NodeList{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists nodes: %v", user, err)
		}
	}
}

func TestObjectsAreAsTheyWereDescribed(t *testing.T) {
	c := start(t)
	must(t, c.InstallTaperCRDs(t.Context()))
	must(t, c.InstallIstioCRDs(t.Context()))
	must(t, c.Client().List(t.Context(), &taperv1alpha1.BalancePolicyList{}))

	service := Service("demo", "fib", 8080)
	one, two := Pod("demo", "fib-1", "fib", "node-0", "10.9.1.1", "fd09::1"), Pod("demo", "fib-2", "fib", "node-0", "fd09::2")
	must(t, c.Create(t.Context(), Namespace("demo"), Node("node-0", "eu-1", "a"), service, one, two))
	if one.Status.PodIP != "10.9.1.1" || len(one.Status.PodIPs) != 2 || one.UID == "" {
		t.Errorf("created pod: %+v", one.Status)
	}
	v4, v6 := EndpointSlice(service, discoveryv1.AddressTypeIPv4, one), EndpointSlice(service, discoveryv1.AddressTypeIPv6, two)
	must(t, c.Create(t.Context(), v4, v6))
	must(t, c.AddEndpoint(t.Context(), v6, one))
	must(t, c.RemoveEndpoint(t.Context(), v6, two))
	must(t, c.SetReady(t.Context(), v4, one, false))
	must(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(v6), v6))
	must(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(v4), v4))
	if len(v6.Endpoints) != 1 || v6.Endpoints[0].Addresses[0] != "fd09::1" || *v4.Endpoints[0].Conditions.Ready {
		t.Errorf("slices: %v, %v", v6.Endpoints, v4.Endpoints)
	}
	must(t, c.DeletePod(t.Context(), one))
	if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(one), one); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted pod: %v", err)
	}
}

func TestApply(t *testing.T) {
	c := start(t)
	const typeAndObject = `
apiVersion: test.taper.dev/v1
kind: Thing
metadata: {name: one}
---
# types are made first
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.test.taper.dev}
spec:
  group: test.taper.dev
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: a}}
`
	for range 2 { // again changes nothing
		must(t, c.Apply(t.Context(), []byte(typeAndObject)))
	}
	must(t, c.Client().Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b"}, &corev1.ConfigMap{}))
	err := c.Apply(t.Context(), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: missing}}"))
	if err == nil || !strings.Contains(err.Error(), "ConfigMap missing/b") {
		t.Errorf("got %v", err)
	}
}

// Two answers of a kubelet become a rate, which the API server passes on.
func TestMetricsServer(t *testing.T) {
	c := start(t, "metrics-server")
	node := Node("node-0", "eu-1", "a")
	kubelet, err := c.StartKubelet(node, "10.9.2.1")
	must(t, err)
	pod := Pod("demo", "fib-1", "fib", node.Name, "10.9.1.1")
	must(t, c.Create(t.Context(), Namespace("demo"), node, pod))
	kubelet.Use(pod, 0.75)
	_, err = c.StartMetricsServer(t.Context())
	must(t, err)

	scheme := Scheme()
	must(t, metricsv1beta1.AddToScheme(scheme))
	reader, err := client.New(c.REST(), client.Options{Scheme: scheme, Log: quiet})
	must(t, err)
	var metrics metricsv1beta1.PodMetrics
	must(t, Eventually(t.Context(), time.Minute, "the pod has metrics", func(ctx context.Context) error {
		return reader.Get(ctx, client.ObjectKeyFromObject(pod), &metrics)
	}))
	if got := metrics.Containers[0].Usage.Cpu().AsApproximateFloat64(); math.Abs(got-0.75) > 0.01 {
		t.Errorf("the pod uses %v cores, want 0.75", got)
	}
}

// Envoys keep what they know while istiod is away, and follow it when it is back.
func TestEnvoysOutliveIstiod(t *testing.T) {
	c := start(t, "pilot-discovery", "envoy")
	must(t, c.InstallIstioCRDs(t.Context()))
	service, pods := Service("demo", "fib", 8080), []*corev1.Pod{
		Pod("demo", "fib-1", "fib", "node-0", "10.9.1.1"), Pod("demo", "fib-2", "fib", "node-0", "10.9.1.2"),
	}
	must(t, c.Create(t.Context(), Namespace("demo"), Node("node-0", "eu-1", "a"), service, pods[0], pods[1]))
	slice := EndpointSlice(service, discoveryv1.AddressTypeIPv4, pods[0])
	must(t, c.Create(t.Context(), slice))

	istiod, err := c.StartIstiod(t.Context(), IstiodConfig{})
	must(t, err)
	arm := Outbound("demo", "fib", 8080)
	clients := Envoys{Namespace: "demo", Count: 2, Arms: []proxy.Arm{arm}}
	envoys, err := istiod.StartEnvoys(t.Context(), clients)
	must(t, err)
	if _, err := istiod.StartEnvoys(t.Context(), clients); err == nil {
		t.Error("two groups of one name")
	}
	must(t, envoys.AwaitEndpoints(t.Context(), arm.Cluster, 1))

	istiod.Kill()
	must(t, c.AddEndpoint(t.Context(), slice, pods[1]))
	must(t, envoys.AwaitEndpoints(t.Context(), arm.Cluster, 1))
	must(t, istiod.Start(t.Context()))
	must(t, Eventually(t.Context(), time.Minute, "the Envoys know both", func(ctx context.Context) error {
		return envoys.AwaitEndpoints(ctx, arm.Cluster, 2)
	}))
}
