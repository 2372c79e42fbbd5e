package kubectl

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func condition(kind, status, reason string, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: reason + ".", LastTransitionTime: before(since)}
}

// policy is one that is ready, with further conditions.
func policy(mode v1alpha1.Mode, conditions ...metav1.Condition) *v1alpha1.BalancePolicy {
	p := &v1alpha1.BalancePolicy{}
	p.Name, p.Namespace, p.Generation = "fib", "demo", 2
	p.Spec.TargetRef.Name, p.Spec.Mode = "fib", mode
	p.Status.ObservedGeneration = 2
	p.Status.Conditions = append([]metav1.Condition{condition(v1alpha1.ConditionReady, "True", "Fine", 5*time.Hour)}, conditions...)
	return p
}

func changed(p *v1alpha1.BalancePolicy, change func(*v1alpha1.BalancePolicy)) *v1alpha1.BalancePolicy {
	change(p)
	return p
}

func TestStandingOf(t *testing.T) {
	t.Parallel()
	const enforce, recommend = v1alpha1.Enforce, v1alpha1.Recommend
	heldFor := func(reason string) metav1.Condition {
		return condition(v1alpha1.ConditionHeld, "True", reason, time.Hour)
	}
	tests := []struct {
		name   string
		policy *v1alpha1.BalancePolicy
		state  state
		reason string
		since  time.Duration // 0: not known
	}{
		{"ready", policy(enforce), balancing, "", 5 * time.Hour},
		{"recommending", policy(recommend), recommending, "", 5 * time.Hour},
		{"mode of an old object", policy(""), recommending, "", 5 * time.Hour},
		{"on the way", policy(enforce, condition(v1alpha1.ConditionProgressing, "True", "Moving", time.Minute)), balancing, "Moving", 5 * time.Hour},
		{"no longer held", policy(enforce, condition(v1alpha1.ConditionHeld, "False", "Balanced", time.Hour)), balancing, "", time.Hour},
		{"settled", policy(enforce, heldFor("DeadBand")), balancing, "", time.Hour},
		{"no news", policy(enforce, heldFor("NoNews")), balancing, "", time.Hour},
		{"one endpoint", policy(enforce, heldFor("SingleEndpoint")), idle, "SingleEndpoint", time.Hour},
		{"stale", policy(enforce, heldFor("Stale")), held, "Stale", time.Hour},
		{"stale for less than held", policy(enforce, heldFor("Stale"), condition(v1alpha1.ConditionMetricsFresh, "False", "Stale", time.Minute)), held, "Stale", time.Minute},
		{"stale for another reason than held", policy(enforce, heldFor("GuardRailUnknown"), condition(v1alpha1.ConditionMetricsFresh, "False", "Stale", time.Minute)), held, "GuardRailUnknown", time.Hour},
		{"held by a newer operator", policy(enforce, heldFor("MoonPhase")), held, "MoonPhase", time.Hour},
		{"released", policy(enforce, heldFor("Released")), releasing, "Released", time.Hour},
		{"guard rail", policy(enforce, heldFor("GuardRailBreached")), releasing, "GuardRailBreached", time.Hour},
		{"suspended", changed(policy(enforce, heldFor("Suspended")), func(p *v1alpha1.BalancePolicy) { p.Spec.Suspend = true }), suspended, "", time.Hour},
		{"not applied", policy(enforce, heldFor("Stale"), condition(v1alpha1.ConditionApplied, "False", "ForeignServiceEntry", time.Minute)), notApplied, "ForeignServiceEntry", time.Minute},
		{"nothing to apply", policy(recommend, condition(v1alpha1.ConditionApplied, "False", "Recommend", time.Minute)), recommending, "", 5 * time.Hour},
		{"headless", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) {
			p.Status.Conditions[0] = condition(v1alpha1.ConditionReady, "False", "Headless", time.Minute)
		}), notReady, "Headless", time.Minute},
		{"readiness unknown", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) {
			p.Status.Conditions[0] = condition(v1alpha1.ConditionReady, "Unknown", "Starting", time.Minute)
		}), notReady, "Starting", time.Minute},
		{"only unknown conditions", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) {
			p.Status.Conditions = []metav1.Condition{condition("Odd", "True", "Odd", time.Minute)}
		}), balancing, "", 0},
		{"no status", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) {
			p.Status, p.CreationTimestamp = v1alpha1.BalancePolicyStatus{}, before(time.Minute)
		}), noStatus, "", time.Minute},
		{"spec changed", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) { p.Generation = 3 }), outdated, "", 0},
		{"Ready lags behind", changed(policy(enforce), func(p *v1alpha1.BalancePolicy) { p.Status.Conditions[0].ObservedGeneration = 1 }), outdated, "", 0},
		{"being deleted", changed(policy(enforce, heldFor("Stale")), func(p *v1alpha1.BalancePolicy) {
			at := before(time.Minute)
			p.DeletionTimestamp = &at
		}), releasing, "Deleted", time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := standingOf(tt.policy)
			var since time.Time
			if tt.since != 0 {
				since = now.Add(-tt.since)
			}
			if got.state != tt.state || got.reason != tt.reason || !got.since.Equal(since) {
				t.Errorf("standing is %q %q since %v, want %q %q since %v", got.state, got.reason, got.since, tt.state, tt.reason, since)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}
