package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/membership"
)

// Reasons that more than one place has to know.
const (
	reasonConflict    = "Conflict"
	reasonForeign     = "ForeignServiceEntry"
	reasonWriteFailed = "WriteFailed"
	reasonStarting    = "Starting"
	reasonSettled     = "Settled"
)

// outcome is how a reconciliation ended: in a refusal, or in what was seen and applied.
type outcome struct {
	refusal *membership.Refusal
	seen    *view
	// invalidSource is what is wrong with the source as it is written.
	invalidSource error
	applied       applied
	// decided tells that a decision was made, and not only looked at again.
	decided bool
}

// report writes the status if something in it has changed that matters, and tells
// events of conditions that changed.
func (r *reconciler) report(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, o outcome) error {
	status := buildStatus(policy, st, o, metav1.NewTime(r.now()))
	changed := changedConditions(policy.Status.Conditions, status.Conditions)
	r.record(policy, st, status, o.decided)
	if awaitsRound(st, o) {
		return nil
	}
	if sameStatus(&policy.Status, &status) && !r.reworded(policy, &status) || r.mayWait(policy, &status) {
		return nil
	}
	written := policy.DeepCopy()
	written.Status = status
	if err := r.client.Status().Patch(ctx, written, client.MergeFrom(policy)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // deleted meanwhile
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	for _, c := range changed {
		r.tell(policy, c)
	}
	return nil
}

// awaitsRound tells whether the status can wait for the first samples, which are being
// asked for. After a hand-over it would be written twice for every policy: that
// nothing is known, and a moment later what is.
func awaitsRound(st *state, o outcome) bool {
	return st.collected == nil && o.refusal == nil && o.invalidSource == nil &&
		slices.Contains([]string{"Recommending", "NotDecided", "Written", "Served"}, o.applied.reason)
}

// mostLag is for how long at most a status may miss endpoints that came or went.
const mostLag = 2 * time.Minute

// mayWait tells whether a status can be left to a later round of samples: where
// endpoints keep coming and going, it would be as large a load on the API server as
// the entries are. It is written about once an interval then; the round after the next
// one does so in any case.
func (r *reconciler) mayWait(policy *v1alpha1.BalancePolicy, status *v1alpha1.BalancePolicyStatus) bool {
	before, interval := &policy.Status, intervalOf(&policy.Spec)
	return 2*interval <= mostLag && sameBesidesEndpoints(before, status) &&
		before.ObservedAt != nil && r.now().Sub(before.ObservedAt.Time) < interval*3/4
}

// reworded tells whether conditions that are what they were have something else to say:
// a source that fails for another reason than before. It is said once in two intervals
// at most, since of several queries that fail now one and now the other is quoted.
func (r *reconciler) reworded(policy *v1alpha1.BalancePolicy, status *v1alpha1.BalancePolicyStatus) bool {
	before := &policy.Status
	return !slices.EqualFunc(before.Conditions, status.Conditions, sameWords) &&
		(before.ObservedAt == nil || r.now().Sub(before.ObservedAt.Time) >= 2*intervalOf(&policy.Spec))
}

// tell makes an event of a condition that changed.
func (r *reconciler) tell(policy *v1alpha1.BalancePolicy, c metav1.Condition) {
	kind := corev1.EventTypeNormal
	bad := map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady:        metav1.ConditionFalse,
		v1alpha1.ConditionMetricsFresh: metav1.ConditionFalse,
		v1alpha1.ConditionHeld:         metav1.ConditionTrue,
	}
	if c.Status == bad[c.Type] || c.Reason == reasonForeign || c.Reason == reasonWriteFailed {
		kind = corev1.EventTypeWarning
	}
	if c.Status == metav1.ConditionUnknown || c.Reason == reasonStarting || c.Reason == "NotReady" || c.Reason == reasonSettled {
		return // it is told by another condition, or soon, or nothing to tell
	}
	r.events.Eventf(policy, nil, kind, c.Reason, c.Type, "%s: %s", c.Type, c.Message)
}

// record writes the newest state into the journal, where the page finds it.
func (r *reconciler) record(policy *v1alpha1.BalancePolicy, st *state, status v1alpha1.BalancePolicyStatus, decided bool) {
	entry := journal.Entry{
		Policy: keyOf(policy), Service: policy.Spec.TargetRef.Name, Mode: string(policy.Spec.Mode), Strategy: string(policy.Spec.Strategy),
		Interval: intervalOf(&policy.Spec), MaxAge: st.maxAge, At: st.decidedAt, Sampled: st.sampled, Hold: st.decision.Hold, Evidence: st.memory.Evidence,
		Conditions: make(map[string]journal.Condition, len(status.Conditions)),
		Endpoints:  make([]journal.Endpoint, 0, len(st.members)),
	}
	for _, c := range status.Conditions {
		entry.Conditions[c.Type] = journal.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message}
	}
	verdicts := byAddress(st.decision.Verdicts)
	for _, e := range st.members {
		v := verdicts[e.Address]
		v.Address = e.Address
		entry.Endpoints = append(entry.Endpoints, journal.Endpoint{Pod: podOf(e.Name), InForce: st.inForce(policy, e.Address), Verdict: v})
	}
	r.journal.Record(entry)
	if decided {
		r.metrics.Decided(entry)
	}
}

// log tells of a decision.
func (r *reconciler) log(policy *v1alpha1.BalancePolicy, st *state) {
	d := st.decision
	attributes := []any{"policy", keyOf(policy).String(), "mode", policy.Spec.Mode, "endpoints", len(st.members)}
	switch {
	case !st.sampled:
		r.logger.Info("membership followed", attributes...)
	case d.Hold.Reason == balance.Released || d.Hold.Reason == balance.RailBreached:
		r.logger.Warn("weights released", append(attributes, "why", d.Hold.Message)...)
	case d.Hold.Reason == balance.DeadBand || d.Hold.Reason == balance.NoNews:
		r.logger.Debug("weights kept", append(attributes, "reason", d.Hold.Reason)...)
	case d.Hold.Reason != "":
		r.logger.Info("weights held", append(attributes, "reason", d.Hold.Reason, "why", d.Hold.Message)...)
	case st.moving:
		r.logger.Info("weights decided", append(attributes, "evidence", d.Memory.Evidence)...)
	}
}

func changedConditions(before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range after {
		was := apimeta.FindStatusCondition(before, c.Type)
		if was == nil || was.Status != c.Status || was.Reason != c.Reason {
			changed = append(changed, c)
		}
	}
	return changed
}
