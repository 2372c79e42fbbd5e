// Package journal keeps in memory what the operator decided, for those who look:
// the live page and the metrics read it, the reconciler writes it.
//
// An [Entry] per decision goes in through [Journal.Record]; out come the newest
// one of each policy in full ([Journal.All]) and, of the last [HistoryLength], the
// weights ([Journal.History]). It is bounded: a policy's history holds at most
// [HistoryEndpoints] endpoints, in two bytes for each weight (history.go).
package journal

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
)

// Reasons to hold weights that are not those of a decision.
const (
	// Suspended is what a policy's owner asks for.
	Suspended balance.Reason = "Suspended"
	// Starting is for the time before the first samples.
	Starting balance.Reason = "Starting"
)

// Entry is one decision about one policy, or why there is none. What it refers to
// belongs to the journal once it is recorded: nobody changes it from then on,
// neither who wrote it nor who reads it.
type Entry struct {
	Policy types.NamespacedName
	// Service is the name of the service, in the policy's namespace.
	Service  string
	Mode     string // Recommend or Enforce
	Strategy string
	// Interval is the time between decisions, and MaxAge the age beyond which a
	// sample is stale; 0 when unknown.
	Interval, MaxAge time.Duration
	// At is when this was decided; zero when nothing was.
	At time.Time
	// Sampled tells a control interval's decision from one that only followed
	// membership.
	Sampled bool
	// DecidedAt is At of the newest decision that was Sampled; zero when there was
	// none. [Journal.Record] sets it.
	DecidedAt time.Time
	// Hold is empty when weights were free to move.
	Hold balance.Hold
	// Evidence is what demand is learnt from.
	Evidence balance.Evidence
	// Endpoints are sorted by pod.
	Endpoints []Endpoint
	// Conditions are the policy's conditions by type.
	Conditions map[string]Condition
}

// Held is what holds the weights: what the condition of that name says when it is
// true, and else the decision.
func (e *Entry) Held() balance.Hold {
	if c := e.Conditions["Held"]; c.Status == "True" {
		return balance.Hold{Reason: balance.Reason(c.Reason), Message: c.Message}
	}
	return e.Hold
}

// Condition is one condition of a policy. Its status is True, False or Unknown.
type Condition struct {
	Status, Reason, Message string
}

// Endpoint is one endpoint in a decision.
type Endpoint struct {
	Pod string
	// InForce is the weight that the mesh was given; 0 when none was.
	InForce uint32
	// Verdict has the weight decided and what it rests on.
	Verdict balance.Verdict
}

// Journal holds the newest entry and the history of each policy. It may be used
// by several goroutines at once.
type Journal struct {
	mu       sync.RWMutex
	policies map[types.NamespacedName]*record
}

type record struct {
	latest  Entry
	history history
}

// New returns an empty journal.
func New() *Journal {
	return &Journal{policies: map[types.NamespacedName]*record{}}
}

// Record takes over an entry as the newest one of its policy.
func (j *Journal) Record(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, known := j.policies[e.Policy]
	if !known {
		r = &record{}
		j.policies[e.Policy] = r
	}
	e.DecidedAt = r.latest.DecidedAt
	if e.Sampled {
		e.DecidedAt = e.At
	}
	if isPoint(&e, &r.latest) {
		r.history.add(&e)
	}
	r.latest = e
}

// isPoint tells whether an entry belongs into the history. One may be recorded
// again for its conditions only.
func isPoint(e, before *Entry) bool {
	if e.At.IsZero() {
		return false
	}
	if e.Sampled && !e.At.Equal(before.DecidedAt) {
		return true
	}
	return e.Mode != before.Mode || !sameWeights(e.Endpoints, before.Endpoints)
}

func sameWeights(a, b []Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b Endpoint) bool {
		return a.Verdict.Weight == b.Verdict.Weight && a.Verdict.Address == b.Verdict.Address
	})
}

// Forget drops all that is known of a policy.
func (j *Journal) Forget(policy types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.policies, policy)
}

// Reset drops everything: a replica that stops to lead no longer knows.
func (j *Journal) Reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.policies)
}

// Latest returns the newest entry about a policy, if there is one.
func (j *Journal) Latest(policy types.NamespacedName) (Entry, bool) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	r, known := j.policies[policy]
	if !known {
		return Entry{}, false
	}
	return r.latest, true
}

// All returns the newest entry of every policy, sorted by namespace and name. The
// slice is the caller's.
func (j *Journal) All() []Entry {
	j.mu.RLock()
	all := make([]Entry, 0, len(j.policies))
	for _, r := range j.policies {
		all = append(all, r.latest)
	}
	j.mu.RUnlock()
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Policy.Namespace, b.Policy.Namespace), cmp.Compare(a.Policy.Name, b.Policy.Name))
	})
	return all
}

// History returns the weights of a policy's last decisions; it is empty for a
// policy that nothing is known of. It is a copy, the caller's.
func (j *Journal) History(policy types.NamespacedName) History {
	j.mu.RLock()
	defer j.mu.RUnlock()
	r, known := j.policies[policy]
	if !known {
		return History{}
	}
	return r.history.read()
}
