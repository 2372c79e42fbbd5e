package operator

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/operator/membership"
)

// A status that misses an endpoint for a while does no harm; one that misses a
// condition does.
func TestAStatusMayWaitForARound(t *testing.T) {
	t.Parallel()
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionHeld, Status: status, Reason: "Free"}}
	}
	before := metav1.NewTime(noon)
	written := v1alpha1.BalancePolicyStatus{ObservedAt: &before, EndpointCount: 3, Conditions: condition(metav1.ConditionFalse)}
	left := v1alpha1.BalancePolicyStatus{EndpointCount: 2, Conditions: condition(metav1.ConditionFalse)}
	held := v1alpha1.BalancePolicyStatus{EndpointCount: 2, Conditions: condition(metav1.ConditionTrue)}
	for _, test := range []struct {
		name     string
		before   v1alpha1.BalancePolicyStatus
		now      v1alpha1.BalancePolicyStatus
		interval time.Duration
		after    time.Duration
		want     bool
	}{
		{"an endpoint left just after a write", written, left, 30 * time.Second, time.Second, true},
		{"an endpoint left a while after it", written, left, 30 * time.Second, 25 * time.Second, false},
		{"a condition changed too", written, held, 30 * time.Second, time.Second, false},
		{"rounds are far apart", written, left, 10 * time.Minute, time.Second, false},
		{"nothing is written yet", v1alpha1.BalancePolicyStatus{Conditions: condition(metav1.ConditionFalse)}, left, 30 * time.Second, time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			policy := enforcing()
			policy.Spec.Interval, policy.Status = &metav1.Duration{Duration: test.interval}, test.before
			r := &reconciler{now: func() time.Time { return noon.Add(test.after) }}
			if got := r.mayWait(policy, &test.now); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// Before the first round, only what a person has to know is written.
func TestAStatusAwaitsTheFirstRound(t *testing.T) {
	t.Parallel()
	asked := &state{collected: &collected{at: noon}}
	as := func(reason string) outcome { return outcome{applied: applied{reason: reason}} }
	for _, test := range []struct {
		name string
		st   *state
		o    outcome
		want bool
	}{
		{"a new policy", &state{}, as("NotDecided"), true},
		{"after a hand-over", &state{}, as("Written"), true},
		{"after the first round", asked, as("Written"), false},
		{"a foreign entry", &state{}, as(reasonForeign), false},
		{"a write that failed", &state{}, as(reasonWriteFailed), false},
		{"stepping back", &state{}, as("SteppingBack"), false},
		{"refused", &state{}, outcome{refusal: &membership.Refusal{}}, false},
		{"a source that cannot be asked", &state{}, outcome{invalidSource: errors.New("no URL"), applied: applied{reason: "Written"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := awaitsRound(test.st, test.o); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
