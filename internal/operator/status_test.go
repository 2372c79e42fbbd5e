package operator

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/operator/membership"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// measured is a service of n endpoints that use CPU as told, at a time.
func measured(at time.Time, cpu ...float64) (endpoints []model.Endpoint, snapshot model.Snapshot) {
	snapshot = model.Snapshot{}
	for i, cores := range cpu {
		address := fmt.Sprintf("10.9.1.%d", i+1)
		endpoints = append(endpoints, model.Endpoint{Address: address, Name: fmt.Sprintf("demo/fib-%d", i+1), Capacity: 2})
		snapshot[address] = model.Sample{CPU: model.Reading{Value: cores, At: at}, Requests: model.Reading{Value: 100, At: at}}
	}
	return endpoints, snapshot
}

// decided is the state of a policy after a decision on these samples.
func decided(t *testing.T, policy *v1alpha1.BalancePolicy, st *state, now time.Time, endpoints []model.Endpoint, snapshot model.Snapshot, sourceErr error) {
	t.Helper()
	p, err := settings(&policy.Spec)
	if err != nil {
		t.Fatal(err)
	}
	st.mode = policy.Spec.Mode
	st.collect(now, sourceErr)
	in := balance.Input{Now: now, Endpoints: endpoints, Snapshot: snapshot, Current: st.current(), Memory: st.memory, Policy: p}
	st.accept(balance.Decide(in), in)
}

func enforcing() *v1alpha1.BalancePolicy {
	return &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fib", Generation: 3},
		Spec:       v1alpha1.BalancePolicySpec{TargetRef: v1alpha1.TargetRef{Name: "fib"}, Mode: v1alpha1.Enforce},
	}
}

func viewOf(endpoints []model.Endpoint) *view {
	return &view{service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "fib"}}, endpoints: endpoints}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	written := applied{metav1.ConditionTrue, "Written", "written", []string{"taper-fib-http"}}
	endpoints, fresh := measured(noon, 1, 0.2, 0.2, 0.2)
	_, old := measured(noon.Add(-time.Hour), 1, 0.2, 0.2, 0.2)
	for _, test := range []struct {
		name string
		do   func(*v1alpha1.BalancePolicy, *state) outcome
		want map[string]string // type to status and reason
	}{
		{"not asked yet", func(_ *v1alpha1.BalancePolicy, st *state) outcome {
			st.members = endpoints
			return outcome{seen: viewOf(endpoints), applied: applied{metav1.ConditionFalse, "NotDecided", "", nil}}
		}, map[string]string{"Ready": "True Enforcing", "MetricsFresh": "Unknown NotAsked", "Held": "True Starting", "Applied": "False NotDecided", "Progressing": "False Settled"}},
		{"moving", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			decided(t, p, st, noon, endpoints, fresh, nil)
			return outcome{seen: viewOf(endpoints), applied: written}
		}, map[string]string{"Ready": "True Enforcing", "MetricsFresh": "True Fresh", "Held": "False Free", "Applied": "True Written", "Progressing": "True Moving"}},
		{"stale", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			decided(t, p, st, noon, endpoints, old, errors.New("connection refused"))
			return outcome{seen: viewOf(endpoints), applied: written}
		}, map[string]string{"MetricsFresh": "False Stale", "Held": "True Stale"}},
		{"the source fails and what is known is fresh still", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			decided(t, p, st, noon, endpoints, fresh, nil)
			decided(t, p, st, noon.Add(time.Second), endpoints, model.Snapshot{}, errors.New("connection refused"))
			decided(t, p, st, noon.Add(2*time.Second), endpoints, model.Snapshot{}, errors.New("connection refused"))
			return outcome{seen: viewOf(endpoints), applied: written}
		}, map[string]string{"MetricsFresh": "False SourceFailed"}},
		{"the source fails once", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			decided(t, p, st, noon, endpoints, fresh, nil)
			decided(t, p, st, noon.Add(time.Second), endpoints, model.Snapshot{}, errors.New("connection refused"))
			return outcome{seen: viewOf(endpoints), applied: written}
		}, map[string]string{"MetricsFresh": "True Fresh"}},
		{"suspended", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			decided(t, p, st, noon, endpoints, fresh, nil)
			p.Spec.Suspend = true
			return outcome{seen: viewOf(endpoints), applied: written}
		}, map[string]string{"Ready": "True Suspended", "Held": "True Suspended"}},
		{"a source that cannot be asked", func(p *v1alpha1.BalancePolicy, st *state) outcome {
			return outcome{seen: viewOf(endpoints), applied: written, invalidSource: errors.New("bad selector")}
		}, map[string]string{"Ready": "False InvalidSource"}},
		{"refused", func(*v1alpha1.BalancePolicy, *state) outcome {
			return outcome{refusal: &membership.Refusal{Reason: "Headless", Message: "it has no address"}}
		}, map[string]string{"Ready": "False Headless", "MetricsFresh": "Unknown NotReady", "Held": "Unknown NotReady", "Applied": "False NotReady", "Progressing": "Unknown NotReady"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			policy, st := enforcing(), &state{}
			o := test.do(policy, st)
			status := buildStatus(policy, st, o, metav1.NewTime(noon))
			for kind, want := range test.want {
				c := apimeta.FindStatusCondition(status.Conditions, kind)
				if c == nil || string(c.Status)+" "+c.Reason != want || c.ObservedGeneration != 3 {
					t.Errorf("%s is %+v, want %s", kind, c, want)
				}
			}
		})
	}
}

// What is measured anew in every interval must not be written in every interval.
func TestAStatusIsWrittenForWhatMatters(t *testing.T) {
	t.Parallel()
	policy, st := enforcing(), &state{}
	written := applied{metav1.ConditionTrue, "Written", "written", []string{"taper-fib-http"}}
	status := func(at time.Time, cpu ...float64) v1alpha1.BalancePolicyStatus {
		endpoints, snapshot := measured(at, cpu...)
		decided(t, policy, st, at, endpoints, snapshot, nil)
		st.written(at)
		return buildStatus(policy, st, outcome{seen: viewOf(endpoints), applied: written}, metav1.NewTime(at))
	}
	at := noon
	next := func() time.Time { at = at.Add(30 * time.Second); return at }
	for range 10 {
		policy.Status = status(next(), 0.4, 0.2, 0.2, 0.2)
	}
	for i, cpu := range [][]float64{{0.4, 0.2, 0.2, 0.2}, {0.401, 0.2, 0.2003, 0.2}, {0.399, 0.2004, 0.2, 0.2}} {
		if got := status(next(), cpu...); !sameStatus(&policy.Status, &got) {
			t.Errorf("round %d: written for nothing:\n%+v\n%+v", i, policy.Status.Endpoints, got.Endpoints)
		}
	}
	if got := status(next(), 0.4, 0.2, 0.2); sameStatus(&policy.Status, &got) {
		t.Error("an endpoint left, and the status was not written")
	}
}

// A source that fails for another reason than before says so, and not in every interval.
func TestAStatusIsReworded(t *testing.T) {
	t.Parallel()
	interval := intervalOf(&enforcing().Spec)
	for _, test := range []struct {
		name   string
		before string
		now    string
		after  time.Duration
		want   bool
	}{
		{"the same", "no sample for 10s: connection refused", "no sample for 10s: connection refused", time.Hour, false},
		{"an age", "no sample for 10s: connection refused", "no sample for 40s: connection refused", time.Hour, false},
		{"another port of ours", "read tcp 10.9.1.1:4711->10.9.1.2:80: reset", "read tcp 10.9.1.1:4712->10.9.1.2:80: reset", time.Hour, false},
		{"another reason", "no sample for 10s: connection refused", "no sample for 40s: 401 Unauthorized", 2 * interval, true},
		{"another reason, at once", "no sample for 10s: connection refused", "no sample for 40s: 401 Unauthorized", interval, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status := func(message string, at time.Time) v1alpha1.BalancePolicyStatus {
				observed := metav1.NewTime(at)
				return v1alpha1.BalancePolicyStatus{ObservedAt: &observed, Conditions: []metav1.Condition{{Type: "MetricsFresh", Message: message}}}
			}
			policy := enforcing()
			policy.Status = status(test.before, noon)
			now := status(test.now, noon.Add(test.after))
			r := &reconciler{now: func() time.Time { return noon.Add(test.after) }}
			if got := r.reworded(policy, &now); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestRestoreTakesOverWhatIsInForce(t *testing.T) {
	t.Parallel()
	endpoints, fresh := measured(noon, 1, 0.2, 0.2, 0.2)
	st := &state{restored: true, engaged: true, weights: model.Weights{"10.9.1.1": 5, "10.9.1.2": 25, "10.9.1.3": 25, "10.9.1.4": 25}}
	policy := enforcing()
	p, err := settings(&policy.Spec)
	if err != nil {
		t.Fatal(err)
	}
	st.written(noon)
	in := balance.Input{Now: noon, Endpoints: endpoints, Current: st.current(), Policy: p}
	st.accept(balance.Decide(in), in)
	if st.weights["10.9.1.1"] != 5 || st.weights["10.9.1.2"] != 25 {
		t.Errorf("the first look moved weights: %v", st.weights)
	}
	decided(t, policy, st, noon, endpoints, fresh, nil)
	if !st.engaged || st.weights["10.9.1.1"] > 20 {
		t.Errorf("after samples: engaged %t, %v", st.engaged, st.weights)
	}
}

// While nothing can be written, decisions step from what serves: else the first write
// after an outage would be all of its steps at once.
func TestWeightsThatAreNotWrittenAreNotSteppedFrom(t *testing.T) {
	t.Parallel()
	policy, st, at := enforcing(), &state{}, noon
	policy.Spec.Limits.StepPercent = 20
	round := func() model.Weights {
		at = at.Add(30 * time.Second)
		endpoints, snapshot := measured(at, 1, 0.2, 0.2, 0.2)
		decided(t, policy, st, at, endpoints, snapshot, nil)
		return st.weights
	}
	first := round()
	for range 5 { // nothing is written, not even the first time
		if got := round(); !maps.Equal(got, first) {
			t.Fatalf("decided %v after %v, which nobody has written", got, first)
		}
	}
	st.written(at)
	second := round()
	if maps.Equal(second, first) {
		t.Fatalf("the test shows nothing: no second step from %v", first)
	}
	for range 5 {
		if got := round(); got["10.9.1.1"] != second["10.9.1.1"] {
			t.Errorf("decided %v after %v, from %v in force", got, second, first)
		}
	}
	st.written(at)
	if !st.moved.Equal(at) {
		t.Errorf("weights moved at %s, which were written at %s", st.moved, at)
	}
}

// CPU alone is divided by the share in force: what was used under other weights must
// not be.
func TestCPUFromBeforeTheWeightsDoesNotCount(t *testing.T) {
	t.Parallel()
	endpoints, _ := measured(noon, 1, 1)
	p := balance.DefaultPolicy(30 * time.Second)
	inForce, proposed := &state{engaged: true, moved: noon}, &state{moved: noon}
	for _, test := range []struct {
		name       string
		st         *state
		at         time.Duration // of the samples, after weights moved
		asked      time.Duration
		window     time.Duration
		requests   bool
		want       int // of 2 samples
		mixedFresh bool
	}{
		{name: "before", st: inForce, at: -time.Second, asked: 5 * time.Second, mixedFresh: true},
		{name: "too soon", st: inForce, at: 29 * time.Second, asked: 30 * time.Second, mixedFresh: true},
		{name: "an interval later", st: inForce, at: 30 * time.Second, asked: 30 * time.Second, want: 2},
		{name: "its window is shorter", st: inForce, at: 15 * time.Second, asked: 30 * time.Second, window: 10 * time.Second, mixedFresh: true},
		{name: "its window began before", st: inForce, at: 119 * time.Second, asked: 2 * time.Minute, window: 2 * time.Minute, mixedFresh: true},
		{name: "its window began with them", st: inForce, at: 2 * time.Minute, asked: 2 * time.Minute, window: 2 * time.Minute, want: 2},
		{name: "stale as well", st: inForce, at: time.Second, asked: 2 * time.Minute},
		{name: "with request rates", st: inForce, at: -time.Second, asked: time.Second, requests: true, want: 2},
		{name: "nothing is in force", st: proposed, asked: time.Second, want: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &round{at: noon.Add(test.asked), snapshot: model.Snapshot{}}
			for _, e := range endpoints {
				sample := model.Sample{CPU: model.Reading{Value: 1, At: noon.Add(test.at)}, Window: test.window}
				if test.requests {
					sample.Requests = model.Reading{Value: 10, At: noon}
				}
				r.snapshot[e.Name] = sample
			}
			got, mixed := test.st.snapshot(endpoints, r, &p)
			if len(got) != test.want || mixed != test.mixedFresh {
				t.Errorf("%d samples count, fresh but mixed: %t; want %d, %t", len(got), mixed, test.want, test.mixedFresh)
			}
		})
	}
}
