package kubectl

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/terminal"
)

// state is where a policy stands, in one word.
type state string

// The states, those that need nobody first.
const (
	balancing    state = "balancing"    // weights follow the samples
	recommending state = "recommending" // they would
	idle         state = "idle"         // there is nothing to balance
	suspended    state = "suspended"    // somebody asked for weights to stay
	releasing    state = "releasing"    // weights step back to equal
	held         state = "held"         // weights stay, for lack of samples
	notApplied   state = "not-applied"  // weights could not be written
	notReady     state = "not-ready"    // the policy cannot be carried out
	outdated     state = "outdated"     // the status is about an earlier spec
	noStatus     state = "no-status"    // nobody has looked at the policy
)

// states is the order in which they are counted.
var states = []state{balancing, recommending, idle, suspended, releasing, held, notApplied, notReady, outdated, noStatus}

// words is the state as a person says it.
func (s state) words() string { return strings.ReplaceAll(string(s), "-", " ") }

// troubled tells whether somebody should know which policies are in that state.
func (s state) troubled() bool {
	switch s {
	case balancing, recommending, idle, suspended:
		return false
	}
	return true
}

var stateStyles = map[state]terminal.Style{
	balancing: terminal.Green, recommending: terminal.Green,
	releasing: terminal.Yellow, held: terminal.Yellow, outdated: terminal.Yellow, noStatus: terminal.Yellow,
	notApplied: terminal.Red, notReady: terminal.Red,
}

// standing is a state and what it rests on.
type standing struct {
	state state
	// reason is one CamelCase word, and message a sentence; either may be empty.
	reason, message string
	// since is zero when that is not known.
	since time.Time
}

// standingOf reads a policy's conditions. Those that it does not know, of an older
// or newer operator, do not matter.
func standingOf(p *v1alpha1.BalancePolicy) standing {
	for _, look := range []func(*v1alpha1.BalancePolicy) (standing, bool){
		deleted, unseen, behind, unready, unapplied, paused, holding,
	} {
		if s, found := look(p); found {
			return s
		}
	}
	free := standing{state: recommending}
	if p.Spec.Mode == v1alpha1.Enforce {
		free.state = balancing
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionHeld} {
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.LastTransitionTime.After(free.since) {
			free.since = c.LastTransitionTime.Time
		}
	}
	if c := is(p, v1alpha1.ConditionProgressing, metav1.ConditionTrue); c != nil {
		free.reason, free.message = c.Reason, c.Message
	}
	return free
}

func deleted(p *v1alpha1.BalancePolicy) (standing, bool) {
	if p.DeletionTimestamp == nil {
		return standing{}, false
	}
	return standing{releasing, "Deleted", "the policy is being deleted: weights step back to equal, then its entries go", p.DeletionTimestamp.Time}, true
}

func unseen(p *v1alpha1.BalancePolicy) (standing, bool) {
	if p.Status.ObservedGeneration != 0 || len(p.Status.Conditions) > 0 {
		return standing{}, false
	}
	return standing{noStatus, "", "no status yet: is taper-operator running?", p.CreationTimestamp.Time}, true
}

// behind finds a status about an earlier spec. When the spec was changed is not
// told anywhere.
func behind(p *v1alpha1.BalancePolicy) (standing, bool) {
	seen := p.Status.ObservedGeneration
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.ObservedGeneration != 0 {
		seen = ready.ObservedGeneration
	}
	if seen == 0 || seen >= p.Generation {
		return standing{}, false
	}
	return standing{outdated, "", "the spec was changed and the status is not about it yet: is taper-operator running?", time.Time{}}, true
}

func unready(p *v1alpha1.BalancePolicy) (standing, bool) {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return standing{}, false
	}
	return from(notReady, ready), true
}

func unapplied(p *v1alpha1.BalancePolicy) (standing, bool) {
	applied := is(p, v1alpha1.ConditionApplied, metav1.ConditionFalse)
	if applied == nil || p.Spec.Mode != v1alpha1.Enforce {
		return standing{}, false // with Recommend nothing is to be applied
	}
	return from(notApplied, applied), true
}

func paused(p *v1alpha1.BalancePolicy) (standing, bool) {
	if !p.Spec.Suspend {
		return standing{}, false
	}
	s := standing{state: suspended, message: "spec.suspend is set: weights stay as they are"}
	if c := is(p, v1alpha1.ConditionHeld, metav1.ConditionTrue); c != nil {
		s.since = c.LastTransitionTime.Time
	}
	return s, true
}

// holding finds weights that are not moved on purpose. Some reasons are part of
// ordinary balancing.
func holding(p *v1alpha1.BalancePolicy) (standing, bool) {
	c := is(p, v1alpha1.ConditionHeld, metav1.ConditionTrue)
	if c == nil {
		return standing{}, false
	}
	switch balance.Reason(c.Reason) {
	case balance.DeadBand, balance.NoNews, balance.MembershipOnly:
		return standing{}, false
	case balance.SingleEndpoint, balance.NoEndpoints, balance.Idle:
		return from(idle, c), true
	case balance.Released, balance.RailBreached:
		return from(releasing, c), true
	}
	s := from(held, c)
	// Held may have been true before, for another reason.
	if stale := is(p, v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse); stale != nil &&
		stale.Reason == c.Reason && stale.LastTransitionTime.After(s.since) {
		s.since = stale.LastTransitionTime.Time
	}
	return s, true
}

// is returns the condition if it has that status.
func is(p *v1alpha1.BalancePolicy, kind string, status metav1.ConditionStatus) *metav1.Condition {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil || c.Status != status {
		return nil
	}
	return c
}

func from(s state, c *metav1.Condition) standing {
	return standing{s, c.Reason, c.Message, c.LastTransitionTime.Time}
}

// age is a time between two moments as a person says it; "—" where the first is
// not known. It is never negative: clocks differ.
func age(now, since time.Time) string {
	if since.IsZero() {
		return unknownText
	}
	return span(now.Sub(since))
}

// span is a duration in the largest unit that fits it twice.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// ageSeconds is for JSON: nil where the time is not known.
func ageSeconds(now, since time.Time) *int64 {
	if since.IsZero() {
		return nil
	}
	seconds := int64(max(now.Sub(since), 0).Seconds())
	return &seconds
}
