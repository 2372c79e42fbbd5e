//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

// What the policies of this test have: short, so that it is, too.
const (
	faultMaxAge       = 5 * time.Second
	faultReleaseAfter = 8 * time.Second
	// faultWindow is longer than maxAge: a store that gets no samples any more goes on
	// answering with old ones.
	faultWindow = 10 * time.Second
)

// fault is something that happens to a store, and what comes of it.
type fault struct {
	name string
	// front is what answers instead of the store; begin and end do something else.
	front      disturbance
	begin, end func(*testing.T, *faultCase)
	// reason is that of the hold, Stale when empty.
	reason string
	// says is a part of what MetricsFresh tells.
	says string
	// endpoint is the reason of every endpoint that the fault concerns; any when empty.
	endpoint string
}

var faults = []fault{
	{name: "killed", says: "connection refused",
		begin: func(t *testing.T, c *faultCase) { c.database.kill(t) },
		end:   func(t *testing.T, c *faultCase) { c.database.start(t) }},
	{name: "stale", says: "no endpoint has a sample younger than 5s",
		begin: func(_ *testing.T, c *faultCase) { c.feed.silence(true, c.pods...) },
		end:   func(_ *testing.T, c *faultCase) { c.feed.silence(false, c.pods...) }},
	{name: "half-missing", reason: "LowCoverage", says: "2 of 5 endpoints have a fresh sample: 3 are needed",
		begin: func(_ *testing.T, c *faultCase) { c.feed.silence(true, c.pods[2:]...) },
		end:   func(_ *testing.T, c *faultCase) { c.feed.silence(false, c.pods[2:]...) }},
	{name: "empty", says: "no endpoint has a sample younger than 5s", endpoint: "Missing",
		front: say(200, `{"status":"success","data":{"resultType":"vector","result":[]}}`)},
	{name: "nan", says: "no endpoint has a sample younger than 5s", endpoint: "Invalid",
		front: editSeries(func(labels map[string]any, value string) string {
			if labels["taper_reading"] == "value" {
				return "NaN"
			}
			return value
		})},
	{name: "negative", says: "no endpoint has a sample younger than 5s", endpoint: "Invalid",
		front: editSeries(func(labels map[string]any, value string) string {
			if labels["taper_reading"] == "value" {
				return "-" + value
			}
			return value
		})},
	{name: "from-the-future", says: "no endpoint has a sample younger than 5s",
		front: editSeries(func(labels map[string]any, value string) string {
			if seconds, err := strconv.ParseFloat(value, 64); err == nil && labels["taper_reading"] == "time" {
				return fmt.Sprint(seconds + 3600)
			}
			return value
		})},
	{name: "other-labels", says: "name none of the endpoints",
		front: editSeries(func(labels map[string]any, value string) string {
			labels["pod"] = fmt.Sprint(labels["pod"], "-x")
			return value
		})},
	{name: "hangs", says: "deadline exceeded", front: hang},
	{name: "partial", says: "the answer is partial",
		front: edit(func(answer map[string]any) { answer["isPartial"] = true })},
	{name: "warns", says: "store-2 is away",
		front: edit(func(answer map[string]any) { answer["warnings"] = []string{"store-2 is away"} })},
	{name: "error", says: "500 Internal Server Error", front: say(500, "disk full")},
	{name: "cut-off", says: "unexpected EOF", front: cut},
}

// faultCase is a service with a policy and a store of its own, or a way of its own to
// one.
type faultCase struct {
	fault
	service  *corev1.Service
	slice    *discoveryv1.EndpointSlice
	pods     []*corev1.Pod // the last one is not behind the service at first
	policy   *v1alpha1.BalancePolicy
	database *database
	way      *front
	feed     *feed
	track    *track

	// What happened when.
	begun, left, ended time.Time
	released           step
	held               note
}

// steady is the policy whose store is fine.
const steady = "steady"

// faultTest is all that the faults share.
type faultTest struct {
	*stage
	feed   *feed
	mesh   *sidecar
	envoys *proxy.Group
	ledger *ledger
	cases  []*faultCase
	steady *faultCase
}

// Whatever happens to a store: weights are held, then given back in steps, and a wrong
// one is never in force; endpoints are followed all the same; and a policy whose store
// is fine notices nothing. All the stores fail at once.
func TestStoresThatFail(t *testing.T) {
	f := startFaults(t)
	all := append(slices.Clone(f.cases), f.steady)
	for _, c := range all {
		f.awaitBalanced(t, c)
	}

	for _, c := range f.cases {
		c.begun = time.Now()
		if c.front != nil {
			c.way.set(c.front)
		} else {
			c.begin(t, c)
		}
	}
	f.flipSteady(t)
	for _, c := range f.cases {
		c.held = f.ledger.await(t, withinDefault, c.begun, c.name, v1alpha1.ConditionHeld, metav1.ConditionTrue, c.holdReason(), "")
	}
	for _, c := range f.cases {
		c.left = time.Now()
		must(t, f.RemoveEndpoint(t.Context(), c.slice, c.pods[4]))
		must(t, f.AddEndpoint(t.Context(), c.slice, c.pods[5]))
	}
	for _, c := range f.cases {
		c.track.await(t, withinDefault, c.name+" follows its endpoints", endpointsAre(c.addresses(0, 1, 2, 3, 5)...))
		awaitWeights(t, f.envoys, c.arm(), c.track.now())
	}
	for _, c := range f.cases {
		f.ledger.await(t, withinDefault, c.begun, c.name, v1alpha1.ConditionHeld, metav1.ConditionTrue, "Released", "stepping back to equal weights")
		c.track.await(t, withinDefault, c.name+" is released", func(w model.Weights) error {
			if uneven(w) == nil {
				return fmt.Errorf("they are not equal")
			}
			return nil
		})
		c.released = step{time.Now(), c.track.now()}
		awaitWeights(t, f.envoys, c.arm(), c.released.weights)
	}
	f.flipSteady(t)

	for _, c := range f.cases {
		c.ended = time.Now()
		if c.front != nil {
			c.way.set(nil)
		} else {
			c.end(t, c)
		}
	}
	for _, c := range f.cases {
		f.ledger.await(t, withinDefault, c.ended, c.name, v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh", "")
		f.awaitBalanced(t, c)
		awaitWeights(t, f.envoys, c.arm(), c.track.now())
	}
	for _, c := range f.cases {
		t.Run(c.name, func(t *testing.T) { f.check(t, c) })
	}
	t.Run(steady, f.checkSteady)
}

// startFaults starts it all, with the operator.
func startFaults(t *testing.T) *faultTest {
	f := &faultTest{stage: &stage{Cluster: startCluster(t)}}
	must(t, f.Create(t.Context(), cluster.Namespace(namespace), cluster.Node("node-0", "eu-1", "a")))
	shared, own := startDatabase(t, f.Cluster, "store"), startDatabase(t, f.Cluster, "store-to-kill")
	f.feed = startFeed(t, shared, own)
	for _, fault := range faults {
		c := f.newCase(t, fault)
		c.database, c.way = shared, newFront(t, shared.URL)
		c.policy.Spec.Source.URL = c.way.URL
		if fault.name == "killed" {
			c.database, c.policy.Spec.Source.URL = own, own.URL
		}
		f.cases = append(f.cases, c)
	}
	f.steady = f.newCase(t, fault{name: steady})
	f.steady.policy.Spec.Source.URL = shared.URL
	f.steady.policy.Spec.Source.Window = &metav1.Duration{Duration: 3 * time.Second}
	f.feed.awaitSamples(withinDefault)

	istiod, err := f.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	f.mesh, f.ledger = newSidecar(t, istiod, "", ""), startLedger(t, f.Cluster)
	var arms []proxy.Arm
	for _, c := range append(slices.Clone(f.cases), f.steady) {
		must(t, f.Create(t.Context(), c.service))
		for _, pod := range c.pods {
			must(t, f.Create(t.Context(), pod))
		}
		c.slice = cluster.EndpointSlice(c.service, discoveryv1.AddressTypeIPv4, c.pods[:5]...)
		must(t, f.Create(t.Context(), c.slice, c.policy))
		c.track = f.mesh.track(t, outbound(c.name))
		arms = append(arms, c.arm())
	}
	f.envoys, err = istiod.StartEnvoys(t.Context(), cluster.Envoys{Namespace: namespace, Count: 1, Arms: arms})
	must(t, err)
	startOperator(t, f.Cluster, "operator", cluster.Admin)
	return f
}

// newCase is a service with pods, of which the second costs three times as much as the
// first, and so on, and its policy. They are measured, but not created yet.
func (f *faultTest) newCase(t *testing.T, happens fault) *faultCase {
	c := &faultCase{fault: happens, feed: f.feed, service: cluster.Service(namespace, happens.name, 8080)}
	for i := range 6 {
		pod := cluster.Pod(namespace, fmt.Sprintf("%s-%d", happens.name, i+1), happens.name, "node-0", f.address(true))
		f.feed.use(pod, rate{cores: 0.1 * float64(1+2*i), requests: 20})
		c.pods = append(c.pods, pod)
	}
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	c.policy = &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: happens.name},
		Spec: v1alpha1.BalancePolicySpec{
			TargetRef: v1alpha1.TargetRef{Name: happens.name}, Mode: v1alpha1.Enforce, Interval: duration(shortInterval),
			Source:    &v1alpha1.Source{Type: v1alpha1.VictoriaMetrics, Window: duration(faultWindow)},
			Freshness: v1alpha1.Freshness{MaxAge: duration(faultMaxAge), ReleaseAfter: duration(faultReleaseAfter)},
		},
	}
	return c
}

func (c *faultCase) arm() proxy.Arm { return cluster.Outbound(namespace, c.name, 8080) }

// addresses are those of pods by their place.
func (c *faultCase) addresses(pods ...int) (list []string) {
	for _, i := range pods {
		list = append(list, hostPort(c.pods[i].Status.PodIP, 8080))
	}
	return list
}

func (c *faultCase) holdReason() string {
	if c.reason != "" {
		return c.reason
	}
	return "Stale"
}

// awaitBalanced waits until a service is balanced by what its pods use, and its weights
// do not move any more.
func (f *faultTest) awaitBalanced(t *testing.T, c *faultCase) {
	t.Helper()
	a := c.addresses(0, 3)
	c.track.await(t, withinDefault, c.name+" is balanced", func(w model.Weights) error {
		if w[a[0]] < 3*w[a[1]] {
			return fmt.Errorf("%s, which costs a seventh of %s, has less than three times its weight", a[0], a[1])
		}
		return nil
	})
	f.awaitSettled(t, c.name)
}

// flipSteady makes the dearest pod of the steady policy the cheapest, or the other way
// round, and waits until its weights have followed.
func (f *faultTest) flipSteady(t *testing.T) {
	t.Helper()
	c := f.steady
	a := c.addresses(0, 4)
	was := c.track.now()
	low, high := 0, 4
	if was[a[0]] > was[a[1]] {
		low, high = high, low
	}
	f.feed.use(c.pods[low], rate{cores: 0.1, requests: 20})
	f.feed.use(c.pods[high], rate{cores: 0.9, requests: 20})
	c.track.await(t, withinDefault, "the steady policy follows what its pods use", func(now model.Weights) error {
		if now[hostPort(c.pods[low].Status.PodIP, 8080)] < 3*now[hostPort(c.pods[high].Status.PodIP, 8080)] {
			return fmt.Errorf("they were %v before pods %d and %d changed places", was, low+1, high+1)
		}
		return nil
	})
}

// check looks at what was recorded of a service and its policy.
func (f *faultTest) check(t *testing.T, c *faultCase) {
	if got, want := f.ledger.reasons(c.name, v1alpha1.ConditionHeld, c.begun), []string{"Free", c.holdReason(), "Released", "Free"}; !slices.Equal(got, want) {
		t.Errorf("weights were held for the reasons %v, want %v", got, want)
	}
	f.ledger.await(t, 0, c.begun, c.name, v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, c.holdReason(), c.says)
	if c.endpoint != "" {
		for _, e := range c.held.policy.Status.Endpoints {
			if e.Reason != c.endpoint {
				t.Errorf("endpoint %s has the reason %s, want %s", e.Pod, e.Reason, c.endpoint)
			}
		}
	}
	f.checkHeld(t, c)
	f.checkReleased(t, c)
	recovery := c.track.during(c.ended, time.Now())
	for i := range recovery[1:] {
		checkGrowth(t, recovery[i], recovery[i+1])
	}
}

// firstMove is the number of the first step that moves an endpoint which was there
// before; all of them are left alone when it is the length.
func firstMove(steps []step) int {
	for i := range steps[1:] {
		for address, w := range steps[i+1].weights {
			if was := steps[i].weights[address]; was != 0 && was != w {
				return i + 1
			}
		}
	}
	return len(steps)
}

// checkHeld wants no weight to move before its time, while endpoints come and go at
// once.
func (f *faultTest) checkHeld(t *testing.T, c *faultCase) {
	steps := c.track.during(c.begun, c.ended)
	moved := firstMove(steps)
	if moved == len(steps) {
		t.Fatalf("weights were never released: %v", steps)
	}
	if at := steps[moved].at; at.Before(c.begun.Add(faultReleaseAfter)) || at.Before(c.held.at) {
		t.Errorf("weights moved %s after the store failed, from %v to %v; held at %s", at.Sub(c.begun), steps[moved-1].weights, steps[moved].weights, c.held.at.Sub(c.begun))
	}
	gone, new := c.addresses(4)[0], c.addresses(5)[0]
	for _, s := range steps[:moved] {
		if s.weights[gone] == 0 && s.weights[new] != 0 {
			t.Logf("held after %s; endpoints followed %s after the change", c.held.at.Sub(c.begun).Round(10*time.Millisecond), s.at.Sub(c.left).Round(time.Millisecond))
			median := sortedWeights(s.weights)[len(s.weights)/2]
			if s.weights[new] > max(1, median/2) {
				t.Errorf("the new endpoint begins with %d: %v", s.weights[new], s.weights)
			}
			return
		}
	}
	t.Errorf("endpoints were not followed before weights moved: %v", steps)
}

// checkReleased wants weights to go to equal ones, step by step, and then to stay.
func (f *faultTest) checkReleased(t *testing.T, c *faultCase) {
	steps := c.track.during(c.begun, c.ended)
	steps = steps[firstMove(steps)-1:]
	if len(steps) < 3 {
		t.Errorf("weights went to equal ones at once: %v", steps)
	}
	for i := range steps[1:] {
		checkGrowth(t, steps[i], steps[i+1])
		if was, is := spread(steps[i].weights), spread(steps[i+1].weights); is >= was {
			t.Errorf("step %d of the release leads away from equal: %v", i+1, steps)
		}
		if pause := steps[i+1].at.Sub(steps[i].at); i > 0 && pause < shortInterval/2 {
			t.Errorf("step %d of the release came after %s", i+1, pause)
		}
	}
	if last := steps[len(steps)-1].weights; uneven(last) == nil {
		t.Errorf("weights were never equal: %v", steps)
	}
	t.Logf("released in %d steps, the first %s after the store failed", len(steps)-1, steps[1].at.Sub(c.begun).Round(10*time.Millisecond))
}

// checkGrowth wants no share to more than double in a step, or to pass half of the equal
// one; weights are coarse, so they may be off by one.
func checkGrowth(t *testing.T, was, is step) {
	t.Helper()
	total := 0.0
	for _, w := range was.weights {
		total += float64(w)
	}
	sum := 0.0
	for _, w := range is.weights {
		sum += float64(w)
	}
	for address, w := range is.weights {
		before, equal := float64(was.weights[address])/total*sum, sum/float64(len(is.weights))
		if most := math.Max(2*before, equal/2) + 1; before > 0 && float64(w) > most {
			t.Errorf("the weight of %s grows to %d from %v to %v: at most %.1f", address, w, was.weights, is.weights, most)
		}
	}
}

func sortedWeights(w model.Weights) (list []uint32) {
	for _, weight := range w {
		list = append(list, weight)
	}
	slices.Sort(list)
	return list
}

// checkSteady wants the policy whose store was fine never to have been held.
func (f *faultTest) checkSteady(t *testing.T) {
	from := f.cases[0].begun
	if got := f.ledger.reasons(steady, v1alpha1.ConditionHeld, from); !slices.Equal(got, []string{"Free"}) {
		t.Errorf("weights were held for the reasons %v", got)
	}
	if got := f.ledger.reasons(steady, v1alpha1.ConditionMetricsFresh, from); !slices.Equal(got, []string{"Fresh"}) {
		t.Errorf("its samples were %v", got)
	}
}
