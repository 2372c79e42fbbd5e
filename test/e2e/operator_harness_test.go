//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/fleet/emulated"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	// namespace and service are what the lab's exporter says of its endpoints.
	namespace = exporter.Namespace
	service   = exporter.Service
	// scrapeEvery and interval are short, so that a test sees many intervals.
	scrapeEvery = time.Second
	interval    = 4 * time.Second
	// window holds more than three scrapes.
	window = 5 * time.Second
)

// arm is how Envoys reach the service.
var arm = cluster.Outbound(namespace, service, 8080)

// bed is a cluster with a service whose pods really answer: emulated endpoints, a
// VictoriaMetrics that scrapes them, an istiod, Envoys that ask it, and no operator yet.
type bed struct {
	*cluster.Cluster
	t       *testing.T
	fleet   *emulated.Fleet
	service *corev1.Service
	slice   *discoveryv1.EndpointSlice
	pods    []*corev1.Pod
	istiod  *cluster.Istiod
	envoys  *proxy.Group
	store   *victoriametrics.Store
}

// members are n endpoints at 10.9.1.1 and so on, whose requests cost what fib says.
func members(fib ...int) []fleet.Member {
	list := make([]fleet.Member, len(fib))
	for i := range list {
		list[i] = fleet.Member{
			Endpoint: model.Endpoint{Address: fmt.Sprintf("10.9.1.%d:8080", i+1), Name: fmt.Sprintf("fib-%02d", i+1), Capacity: 2},
			Fib:      fib[i],
		}
	}
	return list
}

// startBed starts it all with n Envoys and these endpoints.
func startBed(t *testing.T, envoys int, list []fleet.Member) *bed {
	t.Helper()
	need(t, "victoria-metrics")
	b := &bed{Cluster: startCluster(t), t: t}
	var err error
	b.fleet, err = emulated.Start(list, emulated.Options{Seed: 1})
	must(t, err)
	t.Cleanup(func() { b.fleet.Close() })
	b.service = cluster.Service(namespace, service, 8080)
	must(t, b.Create(t.Context(), cluster.Namespace(namespace), cluster.Node("node-0", "eu-1", "a"), b.service))
	for _, m := range list {
		b.pods = append(b.pods, b.newPod(m))
	}
	b.slice = cluster.EndpointSlice(b.service, discoveryv1.AddressTypeIPv4, b.pods...)
	must(t, b.Create(t.Context(), b.slice))
	b.store = b.startStore()
	b.istiod, err = b.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	b.envoys, err = b.istiod.StartEnvoys(t.Context(), cluster.Envoys{Namespace: namespace, Count: envoys, Arms: []proxy.Arm{arm}})
	must(t, err)
	return b
}

var serviceEntryKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "ServiceEntryList"}

// newPod creates the pod of a member, without putting it behind the service.
func (b *bed) newPod(m fleet.Member) *corev1.Pod {
	b.t.Helper()
	host, _, err := net.SplitHostPort(m.Address)
	must(b.t, err)
	pod := cluster.Pod(namespace, m.Name, service, "node-0", host)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1000*m.Capacity), resource.DecimalSI)}
	must(b.t, b.Create(b.t.Context(), pod))
	return pod
}

// startStore runs a VictoriaMetrics that scrapes the fleet.
func (b *bed) startStore() *victoriametrics.Store {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b.t, err)
	server := &http.Server{Handler: exporter.New(b.fleet), ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(l) //nolint:errcheck // it ends when the test does
	b.t.Cleanup(func() { server.Close() })
	store, err := victoriametrics.Start(b.t.Context(), victoriametrics.Config{
		Targets: []string{"http://" + l.Addr().String() + "/metrics"}, ScrapeEvery: scrapeEvery,
	})
	must(b.t, err)
	b.t.Cleanup(func() { store.Close() })
	return store
}

// storeSource is the bed's store as a policy names it.
func (b *bed) storeSource() *v1alpha1.Source {
	return &v1alpha1.Source{
		Type: v1alpha1.VictoriaMetrics, URL: b.store.URL(), Window: &metav1.Duration{Duration: window},
	}
}

// policy is one for the bed's service and store.
func (b *bed) policy(name string, mode v1alpha1.Mode) *v1alpha1.BalancePolicy {
	return &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BalancePolicySpec{
			TargetRef: v1alpha1.TargetRef{Name: service}, Mode: mode,
			Interval: &metav1.Duration{Duration: interval}, Source: b.storeSource(),
		},
	}
}

// operatorProcess is a running taper-operator.
type operatorProcess struct {
	*process.Process
	// URL is where its metrics and its page are.
	URL string
}

// startOperator runs the real binary as the admin, or as the user of the option; it
// is stopped when the test ends. It returns once the operator is ready.
func startOperator(t *testing.T, c *cluster.Cluster, name, user string, args ...string) *operatorProcess {
	t.Helper()
	binary, err := filepath.Abs("../../bin/taper-operator")
	must(t, err)
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run \"make e2e\", or \"make build\"", err)
	}
	kubeconfig, err := c.KubeconfigFor(user)
	must(t, err)
	metrics, health := freeAddress(t), freeAddress(t)
	p, err := process.Start(process.Spec{
		Name: name, Path: binary, Log: filepath.Join(c.Dir(), name+".log"),
		Env: append(os.Environ(), "KUBECONFIG="+kubeconfig),
		Args: append([]string{
			"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
			"--leader-election-namespace=default", "--log-level=debug",
		}, args...),
	})
	must(t, err)
	t.Cleanup(func() { p.Stop(10 * time.Second) })
	eventually(t, withinDefault, name+" is ready", func(ctx context.Context) error {
		if err := p.Err(); err != nil {
			return cluster.Final(err)
		}
		_, err := fetch(ctx, "http://"+health+"/readyz")
		return err
	})
	return &operatorProcess{p, "http://" + metrics}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// fetch gets a URL; a status other than 200 is an error.
func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return string(body), nil
}

// awaitCondition waits until a policy has a condition with this status and reason,
// any reason when it is empty, and returns the policy.
func awaitCondition(t *testing.T, c *cluster.Cluster, name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.BalancePolicy {
	t.Helper()
	return awaitConditionOf(t, c, namespace, name, kind, status, reason)
}

// awaitConditionOf is awaitCondition of a policy in any namespace.
func awaitConditionOf(t *testing.T, c *cluster.Cluster, namespace, name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.BalancePolicy {
	t.Helper()
	policy := &v1alpha1.BalancePolicy{}
	eventually(t, withinDefault, fmt.Sprintf("policy %s has %s=%s %s", name, kind, status, reason), func(ctx context.Context) error {
		if err := c.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, policy); err != nil {
			return err
		}
		got := apimeta.FindStatusCondition(policy.Status.Conditions, kind)
		if got == nil || got.Status != status || reason != "" && got.Reason != reason {
			text, _ := json.Marshal(policy.Status.Conditions)
			return fmt.Errorf("its conditions are %s", text)
		}
		return nil
	})
	return policy
}

// serviceEntries are the ServiceEntries of the namespace, by name.
func serviceEntries(t *testing.T, c *cluster.Cluster) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(serviceEntryKind)
	must(t, c.Client().List(t.Context(), &list, client.InNamespace(namespace)))
	entries := map[string]metav1.PartialObjectMetadata{}
	for _, item := range list.Items {
		entries[item.Name] = item
	}
	return entries
}

// awaitEnvoys waits until every Envoy's weights satisfy a check.
func (b *bed) awaitEnvoys(within time.Duration, what string, check func(model.Weights) error) {
	b.t.Helper()
	eventually(b.t, within, what, func(ctx context.Context) error {
		all, err := b.envoys.Weights(ctx, arm.Cluster)
		if err != nil {
			return err
		}
		for i, weights := range all {
			if err := check(weights); err != nil {
				return fmt.Errorf("Envoy %d has %v: %w", i, maps.Clone(weights), err)
			}
		}
		return nil
	})
}
