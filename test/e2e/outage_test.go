//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/test/cluster"
)

const (
	// takenOverWithin is how long an endpoint that left may get requests when the
	// leader is killed meanwhile.
	takenOverWithin = 5 * time.Second
	// handedOverWithin is the same for a leader that ends in order: shorter than the
	// lease, which is given back.
	handedOverWithin = 2 * time.Second
	// unmoved is by how much a share may change that nothing has happened to: weights
	// are coarse, and the load is another where replicas have left.
	unmoved = 1.25
)

// outages is a crew at rest, and the operators that look after it.
type outages struct {
	*crew
	t         *testing.T // of the outage that is going on
	all       *testing.T
	operators []*operatorProcess
	started   int
	left      map[string]bool // addresses of pods that have left once
}

// TestWeightsSurviveOutages ends each part of the control plane in turn. What left is
// gone in time, and the shares of those who stayed do not move, in any Envoy and at no
// moment.
func TestWeightsSurviveOutages(t *testing.T) {
	s := startStage(t)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	o := &outages{crew: s.newCrew(t, istiod, "fib", 20, 2), t: t, all: t, left: map[string]bool{}}
	o.addOperator()
	o.addOperator()
	o.enforce(t, beat)
	for _, test := range []struct {
		name string
		run  func(*outages)
	}{
		{"leader killed", testLeaderKilled},
		{"leader ends", testLeaderEnds},
		{"API server killed", testAPIServerKilled},
		{"etcd hangs", testEtcdHangs},
		{"istiod killed", func(o *outages) { testIstiodKilled(o, istiod) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			o.t = t
			test.run(o)
		})
	}
}

func (o *outages) addOperator() {
	o.started++
	o.operators = append(o.operators, startOperator(o.all, o.Cluster, fmt.Sprintf("operator-%d", o.started), cluster.Admin))
}

// endLeader ends the leader in some way, and leaves it to itself.
func (o *outages) endLeader(how func(*operatorProcess)) {
	o.t.Helper()
	leader, standby := awaitLeader(o.t, o.operators)
	how(leader)
	o.operators = standby
}

// next is a pod that has not left yet.
func (o *outages) next() *corev1.Pod {
	o.t.Helper()
	for _, pod := range o.pods[slowOnes:] {
		if at := hostPort(pod.Status.PodIP, 8080); !o.left[at] {
			o.left[at] = true
			return pod
		}
	}
	o.t.Fatal("no pod is left")
	return nil
}

// stayed are the addresses of pods that never left.
func (o *outages) stayed() []string {
	return slices.DeleteFunc(o.addresses(), func(at string) bool { return o.left[at] })
}

// awaitGone waits until no Envoy has an endpoint that left at a time.
func (o *outages) awaitGone(pod *corev1.Pod, start time.Time, within time.Duration) time.Duration {
	o.t.Helper()
	took, err := o.log.gone(hostPort(pod.Status.PodIP, 8080), start, 30*time.Second)
	must(o.t, err)
	if took > within {
		o.t.Errorf("the endpoint was gone after %v, want at most %v", took, within)
	}
	return took.Round(time.Millisecond)
}

// checkSteady wants those who stayed to have kept their shares since a time.
func (o *outages) checkSteady(from time.Time) {
	o.t.Helper()
	worst, err := o.log.steady(o.stayed(), from, unmoved)
	if err != nil {
		o.t.Error(err)
	}
	o.t.Logf("a share of those who stayed changed by a factor of %.2f at most", worst)
}

// entry is taper's for the service.
func (o *outages) entry() *istionetworkingv1.ServiceEntry {
	o.t.Helper()
	var entry istionetworkingv1.ServiceEntry
	must(o.t, o.Client().Get(o.t.Context(), client.ObjectKey{Namespace: namespace, Name: "taper-fib.http"}, &entry))
	return &entry
}

// atRest waits until the entry is not written any more, and returns its generation,
// which counts its writes.
func (o *outages) atRest() int64 {
	o.t.Helper()
	last, since := o.entry().Generation, time.Now()
	eventually(o.t, withinDefault, "the entry is not written any more", func(context.Context) error {
		if now := o.entry().Generation; now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 5*beat/2 {
			return fmt.Errorf("it was %v ago", quiet)
		}
		return nil
	})
	return last
}

// testLeaderKilled kills leaders just before an endpoint leaves, and at moments in
// which the change is on its way: what one has begun, the next has to finish.
func testLeaderKilled(o *outages) {
	began := time.Now()
	const before = -time.Millisecond
	for _, after := range []time.Duration{before, before, 0, 0, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond} {
		pod := o.next()
		kill := func(p *operatorProcess) { must(o.t, syscall.Kill(p.PID(), syscall.SIGKILL)) }
		var start time.Time
		if after == before {
			o.endLeader(kill)
			start = time.Now()
			must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
		} else {
			o.endLeader(func(p *operatorProcess) {
				start = time.Now()
				must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
				time.Sleep(after)
				kill(p)
			})
		}
		o.t.Logf("leader killed %v after the endpoint left, which was gone after %v", after, o.awaitGone(pod, start, takenOverWithin))
		awaitLeader(o.t, o.operators)
		o.addOperator()
	}
	o.checkSteady(began)
}

// testLeaderEnds asks leaders to end as an endpoint leaves.
func testLeaderEnds(o *outages) {
	began := time.Now()
	for range 2 {
		pod := o.next()
		o.endLeader(func(p *operatorProcess) { must(o.t, syscall.Kill(p.PID(), syscall.SIGTERM)) })
		start := time.Now()
		must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
		o.t.Logf("gone after %v", o.awaitGone(pod, start, handedOverWithin))
		o.addOperator()
	}
	o.checkSteady(began)
}

// testAPIServerKilled has an endpoint leave as soon as the API server is back after an
// outage longer than the lease. The back-off between watches has grown meanwhile, the
// operator's and istiod's alike: they see it some seconds later.
func testAPIServerKilled(o *outages) {
	before, began := o.atRest(), time.Now()
	o.APIServer.Kill()
	time.Sleep(5 * time.Second)
	must(o.t, o.APIServer.Start(o.t.Context()))
	if now := o.entry().Generation; now != before {
		o.t.Errorf("the entry was written %d times in the outage", now-before)
	}
	pod, start := o.next(), time.Now()
	must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
	eventually(o.t, withinDefault, "the endpoint is out of the entry", func(context.Context) error {
		for _, e := range o.entry().Spec.Endpoints {
			if e.Address == pod.Status.PodIP {
				return errors.New("it is there")
			}
		}
		return nil
	})
	written := time.Since(start).Round(time.Millisecond)
	o.t.Logf("what left when the API server was back was out of the entry after %v, and out of the Envoys after %v",
		written, o.awaitGone(pod, start, withinDefault))
	o.checkResumed()
	o.checkSteady(began)
}

// testEtcdHangs has the API server answer nothing for longer than the lease.
func testEtcdHangs(o *outages) {
	before, began := o.atRest(), time.Now()
	o.Etcd.Pause()
	time.Sleep(5 * time.Second)
	o.Etcd.Resume()
	o.checkResumed()
	time.Sleep(2 * beat) // decisions are made, and have nothing to change
	if now := o.entry().Generation; now != before {
		o.t.Errorf("the entry was written %d times, for no reason", now-before)
	}
	pod, start := o.next(), time.Now()
	must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
	o.t.Logf("what left after the outage was gone after %v", o.awaitGone(pod, start, goneWithin))
	o.checkSteady(began)
}

// checkResumed wants the same processes to be at work again, one of them as the leader
// and with samples of its own.
func (o *outages) checkResumed() {
	o.t.Helper()
	leader, _ := awaitLeader(o.t, o.operators)
	for _, p := range o.operators {
		if err := p.Err(); err != nil {
			o.t.Error(err)
		}
	}
	eventually(o.t, withinDefault, "the leader decides", func(ctx context.Context) error { return hasSamples(ctx, leader) })
}

// hasSamples is nil once a leader has decided with samples.
func hasSamples(ctx context.Context, p *operatorProcess) error {
	text, err := fetch(ctx, p.URL+"/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "\ntaper_policy_last_decision_timestamp_seconds{") {
		return errors.New("it has not decided with any")
	}
	return nil
}

// testIstiodKilled has an endpoint leave while there is no istiod.
func testIstiodKilled(o *outages, istiod *cluster.Istiod) {
	before, began := o.atRest(), time.Now()
	istiod.Kill()
	pod, start := o.next(), time.Now()
	must(o.t, o.RemoveEndpoint(o.t.Context(), o.slice(), pod))
	time.Sleep(2 * time.Second)
	if err := o.log.everywhere(hostPort(pod.Status.PodIP, 8080)); err != nil {
		o.t.Errorf("without istiod an Envoy has dropped an endpoint: %v", err)
	}
	if o.entry().Generation == before {
		o.t.Error("the entry was not written while there was no istiod")
	}
	must(o.t, istiod.Start(o.t.Context()))
	back := time.Now()
	o.awaitGone(pod, start, withinDefault)
	o.t.Logf("what left while istiod was away was gone %v after it was back", time.Since(back).Round(time.Millisecond))
	o.checkSteady(began)
}
