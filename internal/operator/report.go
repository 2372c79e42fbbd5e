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
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
	reasonNotReady    = "NotReady"
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
// events of conditions that changed. Most can wait a while: see [reconciler.mayWait].
func (r *reconciler) report(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, o outcome) error {
	policy = st.asReported(policy)
	status := buildStatus(policy, st, o, metav1.NewTime(r.now()))
	r.record(policy, st, status, o.decided)
	if awaitsRound(st, o) {
		return nil
	}
	if sameStatus(&policy.Status, &status) && !r.reworded(policy, &status) {
		st.due = due{} // what was to be told has passed
		return nil
	}
	if r.mayWait(policy, &status, st, o.decided && st.sampled) {
		return nil
	}
	st.due = due{}
	written := policy.DeepCopy()
	written.Status = status
	if err := r.client.Status().Patch(ctx, written, client.MergeFrom(policy)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // deleted meanwhile
		}
		return fmt.Errorf("writing the status: %w", err)
	}
	st.reported = &reported{version: written.ResourceVersion, status: status}
	for _, c := range changedConditions(policy.Status.Conditions, status.Conditions) {
		r.tell(policy, apimeta.FindStatusCondition(policy.Status.Conditions, c.Type), c)
	}
	return nil
}

// reported is a status that was written and that the cache may not show yet.
type reported struct {
	version string
	status  v1alpha1.BalancePolicyStatus
}

// asReported is the policy with the status that was written last. The cache lags
// behind, most of all when much is written: what it shows would be told once more.
func (st *state) asReported(policy *v1alpha1.BalancePolicy) *v1alpha1.BalancePolicy {
	if st.reported == nil {
		return policy
	}
	if order, err := resourceversion.CompareResourceVersion(policy.ResourceVersion, st.reported.version); err != nil || order >= 0 {
		st.reported = nil // the cache has caught up
		return policy
	}
	newer := *policy
	newer.Status = st.reported.status
	return &newer
}

// awaitsRound tells whether the status can wait for the first samples, which are being
// asked for. After a hand-over it would be written twice for every policy: that
// nothing is known, and a moment later what is.
func awaitsRound(st *state, o outcome) bool {
	return st.collected == nil && o.refusal == nil && o.invalidSource == nil &&
		slices.Contains([]string{"Recommending", "NotDecided", "Written", "Served"}, o.applied.reason)
}

// settleWithin is how long endpoints that came or went may be missing from a status
// before it is in line to be written.
const settleWithin = 15 * time.Second

// due is when a status that can wait will be written.
type due struct {
	at time.Time // zero when there is nothing to tell
	// paced tells that at is a time of the pace, and will not change any more.
	paced bool
}

// mayWait tells whether a status is left to a later look, which [state.due] is the
// time of. What the policy's owner has asked for, and whether it is done, is written at
// once. The rest may concern all policies at the same moment, such as a store that
// fails, and would be as large a load on the API server as the entries are: it is not
// written faster than the pace allows. Endpoints alone wait for the next samples too, or
// for settleWithin.
func (r *reconciler) mayWait(policy *v1alpha1.BalancePolicy, status *v1alpha1.BalancePolicyStatus, st *state, sampled bool) bool {
	before, now := &policy.Status, r.now()
	if isUrgent(before, status) {
		return false
	}
	earliest := now
	if onlyEndpointsDiffer(before, status) {
		settle := min(settleWithin, intervalOf(&policy.Spec)*3/4)
		if !sampled {
			earliest = now.Add(settle)
		}
		if last := before.ObservedAt; last != nil && last.Add(settle).After(earliest) {
			earliest = last.Add(settle)
		}
	}
	if d := &st.due; d.at.IsZero() || !d.paced && earliest.Before(d.at) {
		d.at = earliest
	}
	if now.Before(st.due.at) {
		return true
	}
	if !st.due.paced {
		st.due = due{at: r.pace.next(now), paced: true}
	}
	return now.Before(st.due.at)
}

// untilDue is after how long the policy has to be looked at again for its status; 0
// when it does not.
func (r *reconciler) untilDue(st *state) time.Duration {
	if st.due.at.IsZero() {
		return 0
	}
	return max(time.Millisecond, st.due.at.Sub(r.now()))
}

// reworded tells whether conditions that are what they were have something else to say:
// a source that fails for another reason than before. It is said once in two intervals
// at most, since of several queries that fail now one and now the other is quoted.
func (r *reconciler) reworded(policy *v1alpha1.BalancePolicy, status *v1alpha1.BalancePolicyStatus) bool {
	before := &policy.Status
	return !slices.EqualFunc(before.Conditions, status.Conditions, sameWords) &&
		(before.ObservedAt == nil || r.now().Sub(before.ObservedAt.Time) >= 2*intervalOf(&policy.Spec))
}

// tell makes an event of a condition that changed from what it was before; nil when
// it is new. That weights move, or have come to rest, is no event: they do so with
// every endpoint that comes or goes.
func (r *reconciler) tell(policy *v1alpha1.BalancePolicy, was *metav1.Condition, c metav1.Condition) {
	if c.Status == metav1.ConditionUnknown || c.Type == v1alpha1.ConditionProgressing || c.Reason == reasonStarting || c.Reason == reasonNotReady {
		return // it is told by another condition, or soon, or nothing to tell
	}
	kind := corev1.EventTypeNormal
	switch {
	case isBad(c):
		kind = corev1.EventTypeWarning
	case (c.Type == v1alpha1.ConditionMetricsFresh || c.Type == v1alpha1.ConditionHeld) && (was == nil || !isBad(*was)):
		return // all is well, as it was, or should be
	}
	r.events.Eventf(policy, nil, kind, c.Reason, c.Type, "%s: %s", c.Type, c.Message)
}

// isBad tells whether a condition is one that somebody should look at.
func isBad(c metav1.Condition) bool {
	bad := map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady:        metav1.ConditionFalse,
		v1alpha1.ConditionMetricsFresh: metav1.ConditionFalse,
		v1alpha1.ConditionHeld:         metav1.ConditionTrue,
	}
	return c.Reason != reasonStarting && c.Status == bad[c.Type] || c.Reason == reasonForeign || c.Reason == reasonWriteFailed
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
