package operator

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/operator/membership"
)

// A status that differs in endpoints alone waits for samples, or a while, and then for
// its turn; one that differs in a condition does not.
func TestAStatusOfEndpointsMayWait(t *testing.T) {
	t.Parallel()
	const never = time.Duration(-1)
	for _, test := range []struct {
		name     string
		interval time.Duration
		observed time.Duration   // when the last status was written; never
		looks    []time.Duration // when the policy is looked at
		sampled  []bool          // whether a decision with samples has just been made
		taken    int             // turns that others have taken
		want     time.Duration   // when it is written
	}{
		{"an endpoint left", 30 * time.Second, -time.Hour, []time.Duration{0, 15 * time.Second}, []bool{false, false}, 0, 15 * time.Second},
		{"another one meanwhile", 30 * time.Second, -time.Hour, []time.Duration{0, 9 * time.Second, 15 * time.Second}, []bool{false, false, false}, 0, 15 * time.Second},
		{"samples came meanwhile", 30 * time.Second, -time.Hour, []time.Duration{0, 9 * time.Second}, []bool{false, true}, 0, 9 * time.Second},
		{"samples came", 30 * time.Second, never, []time.Duration{0}, []bool{true}, 0, 0},
		{"just after another status", 30 * time.Second, -4 * time.Second, []time.Duration{0, 11 * time.Second}, []bool{true, true}, 0, 11 * time.Second},
		{"a short interval", 2 * time.Second, -time.Hour, []time.Duration{0, 1500 * time.Millisecond}, []bool{false, false}, 0, 1500 * time.Millisecond},
		{"a long interval", time.Hour, -time.Hour, []time.Duration{0, 15 * time.Second}, []bool{false, false}, 0, 15 * time.Second},
		{"many others", 30 * time.Second, -time.Hour, []time.Duration{0, time.Second, 3 * time.Second}, []bool{true, true, false}, statusesAtOnce + 29, 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var now time.Time
			r := &reconciler{now: func() time.Time { return now }, pace: &pace{every: statusEvery, atOnce: statusesAtOnce}}
			for range test.taken {
				r.pace.next(noon)
			}
			policy, st := enforcing(), &state{}
			policy.Spec.Interval = &metav1.Duration{Duration: test.interval}
			if test.observed != never {
				observed := metav1.NewTime(noon.Add(test.observed))
				policy.Status.ObservedAt = &observed
			}
			status := policy.Status
			status.EndpointCount = 7
			for i, at := range test.looks {
				now = noon.Add(at)
				waits := r.mayWait(policy, &status, st, test.sampled[i])
				if waits != (at < test.want) {
					t.Fatalf("after %s it waits: %t; it is to be written after %s", at, waits, test.want)
				}
				if again := r.untilDue(st); waits && (again <= 0 || at+again < test.want && !st.due.paced && i == len(test.looks)-2) {
					t.Errorf("after %s it is looked at again after %s; it is to be written after %s", at, again, test.want)
				}
			}
		})
	}
}

// What a person has asked for is told at once, and endpoints last.
func TestHowUrgentAStatusIs(t *testing.T) {
	t.Parallel()
	const atOnce, paced, settled = "at once", "paced", "settled"
	status := func(change func(*v1alpha1.BalancePolicyStatus)) *v1alpha1.BalancePolicyStatus {
		s := &v1alpha1.BalancePolicyStatus{
			ObservedGeneration: 3, EndpointCount: 3, ServiceEntries: []string{"taper-fib.http"},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Enforcing"},
				{Type: v1alpha1.ConditionHeld, Status: "False", Reason: "Free"},
				{Type: v1alpha1.ConditionProgressing, Status: "False", Reason: reasonSettled},
			},
			Endpoints: []v1alpha1.EndpointStatus{{Pod: "fib-1", Weight: 20}},
		}
		change(s)
		return s
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.BalancePolicyStatus)
		want   string
	}{
		"an endpoint": {func(s *v1alpha1.BalancePolicyStatus) { s.EndpointCount, s.Endpoints = 2, nil }, settled},
		"a weight":    {func(s *v1alpha1.BalancePolicyStatus) { s.Endpoints[0].Weight = 10 }, settled},
		"weights move": {func(s *v1alpha1.BalancePolicyStatus) {
			s.Conditions[2].Status, s.Conditions[2].Reason = "True", "Moving"
		}, settled},
		"a hold": {func(s *v1alpha1.BalancePolicyStatus) {
			s.Conditions[1].Status, s.Conditions[1].Reason = "True", "Stale"
		}, paced},
		"another hold":  {func(s *v1alpha1.BalancePolicyStatus) { s.Conditions[1].Reason = "Idle" }, paced},
		"other samples": {func(s *v1alpha1.BalancePolicyStatus) { s.Evidence = "cpu-only" }, paced},
		"not ready":     {func(s *v1alpha1.BalancePolicyStatus) { s.Conditions[0].Status = "False" }, atOnce},
		"an entry":      {func(s *v1alpha1.BalancePolicyStatus) { s.ServiceEntries = nil }, atOnce},
		"another spec":  {func(s *v1alpha1.BalancePolicyStatus) { s.ObservedGeneration = 4 }, atOnce},
		"a new kind":    {func(s *v1alpha1.BalancePolicyStatus) { s.Conditions = s.Conditions[:2] }, atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after, got := status(func(*v1alpha1.BalancePolicyStatus) {}), status(test.change), paced
			switch {
			case isUrgent(before, after):
				got = atOnce
			case onlyEndpointsDiffer(before, after):
				got = settled
			}
			if got != test.want {
				t.Errorf("it is written %s, want %s", got, test.want)
			}
			if sameStatus(before, after) {
				t.Error("it is not written at all")
			}
		})
	}
}

// Events are for what somebody may want to act on, or was told to.
func TestEvents(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) *metav1.Condition {
		return &metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: "because"}
	}
	for _, test := range []struct {
		name     string
		was, now *metav1.Condition
		want     string // an event
	}{
		{"a policy is carried out", nil, condition("Ready", "True", "Enforcing"), "Normal Enforcing Ready: because"},
		{"a mode changes", condition("Ready", "True", "Recommending"), condition("Ready", "True", "Enforcing"), "Normal Enforcing Ready: because"},
		{"a refusal", nil, condition("Ready", "False", "Headless"), "Warning Headless Ready: because"},
		{"weights are written", condition("Applied", "False", "NotDecided"), condition("Applied", "True", "Written"), "Normal Written Applied: because"},
		{"another's entry", condition("Applied", "True", "Written"), condition("Applied", "False", reasonForeign), "Warning ForeignServiceEntry Applied: because"},
		{"a hold begins", condition("Held", "False", "Free"), condition("Held", "True", "Stale"), "Warning Stale Held: because"},
		{"a hold ends", condition("Held", "True", "Stale"), condition("Held", "False", "Free"), "Normal Free Held: because"},
		{"the start ends", condition("Held", "True", reasonStarting), condition("Held", "False", "Free"), ""},
		{"no hold at all", nil, condition("Held", "False", "Free"), ""},
		{"samples from the start", condition("MetricsFresh", "Unknown", "NotAsked"), condition("MetricsFresh", "True", "Fresh"), ""},
		{"samples again", condition("MetricsFresh", "False", "SourceFailed"), condition("MetricsFresh", "True", "Fresh"), "Normal Fresh MetricsFresh: because"},
		{"weights move", condition("Progressing", "False", reasonSettled), condition("Progressing", "True", "Moving"), ""},
		{"weights rest", condition("Progressing", "True", "Moving"), condition("Progressing", "False", reasonSettled), ""},
		{"not carried out", condition("Applied", "True", "Written"), condition("Applied", "False", reasonNotReady), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			recorder := events.NewFakeRecorder(1)
			r := &reconciler{events: recorder}
			r.tell(enforcing(), test.was, *test.now)
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What was written counts as told until the cache shows something newer.
func TestACacheThatLagsIsNotBelieved(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int32{"7": 2, "8": 1, "9": 1} {
		policy, st := enforcing(), &state{reported: &reported{version: "8", status: v1alpha1.BalancePolicyStatus{EndpointCount: 2}}}
		policy.ResourceVersion, policy.Status.EndpointCount = version, 1
		if got := st.asReported(policy).Status.EndpointCount; got != want {
			t.Errorf("the cache has version %s, 8 was written: %d endpoints count as told, want %d", version, got, want)
		}
		if (st.reported == nil) != (want == 1) {
			t.Errorf("version %s: what was written is kept: %t", version, st.reported != nil)
		}
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
