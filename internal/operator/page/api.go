package page

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

// Times are RFC 3339, durations in seconds, CPU in cores, shares and utilizations
// fractions. What is unknown is absent.

// answer is what every answer begins with.
type answer struct {
	Now     time.Time `json:"now"`
	Version string    `json:"version"`
	Replica string    `json:"replica,omitempty"`
	// Leading tells whether this replica acts; what one that does not act says of
	// policies may be old.
	Leading bool   `json:"leading"`
	Lease   string `json:"lease,omitempty"`
}

func (s *server) answer() answer {
	a := answer{Now: s.Now().UTC(), Version: s.Version, Replica: s.Replica, Leading: s.Leading()}
	if s.Lease.Name != "" {
		a.Lease = s.Lease.String()
	}
	return a
}

// summary is a policy in short.
type summary struct {
	Namespace     string    `json:"namespace"`
	Name          string    `json:"name"`
	Service       string    `json:"service"`
	Mode          string    `json:"mode"`
	Strategy      string    `json:"strategy"`
	State         state     `json:"state"`
	EndpointCount *int      `json:"endpoint_count,omitempty"`
	At            time.Time `json:"at,omitzero"`
	DecidedAt     time.Time `json:"decided_at,omitzero"`
	Interval      float64   `json:"interval_seconds,omitempty"`
}

func summarize(e *journal.Entry, now time.Time) summary {
	s := summary{
		Namespace: e.Policy.Namespace, Name: e.Policy.Name, Service: e.Service, Mode: e.Mode, Strategy: e.Strategy,
		State: stateOf(e, now), At: e.At.UTC(), DecidedAt: e.DecidedAt.UTC(), Interval: e.Interval.Seconds(),
	}
	if !e.At.IsZero() { // else nobody has counted
		s.EndpointCount = new(len(e.Endpoints))
	}
	return s
}

// policy is one in full.
type policy struct {
	summary
	Evidence   string      `json:"evidence,omitempty"`
	MaxAge     float64     `json:"max_age_seconds,omitempty"`
	Conditions []condition `json:"conditions"`
	Endpoints  []endpoint  `json:"endpoints"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// endpoint is one endpoint in the newest decision.
type endpoint struct {
	Pod     string `json:"pod"`
	Address string `json:"address"`
	// InForce is the weight in force, Weight the one decided last.
	InForce uint32 `json:"weight_in_force,omitempty"`
	Weight  uint32 `json:"weight,omitempty"`
	// Share follows from Weight, Wanted is where the strategy wants it.
	Share       known `json:"share,omitzero"`
	Wanted      known `json:"wanted_share,omitzero"`
	Utilization known `json:"utilization,omitzero"`
	// Demand is CPU time per request. Where no request rates are known there is
	// FullLoad instead: the cores that all requests together would use here.
	Demand    known     `json:"demand_seconds,omitzero"`
	FullLoad  known     `json:"full_load_cores,omitzero"`
	Idle      known     `json:"idle_cores,omitzero"`
	Capacity  known     `json:"capacity_cores,omitzero"`
	SampledAt time.Time `json:"sampled_at,omitzero"`
	Reason    string    `json:"reason"`
	// Doubtful marks an endpoint that somebody should look at.
	Doubtful bool   `json:"doubtful,omitempty"`
	Why      string `json:"why"`
}

// known is a number that is unknown when it is 0, below, or no number.
type known float64

// IsZero keeps unknown numbers out of the JSON, where not all of them have a form.
func (k known) IsZero() bool { return !(k > 0) || math.IsInf(float64(k), 1) }

func newPolicy(e *journal.Entry, now time.Time) policy {
	p := policy{
		summary: summarize(e, now), Evidence: string(e.Evidence), MaxAge: e.MaxAge.Seconds(),
		Conditions: []condition{}, Endpoints: make([]endpoint, len(e.Endpoints)),
	}
	for kind, c := range e.Conditions {
		p.Conditions = append(p.Conditions, condition{kind, c.Status, c.Reason, c.Message})
	}
	slices.SortFunc(p.Conditions, func(a, b condition) int {
		return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Type, b.Type))
	})
	for i := range e.Endpoints {
		p.Endpoints[i] = newEndpoint(&e.Endpoints[i], e)
	}
	return p
}

// rank puts conditions in the order in which one reads them.
func rank(condition string) int {
	order := []string{"Ready", "MetricsFresh", "Applied", "Held", "Progressing"}
	if i := slices.Index(order, condition); i >= 0 {
		return i
	}
	return len(order)
}

func newEndpoint(ep *journal.Endpoint, e *journal.Entry) endpoint {
	v := &ep.Verdict
	out := endpoint{
		Pod: ep.Pod, Address: v.Address, InForce: ep.InForce, Weight: v.Weight,
		Share: known(v.Share), Wanted: known(v.Proposed), Utilization: known(v.Utilization),
		Idle: known(v.Idle), Capacity: known(v.Capacity), Reason: string(v.Reason), Doubtful: doubtful(v.Reason), Why: v.Why(),
	}
	if e.Evidence == balance.FromCPUOnly {
		out.FullLoad = known(v.Demand)
	} else {
		out.Demand = known(v.Demand)
	}
	if v.Age >= 0 {
		out.SampledAt = e.At.Add(-v.Age).UTC()
	}
	return out
}

// point is one decision of the past.
type point struct {
	At time.Time `json:"at"`
	// Enforced tells weights that were written from those only shown.
	Enforced bool   `json:"enforced"`
	Hold     string `json:"hold,omitempty"`
	Level    string `json:"level"`
	Total    uint64 `json:"total_weight"`
}

// line is an endpoint's weight at each point; 0 where it was not an endpoint.
type line struct {
	Pod     string   `json:"pod"`
	Address string   `json:"address"`
	Weights []uint32 `json:"weights"`
}

func (s *server) serveAll(w http.ResponseWriter, _ *http.Request) {
	out := struct {
		answer
		Policies []summary `json:"policies"`
	}{s.answer(), []summary{}}
	for _, e := range s.journal.All() {
		out.Policies = append(out.Policies, summarize(&e, out.Now))
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *server) serveOne(w http.ResponseWriter, r *http.Request) {
	e, ok := s.find(w, r)
	if !ok {
		return
	}
	a := s.answer()
	writeJSON(w, http.StatusOK, struct {
		answer
		Policy policy `json:"policy"`
	}{a, newPolicy(&e, a.Now)})
}

func (s *server) serveHistory(w http.ResponseWriter, r *http.Request) {
	e, ok := s.find(w, r)
	if !ok {
		return
	}
	h := s.journal.History(e.Policy)
	out := struct {
		answer
		Points []point `json:"points"`
		Lines  []line  `json:"lines"`
	}{s.answer(), make([]point, len(h.Points)), make([]line, len(h.Lines))}
	for i, p := range h.Points {
		mode := "Recommend"
		if p.Enforced {
			mode = "Enforce"
		}
		_, level := wordOf(p.Hold, mode)
		out.Points[i] = point{p.At.UTC(), p.Enforced, string(p.Hold), level, p.Total}
	}
	for i, l := range h.Lines {
		out.Lines[i] = line(l)
	}
	writeJSON(w, http.StatusOK, out)
}

// find returns the newest entry of the policy in the path, or answers that there
// is none.
func (s *server) find(w http.ResponseWriter, r *http.Request) (journal.Entry, bool) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	e, ok := s.journal.Latest(name)
	if !ok {
		writeJSON(w, http.StatusNotFound, struct {
			answer
			Error string `json:"error"`
		}{s.answer(), fmt.Sprintf("no BalancePolicy %s is known here", name)})
	}
	return e, ok
}
