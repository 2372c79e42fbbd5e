package operator

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
)

const (
	// listedEndpoints bounds the status of a large service.
	listedEndpoints = 500
	// utilizationStep is by how much an endpoint's utilization must have changed for
	// the status to be written for it alone.
	utilizationStep = 0.2
)

// buildStatus says what a reconciliation found. Conditions that did not change keep
// the time of their last change.
func buildStatus(policy *v1alpha1.BalancePolicy, st *state, o outcome, now metav1.Time) v1alpha1.BalancePolicyStatus {
	status := v1alpha1.BalancePolicyStatus{ObservedGeneration: policy.Generation, ObservedAt: &now}
	conditions := slices.Clone(policy.Status.Conditions)
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		// A hold for another reason is another hold: its time says since when.
		if was := apimeta.FindStatusCondition(conditions, kind); was != nil && was.Reason != reason {
			was.LastTransitionTime = now
		}
		apimeta.SetStatusCondition(&conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: clip(message), ObservedGeneration: policy.Generation, LastTransitionTime: now,
		})
	}
	if o.refusal != nil {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, o.refusal.Reason, o.refusal.Message)
		for _, kind := range []string{v1alpha1.ConditionMetricsFresh, v1alpha1.ConditionHeld, v1alpha1.ConditionProgressing} {
			set(kind, metav1.ConditionUnknown, reasonNotReady, "the policy is not being carried out")
		}
		set(v1alpha1.ConditionApplied, metav1.ConditionFalse, reasonNotReady, "the policy is not being carried out")
		status.Conditions = conditions
		return status
	}
	if o.invalidSource != nil {
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, "InvalidSource", o.invalidSource.Error())
	} else {
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, readyReason(policy), fmt.Sprintf("%d endpoints of Service %s are followed", len(o.seen.endpoints), o.seen.service.Name))
	}
	fresh, reason, message := freshness(st)
	set(v1alpha1.ConditionMetricsFresh, fresh, reason, message)
	held, reason, message := holding(policy, st)
	set(v1alpha1.ConditionHeld, held, reason, message)
	set(v1alpha1.ConditionApplied, o.applied.status, o.applied.reason, o.applied.message)
	if st.moving {
		set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, "Moving", "the last decision changed weights")
	} else {
		set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, reasonSettled, "the last decision changed no weight")
	}
	status.Conditions = conditions
	status.Evidence = string(st.memory.Evidence)
	status.EndpointCount = int32(len(o.seen.endpoints))
	status.ServiceEntries = o.applied.entries
	if !st.moved.IsZero() {
		moved := metav1.NewTime(st.moved)
		status.ChangedAt = &moved
	}
	status.Endpoints = endpointStatuses(policy, st)
	return status
}

func readyReason(policy *v1alpha1.BalancePolicy) string {
	switch {
	case policy.Spec.Suspend:
		return "Suspended"
	case policy.Spec.Mode == v1alpha1.Enforce:
		return "Enforcing"
	}
	return "Recommending"
}

func freshness(st *state) (status metav1.ConditionStatus, reason, message string) {
	hold := st.decision.Hold
	switch {
	case st.collected == nil:
		return metav1.ConditionUnknown, "NotAsked", "the source was not asked yet"
	case hold.Reason == balance.Stale, hold.Reason == balance.LowCoverage, hold.Reason == balance.Released:
		message = hold.Message
		if st.collected.err != nil {
			message += ": " + st.collected.err.Error()
		}
		reason = string(hold.Reason)
		if hold.Reason == balance.Released {
			reason = string(balance.Stale)
		}
		return metav1.ConditionFalse, reason, message
	case st.collected.failures > 1: // a single one is nothing to act on
		return metav1.ConditionFalse, "SourceFailed", st.collected.err.Error()
	}
	return metav1.ConditionTrue, "Fresh", "enough endpoints have a fresh sample"
}

// holding says whether weights are deliberately not moved. A dead band, or samples
// that are not new yet, are the normal course of things.
func holding(policy *v1alpha1.BalancePolicy, st *state) (status metav1.ConditionStatus, reason, message string) {
	hold := st.decision.Hold
	switch {
	case policy.Spec.Suspend:
		return metav1.ConditionTrue, "Suspended", "spec.suspend is set: weights are kept, membership is followed"
	case st.collected == nil:
		return metav1.ConditionTrue, reasonStarting, "no samples yet: weights are kept"
	case hold.Reason == "" || hold.Reason == balance.DeadBand || hold.Reason == balance.NoNews || hold.Reason == balance.MembershipOnly:
		return metav1.ConditionFalse, "Free", "weights follow what is measured"
	}
	return metav1.ConditionTrue, string(hold.Reason), hold.Message
}

func (st *state) inForce(policy *v1alpha1.BalancePolicy, address string) uint32 {
	if policy.Spec.Mode != v1alpha1.Enforce || !st.engaged {
		return 0
	}
	return st.weights[address]
}

func endpointStatuses(policy *v1alpha1.BalancePolicy, st *state) []v1alpha1.EndpointStatus {
	verdicts := byAddress(st.decision.Verdicts)
	shares := st.weights.Shares()
	members := st.members
	if len(members) > listedEndpoints {
		members = members[:listedEndpoints]
	}
	list := make([]v1alpha1.EndpointStatus, 0, len(members))
	for _, e := range members {
		v, decided := verdicts[e.Address]
		s := v1alpha1.EndpointStatus{
			Pod: podOf(e.Name), Address: e.Address,
			Weight: int64(st.inForce(policy, e.Address)), ProposedWeight: int64(st.weights[e.Address]),
			Share: decimal(shares[e.Address]),
		}
		if decided {
			s.Reason, s.Message = string(v.Reason), v.Why()
			if v.Demand > 0 {
				s.Utilization = decimal(v.Utilization)
			}
			if v.Age >= 0 {
				s.SampleAge = &metav1.Duration{Duration: v.Age.Round(time.Second)}
			}
		}
		list = append(list, s)
	}
	return list
}

func byAddress(verdicts []balance.Verdict) map[string]balance.Verdict {
	m := make(map[string]balance.Verdict, len(verdicts))
	for _, v := range verdicts {
		m[v.Address] = v
	}
	return m
}

// podOf is the name of a pod in its podKey.
func podOf(key string) string {
	_, pod, _ := strings.Cut(key, "/")
	return pod
}

func decimal(v float64) string { return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64) }

// clip keeps a condition's message within what the API server takes.
func clip(message string) string {
	const most = 1024
	if len(message) > most {
		return strings.ToValidUTF8(message[:most], "") + "…"
	}
	return message
}

// sameStatus tells whether a status that is written already says all that matters.
// Ages, times and small changes of utilization do not: a policy whose endpoints do
// what they did before costs the API server nothing.
func sameStatus(a, b *v1alpha1.BalancePolicyStatus) bool {
	return !isUrgent(a, b) && a.Evidence == b.Evidence && len(changedConditions(a.Conditions, b.Conditions)) == 0 &&
		a.EndpointCount == b.EndpointCount && slices.EqualFunc(a.Endpoints, b.Endpoints, sameEndpoint)
}

// isUrgent tells whether a status says something new of what the policy asks for:
// whether it is carried out, and what has become of its entries.
func isUrgent(a, b *v1alpha1.BalancePolicyStatus) bool {
	return a.ObservedGeneration != b.ObservedGeneration || len(a.Conditions) != len(b.Conditions) ||
		!slices.Equal(a.ServiceEntries, b.ServiceEntries) ||
		changesAny(a, b, v1alpha1.ConditionReady, v1alpha1.ConditionApplied)
}

// onlyEndpointsDiffer tells whether two statuses, of which neither is urgent, are the
// same but for endpoints, their weights, and whether these are on their way.
func onlyEndpointsDiffer(a, b *v1alpha1.BalancePolicyStatus) bool {
	return a.Evidence == b.Evidence && !changesAny(a, b, v1alpha1.ConditionMetricsFresh, v1alpha1.ConditionHeld)
}

func changesAny(a, b *v1alpha1.BalancePolicyStatus, kinds ...string) bool {
	return slices.ContainsFunc(changedConditions(a.Conditions, b.Conditions), func(c metav1.Condition) bool {
		return slices.Contains(kinds, c.Type)
	})
}

// sameWords tells whether two messages differ in numbers at most: ages and counts are
// others each time.
func sameWords(a, b metav1.Condition) bool {
	words := func(message string) []string {
		return strings.FieldsFunc(message, func(r rune) bool { return unicode.IsDigit(r) || r == '.' })
	}
	return slices.Equal(words(a.Message), words(b.Message))
}

func sameEndpoint(a, b v1alpha1.EndpointStatus) bool {
	return a.Pod == b.Pod && a.Address == b.Address && a.Weight == b.Weight && a.ProposedWeight == b.ProposedWeight &&
		a.Reason == b.Reason && near(a.Utilization, b.Utilization)
}

func near(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && math.Abs(x-y) < utilizationStep
}
