package trap

import (
	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// Rules tells each fact of a capture to the rules that listen to it.
type Rules struct {
	all       []Rule
	exchanges []interface{ Exchange(*capture.Exchange) }
	stalls    []interface{ Stall(*capture.Stall) }
	conns     []interface{ Conn(*capture.Conn) }
	requests  []interface{ Request(*attribution.Request) }
	orphans   []interface{ Orphan(*attribution.Orphan) }
}

// NewRules finds out what rules listen to.
func NewRules(all []Rule) *Rules {
	r := &Rules{all: all}
	for _, rule := range all {
		r.exchanges = listening(r.exchanges, rule)
		r.stalls = listening(r.stalls, rule)
		r.conns = listening(r.conns, rule)
		r.requests = listening(r.requests, rule)
		r.orphans = listening(r.orphans, rule)
	}
	return r
}

// listening appends a rule to those that listen to a kind of fact, if it does.
func listening[L any](to []L, rule Rule) []L {
	if l, ok := rule.(L); ok {
		to = append(to, l)
	}
	return to
}

// Exchange tells an exchange.
func (r *Rules) Exchange(x *capture.Exchange) {
	for _, rule := range r.exchanges {
		rule.Exchange(x)
	}
}

// Stall tells that a connection stood still.
func (r *Rules) Stall(s *capture.Stall) {
	for _, rule := range r.stalls {
		rule.Stall(s)
	}
}

// Conn tells the end of a connection.
func (r *Rules) Conn(c *capture.Conn) {
	for _, rule := range r.conns {
		rule.Conn(c)
	}
}

// Request tells a request with its links and slices.
func (r *Rules) Request(q *attribution.Request) {
	for _, rule := range r.requests {
		rule.Request(q)
	}
}

// Orphan tells a call without a request.
func (r *Rules) Orphan(o *attribution.Orphan) {
	for _, rule := range r.orphans {
		rule.Orphan(o)
	}
}

// Findings are those of all rules, in their order.
func (r *Rules) Findings(s Scene) []Finding {
	var found []Finding
	for _, rule := range r.all {
		found = append(found, rule.Findings(s)...)
	}
	return found
}
