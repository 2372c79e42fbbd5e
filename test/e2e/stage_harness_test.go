//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/test/cluster"
)

const (
	// beat is the interval of policies on a stage. It is the shortest that there is,
	// which is also that of scrapes.
	beat = time.Second
	// fresh is how old samples may be on a busy machine.
	fresh = 10 * time.Second
)

// stage is a cluster with a real store, whose pods are objects only: what they use
// is what the test says. Many services share one, each in a test of its own.
type stage struct {
	*cluster.Cluster
	meter *meter
	store *outage

	hosts atomic.Uint32 // addresses given to pods
}

// startStage starts a cluster with namespace lab, a node and a store, but neither
// istiod nor operator.
func startStage(t *testing.T, users ...cluster.User) *stage {
	t.Helper()
	s := &stage{Cluster: startCluster(t, users...)}
	s.measure(t)
	must(t, s.Create(t.Context(), cluster.Namespace(namespace), cluster.Node("node-0", "eu-1", "a")))
	return s
}

// measure starts the store. One pod is there from the beginning: the store remembers
// for ten seconds that a query has found nothing.
func (s *stage) measure(t *testing.T) {
	t.Helper()
	need(t, "victoria-metrics")
	s.meter = &meter{start: time.Now(), pods: map[client.ObjectKey]rate{}}
	s.meter.set(client.ObjectKey{Namespace: namespace, Name: "first"}, rate{1, 1})
	exporter := httptest.NewServer(s.meter)
	t.Cleanup(exporter.Close)
	store, err := victoriametrics.Start(t.Context(), victoriametrics.Config{
		Targets: []string{exporter.URL + "/metrics"}, ScrapeEvery: scrapeEvery,
	})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	s.store = newOutage(t, store.URL())
}

// address is one that no other pod has, of IPv4 or else of IPv6.
func (s *stage) address(four bool) string {
	n := s.hosts.Add(1)
	if four {
		return fmt.Sprintf("10.9.%d.%d", 16+n/250, 1+n%250)
	}
	return fmt.Sprintf("fd09::16:%x", n)
}

// app is a service and the pods behind it.
type app struct {
	service *corev1.Service
	pods    []*corev1.Pod
	slices  []*discoveryv1.EndpointSlice
}

// newApp is a service in namespace lab with n pods, of which the first is the
// cheapest. It is not created yet.
func (s *stage) newApp(name string, n int) *app {
	a := &app{service: cluster.Service(namespace, name, 8080)}
	for i := range n {
		a.pods = append(a.pods, cluster.Pod(namespace, fmt.Sprintf("%s-%d", name, i+1), name, "node-0", s.address(true)))
	}
	return a
}

// deploy creates an app, with an EndpointSlice of IPv4 unless it has slices, and has
// its pods measured: the second costs three times as much as the first, and so on.
func (s *stage) deploy(t *testing.T, a *app) {
	t.Helper()
	if a.slices == nil {
		a.slices = []*discoveryv1.EndpointSlice{cluster.EndpointSlice(a.service, discoveryv1.AddressTypeIPv4, a.pods...)}
	}
	must(t, s.Create(t.Context(), a.service))
	for i, pod := range a.pods {
		s.meter.set(client.ObjectKeyFromObject(pod), costs(i))
		must(t, s.Create(t.Context(), pod))
	}
	for _, slice := range a.slices {
		must(t, s.Create(t.Context(), slice))
	}
}

// costs are those of the i-th pod of an app.
func costs(i int) rate { return rate{cores: 0.1 * float64(1+2*i), requests: 20} }

// warm has the pods of apps measured before they are there: it takes some seconds until
// the store can tell a rate.
func (s *stage) warm(apps ...string) {
	for _, name := range apps {
		for i := range 3 {
			s.meter.set(client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i+1)}, costs(i))
		}
	}
}

// policy is one for a service, of the same name.
func (s *stage) policy(service string, mode v1alpha1.Mode) *v1alpha1.BalancePolicy {
	return &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service},
		Spec: v1alpha1.BalancePolicySpec{
			TargetRef: v1alpha1.TargetRef{Name: service}, Mode: mode, Interval: &metav1.Duration{Duration: beat},
			Source:    &v1alpha1.Source{Type: v1alpha1.VictoriaMetrics, URL: s.store.URL, Window: &metav1.Duration{Duration: window}},
			Freshness: v1alpha1.Freshness{MaxAge: &metav1.Duration{Duration: fresh}, ReleaseAfter: &metav1.Duration{Duration: 3 * fresh}},
		},
	}
}

// enforce deploys an app with a policy and waits until weights were written for it.
func (s *stage) enforce(t *testing.T, a *app) *v1alpha1.BalancePolicy {
	t.Helper()
	s.deploy(t, a)
	return s.carryOut(t, s.policy(a.service.Name, v1alpha1.Enforce))
}

// carryOut creates a policy and waits until weights were written for it.
func (s *stage) carryOut(t *testing.T, policy *v1alpha1.BalancePolicy) *v1alpha1.BalancePolicy {
	t.Helper()
	must(t, s.Create(t.Context(), policy))
	awaitConditionOf(t, s.Cluster, policy.Namespace, policy.Name, v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	return policy
}

// awaitSettled waits until a policy's weights do not move any more: what the pods of a
// stage use does not depend on weights.
func (s *stage) awaitSettled(t *testing.T, name string) *v1alpha1.BalancePolicy {
	t.Helper()
	return awaitCondition(t, s.Cluster, name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Settled")
}

// awaitGone waits until an object is not there any more.
func awaitGone(t *testing.T, c *cluster.Cluster, within time.Duration, o client.Object) {
	t.Helper()
	key := client.ObjectKeyFromObject(o)
	eventually(t, within, fmt.Sprintf("%T %s is gone", o, key), func(ctx context.Context) error {
		err := c.Client().Get(ctx, key, o)
		if err == nil {
			return fmt.Errorf("it is there, deleted at %v, with finalizers %v", o.GetDeletionTimestamp(), o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// run runs one of our commands to its end, as a user of the cluster, and returns its
// exit code and what it has printed.
func run(t *testing.T, c *cluster.Cluster, user, command string, args ...string) (code int, output string) {
	t.Helper()
	kubeconfig, err := c.KubeconfigFor(user)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var text bytes.Buffer
	process := exec.CommandContext(ctx, filepath.Join("..", "..", "bin", command), args...)
	process.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	process.Stdout, process.Stderr = &text, &text
	err = process.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0) {
		t.Fatalf("%s %v: %v; run \"make e2e\", or \"make build\"\n%s", command, args, err, &text)
	}
	return process.ProcessState.ExitCode(), text.String()
}

// runOperator runs the operator's command to its end, as the admin.
func runOperator(t *testing.T, c *cluster.Cluster, args ...string) (code int, output string) {
	t.Helper()
	return run(t, c, cluster.Admin, "taper-operator", append(args, "--leader-election-namespace=default")...)
}

// rate is what a pod uses, evenly.
type rate struct{ cores, requests float64 }

// meter shows what pods use as cAdvisor and Istio do. Each pod keeps its rates from
// the start on.
type meter struct {
	start time.Time

	mu   sync.Mutex
	pods map[client.ObjectKey]rate
}

func (m *meter) set(pod client.ObjectKey, r rate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[pod] = r
}

// ServeHTTP answers a scrape.
func (m *meter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	seconds := time.Since(m.start).Seconds()
	for pod, r := range m.pods {
		fmt.Fprintf(&text, "container_cpu_usage_seconds_total{namespace=%q,pod=%q,container=\"app\",image=\"app\"} %g\n", pod.Namespace, pod.Name, r.cores*seconds)
		fmt.Fprintf(&text, "istio_requests_total{namespace=%q,pod=%q,reporter=\"destination\",response_code=\"200\"} %g\n", pod.Namespace, pod.Name, r.requests*seconds)
	}
	fmt.Fprint(w, text.String())
}

// outage is a way to a server that can be cut. It takes down who has asked.
type outage struct {
	URL           string
	cut           atomic.Bool
	authorization atomic.Value // of the last request, a string
}

func newOutage(t *testing.T, server string) *outage {
	t.Helper()
	target, err := url.Parse(server)
	must(t, err)
	o, proxy := &outage{}, httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.cut.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		o.authorization.Store(r.Header.Get("Authorization"))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	o.URL = front.URL
	return o
}

// hostPort is where a pod takes requests.
func hostPort(ip string, port int32) string { return net.JoinHostPort(ip, fmt.Sprint(port)) }
