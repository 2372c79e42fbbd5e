//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/test/cluster"
)

const (
	// goneWithin is how long an endpoint that left may get requests.
	goneWithin = time.Second
	// servesOn is how long a pod serves after it left, before it is really gone.
	servesOn = time.Second
	// slowOnes is how many of a crew are slow.
	slowOnes = 2
)

// crew is an app of replicas alike, but for the first few: without any difference
// there would be nothing to enforce. What they use is constant, so that weights come
// to rest, and whatever moves them after that shows.
type crew struct {
	*stage
	*app
	envoys *proxy.Group
	log    *weightLog
}

// newCrew deploys n pods, of which nobody answers yet, and Envoys of their own.
func (s *stage) newCrew(t *testing.T, istiod *cluster.Istiod, name string, n, envoys int) *crew {
	t.Helper()
	c := &crew{stage: s, app: s.newApp(name, n)}
	must(t, s.Create(t.Context(), c.service))
	for i, pod := range c.pods {
		must(t, c.employ(t.Context(), pod, i < slowOnes))
	}
	slice := cluster.EndpointSlice(c.service, discoveryv1.AddressTypeIPv4, c.pods...)
	c.slices = []*discoveryv1.EndpointSlice{slice}
	must(t, s.Create(t.Context(), slice))
	arm := cluster.Outbound(namespace, name, 8080)
	var err error
	c.envoys, err = istiod.StartEnvoys(t.Context(), cluster.Envoys{Name: name, Namespace: namespace, Count: envoys, Arms: []proxy.Arm{arm}})
	must(t, err)
	must(t, c.envoys.AwaitEndpoints(t.Context(), arm.Cluster, n))
	c.log = watchWeights(t, c.envoys, arm.Cluster)
	return c
}

// employ creates a pod, which is measured from now on.
func (c *crew) employ(ctx context.Context, pod *corev1.Pod, slow bool) error {
	uses := rate{cores: 0.1, requests: 20}
	if slow {
		uses.cores = 0.3
	}
	c.meter.set(client.ObjectKeyFromObject(pod), uses)
	return c.Create(ctx, pod)
}

// enforce has the crew balanced, and returns when its weights have come to rest.
func (c *crew) enforce(t *testing.T, every time.Duration) *v1alpha1.BalancePolicy {
	t.Helper()
	policy := c.policy(c.service.Name, v1alpha1.Enforce)
	policy.Spec.Interval = &metav1.Duration{Duration: every}
	must(t, c.Create(t.Context(), policy))
	awaitCondition(t, c.Cluster, policy.Name, v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	c.awaitSettled(t, policy.Name)
	return policy
}

// slice is the crew's, to be changed: a change reads anew into it.
func (c *crew) slice() *discoveryv1.EndpointSlice { return c.slices[0].DeepCopy() }

// departure is a way to leave a service and to come back.
type departure struct {
	name string
	// leave takes the pod's endpoint out, and end what else is to be done when the
	// pod has ended. back undoes both; it returns the pod that serves from then on.
	leave, end func(context.Context, *corev1.Pod) error
	back       func(context.Context, *corev1.Pod) (*corev1.Pod, error)
}

// departures are those that Kubernetes knows.
func (c *crew) departures() []departure {
	out := func(ctx context.Context, pod *corev1.Pod) error { return c.RemoveEndpoint(ctx, c.slice(), pod) }
	in := func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
		return pod, c.AddEndpoint(ctx, c.slice(), pod)
	}
	set := func(ctx context.Context, pod *corev1.Pod, ready, serving bool) error {
		slice := c.slice()
		return c.Change(ctx, slice, func() {
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; e.TargetRef.Name == pod.Name {
					e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(ready), Serving: ptr.To(serving), Terminating: ptr.To(serving && !ready)}
				}
			}
		})
	}
	none := func(context.Context, *corev1.Pod) error { return nil }
	return []departure{
		{"taken out", out, none, in},
		{
			"deleted",
			func(ctx context.Context, pod *corev1.Pod) error { return set(ctx, pod, false, true) },
			func(ctx context.Context, pod *corev1.Pod) error {
				return errors.Join(out(ctx, pod), c.DeletePod(ctx, pod))
			},
			func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
				again := cluster.Pod(namespace, pod.Name, c.service.Name, pod.Spec.NodeName, pod.Status.PodIP)
				if err := c.Create(ctx, again); err != nil {
					return pod, err
				}
				return in(ctx, again)
			},
		},
		{
			"not ready",
			func(ctx context.Context, pod *corev1.Pod) error { return set(ctx, pod, false, false) },
			none,
			func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) { return pod, set(ctx, pod, true, true) },
		},
	}
}

// An endpoint that leaves is gone from every Envoy within a second, with metrics or
// without. Its server ends a second after it left, and no request fails.
func TestNoRequestFailsWhenEndpointsLeave(t *testing.T) {
	s := startStage(t)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	c := s.newCrew(t, istiod, "fib", 12, 3)
	open := &servers{running: map[string]*http.Server{}}
	t.Cleanup(open.close)
	for _, address := range c.addresses() {
		must(t, open.start(address))
	}
	startOperator(t, s.Cluster, "operator", cluster.Admin)
	c.enforce(t, beat)
	failures := c.startLoad(t, 300)

	t.Run("with metrics", func(t *testing.T) {
		report(t, c.removals(t, open, 100))
	})
	t.Run("without metrics", func(t *testing.T) {
		s.store.cut.Store(true)
		awaitCondition(t, s.Cluster, "fib", v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, "")
		report(t, c.removals(t, open, 10))
	})
	if sent, failed := failures(); len(failed) > 0 || sent < 10_000 {
		t.Errorf("of %d requests some failed: %s", sent, strings.Join(failed, "; "))
	}
}

// report says how long removals took, and fails the test if that was too long.
func report(t *testing.T, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	n := len(took)
	p99 := took[(99*n+99)/100-1]
	t.Logf("%d endpoints were gone from every Envoy after %v (p50), %v (p99), %v at most", n, took[n/2], p99, took[n-1])
	if p99 > goneWithin {
		t.Errorf("p99 is %v, want at most %v", p99, goneWithin)
	}
}

// removals has endpoints leave, each in one of the ways there are, and come back, and
// returns how long it took until no Envoy had them. Several are away at a time.
func (c *crew) removals(t *testing.T, open *servers, n int) []time.Duration {
	t.Helper()
	ways := c.departures()
	present := make(chan *corev1.Pod, len(c.pods))
	for _, pod := range c.pods[slowOnes:] {
		present <- pod
	}
	var away sync.WaitGroup
	defer away.Wait()
	var took []time.Duration
	for i := range n {
		pod, way := <-present, ways[i%len(ways)]
		at := hostPort(pod.Status.PodIP, 8080)
		start := time.Now()
		ended := make(chan struct{})
		time.AfterFunc(servesOn, func() { // whether it is gone by then or not
			open.stop(at)
			close(ended)
		})
		must(t, way.leave(t.Context(), pod))
		gone, err := c.log.gone(at, start, 10*time.Second)
		if err != nil {
			t.Fatalf("%s, %s: %v", pod.Name, way.name, err)
		}
		took = append(took, gone.Round(time.Millisecond))
		away.Go(func() {
			<-ended
			back, err := c.replace(t.Context(), pod, way, open, start.Add(gone))
			if err != nil {
				t.Errorf("%s, %s: %v", pod.Name, way.name, err)
			}
			present <- back
		})
		time.Sleep(time.Duration(rand.Int64N(int64(300 * time.Millisecond)))) // not in step with anything
	}
	return took
}

// replace has a pod come back that has left and ended, after a moment in which nobody
// answers at its address. Until then no Envoy may have it.
func (c *crew) replace(ctx context.Context, pod *corev1.Pod, way departure, open *servers, gone time.Time) (*corev1.Pod, error) {
	at := hostPort(pod.Status.PodIP, 8080)
	if conn, err := net.Dial("tcp", at); err == nil {
		conn.Close()
		return pod, errors.New("somebody answers after the server has ended")
	}
	if err := way.end(ctx, pod); err != nil {
		return pod, err
	}
	time.Sleep(300 * time.Millisecond)
	if err := open.start(at); err != nil {
		return pod, err
	}
	if err := c.log.absent(at, gone, time.Now()); err != nil {
		return pod, err
	}
	back, err := way.back(ctx, pod)
	if err != nil {
		return back, err
	}
	return back, c.log.everywhere(at)
}

// startLoad sends requests through the Envoys until the test ends or the returned
// function is called, which tells how many there were, and of failures the first ones.
func (c *crew) startLoad(t *testing.T, rate float64) func() (sent uint64, failed []string) {
	t.Helper()
	g, err := load.Start(t.Context(), load.Plan{
		Targets: c.envoys.Addresses(), Host: c.service.Name + "." + namespace, Path: "/", Rate: rate, Seed: 1,
		Timeout: 5 * time.Second, MaxInFlight: 1000,
	})
	must(t, err)
	t.Cleanup(g.Stop)
	ctx, cancel := context.WithCancel(t.Context())
	var failed []string
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil && len(failed) < 5 {
			if m, err := g.Measure(ctx, time.Second); err == nil && m.Errors > 0 {
				failed = append(failed, fmt.Sprintf("%d until %s: %s", m.Errors, time.Now().Format("15:04:05.0"), m.FirstError))
			}
		}
	})
	return func() (uint64, []string) {
		cancel()
		watching.Wait()
		p := g.Progress()
		if p.Errors > 0 {
			failed = append(failed, fmt.Sprintf("%d in all", p.Errors))
		}
		return p.Sent, failed
	}
}

// servers answer for pods, each until it is stopped.
type servers struct {
	mu      sync.Mutex
	running map[string]*http.Server
}

func (s *servers) start(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, address) }),
		ReadHeaderTimeout: 10 * time.Second,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[address] = server
	go server.Serve(l) //nolint:errcheck // it ends when it is stopped
	return nil
}

// stop ends a server at once, with the requests that it has under way.
func (s *servers) stop(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[address].Close()
}

func (s *servers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.running {
		server.Close()
	}
}

// A new endpoint has at least a quarter of its fair share a second after it came, and
// all of it within two intervals, whenever in an interval it comes.
func TestNewEndpointsGetTheirShare(t *testing.T) {
	const every, newcomers = 4 * time.Second, 6
	s := startStage(t)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	c := s.newCrew(t, istiod, "grow", 42, 2)
	alike := c.addresses()[slowOnes:]
	startOperator(t, s.Cluster, "operator", cluster.Admin)
	c.enforce(t, every)

	came := map[string]time.Time{}
	for i := range newcomers {
		pod := cluster.Pod(namespace, fmt.Sprintf("new-%d", i), "grow", "node-0", s.address(true))
		must(t, c.employ(t.Context(), pod, false))
		at := hostPort(pod.Status.PodIP, 8080)
		alike, came[at] = append(alike, at), time.Now()
		must(t, c.AddEndpoint(t.Context(), c.slice(), pod))
		time.Sleep(every*2/5 + time.Duration(i)*50*time.Millisecond)
	}
	time.Sleep(2*every + time.Second)
	for at, start := range came {
		checkWarming(t, c.log, at, alike, start, every)
	}
}

// checkWarming wants a new endpoint to have had its share in time, and a quarter of it
// before that, in every Envoy and at every moment.
func checkWarming(t *testing.T, log *weightLog, at string, alike []string, came time.Time, every time.Duration) {
	t.Helper()
	const all = 0.9 // weights are coarse: two of 20 that are meant alike may differ by one
	least, full := 1.0, map[int]time.Duration{}
	log.each(came.Add(time.Second), time.Now(), func(i int, s weightState) {
		have := part(s.weights, at, alike)
		least = min(least, have)
		if _, yet := full[i]; have >= all && !yet {
			full[i] = s.at.Sub(came).Round(time.Millisecond)
		} else if late := s.at.Sub(came) > 2*every; late && have < all {
			t.Errorf("%s has %.2f of its share in Envoy %d more than two intervals of %v after it came: %v", at, have, i, every, s.weights)
		}
	})
	if least < 0.25 {
		t.Errorf("%s had %.3f of its share more than a second after it came, want a quarter", at, least)
	}
	for i := range log.looked {
		if took, ok := full[i]; !ok || took > 2*every {
			t.Errorf("%s had its share in Envoy %d after %v (%t), want it within two intervals of %v", at, i, took, ok, every)
		}
	}
	t.Logf("%s had at least %.2f of its share after 1 s, and all of it after %v, by Envoy", at, least, full)
}
