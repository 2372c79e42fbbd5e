package trap

import (
	"fmt"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// manyCalls of one template, one after the other, are a loop; a few are a program
	// that reads what it needs.
	manyCalls = 5
	// loopShare of a request's time makes it worth a change.
	loopShare = 0.3
	// fewLoops requests are chance.
	fewLoops = 3
	// maxLoops bounds the routes and templates that are told apart, maxTemplates those of
	// one request.
	maxLoops     = 512
	maxTemplates = 64
)

// nPlusOne sees requests that ask for one thing after the other in a loop, where one call
// could ask for all.
type nPlusOne struct {
	loops table[loopKey, loop]
	of    map[template]*run // of the present request
}

type loopKey struct {
	route attribution.Route
	template
}

// template is a kind of call: what of it varies is replaced.
type template struct {
	peer, op, target string
}

// run is the calls of one template in one request.
type run struct {
	calls  uint64
	end    capture.Time
	time   time.Duration
	serial bool
	packet [manyCalls]uint64
}

// loop is what of it was seen in all requests of a route.
type loop struct {
	calls    uint64
	time     time.Duration // of its calls
	of       time.Duration // of its requests
	charge   charge
	evidence evidence
}

func newNPlusOne() Rule {
	return &nPlusOne{loops: newTable[loopKey, loop](maxLoops), of: map[template]*run{}}
}

func (*nPlusOne) ID() string { return "n-plus-one" }

func (n *nPlusOne) Request(r *attribution.Request) {
	if len(r.Links) < manyCalls {
		return
	}
	clear(n.of)
	for i := range r.Links {
		n.count(r, i)
	}
	for _, s := range r.Slices {
		if s.Cause != attribution.Call || s.Link < 0 || s.Link >= len(r.Links) {
			continue
		}
		if at := n.of[templateOf(&r.Links[s.Link])]; at != nil {
			at.time += s.To.Sub(s.From)
		}
	}
	for t, at := range n.of {
		if at.serial && at.calls >= manyCalls && float64(at.time) >= loopShare*float64(r.Duration()) {
			n.take(r, t, at)
		}
	}
}

// count adds a call to its run. Links that could as well be another request's are none.
func (n *nPlusOne) count(r *attribution.Request, i int) {
	l := &r.Links[i]
	if l.Cause != attribution.Call || l.Certainty == attribution.Ambiguous || isClosed(l.Exchange) {
		return
	}
	t := templateOf(l)
	at := n.of[t]
	if at == nil {
		if len(n.of) >= maxTemplates {
			return
		}
		at = &run{serial: true}
		n.of[t] = at
	}
	if l.Exchange.Start() < at.end {
		at.serial = false
	}
	at.end = max(at.end, l.Exchange.End())
	if at.calls < manyCalls {
		at.packet[at.calls] = l.Exchange.Request.First.Packet
	}
	at.calls++
}

// isClosed says whether what was asked cannot be seen: such calls are alike to us only.
func isClosed(x *capture.Exchange) bool {
	return x.Protocol == capture.TLS || x.Protocol == capture.Turns
}

// take charges a loop all but one of its calls, which a single call replaces.
func (n *nPlusOne) take(r *attribution.Request, t template, at *run) {
	row := n.loops.at(loopKey{r.Route, t})
	if row == nil {
		return
	}
	row.calls += at.calls
	row.time += at.time
	row.of += r.Duration()
	row.charge.add(at.time/time.Duration(at.calls)*time.Duration(at.calls-1), int(at.calls))
	row.evidence.add(at.packet[:]...)
}

// templateOf replaces what varies in a call's target: segments of a path with digits.
// Statements come with their literals replaced.
func templateOf(l *attribution.Link) template {
	t := template{l.Peer, l.Exchange.Op, l.Exchange.Target}
	if !strings.HasPrefix(t.target, "/") || !strings.ContainsAny(t.target, "0123456789") {
		return t
	}
	parts := strings.Split(t.target, "/")
	for i, part := range parts {
		if varies(part) {
			parts[i] = "{id}"
		}
	}
	t.target = strings.Join(parts, "/")
	return t
}

// varies says whether a segment of a path has digits, and is not a version such as v1.
func varies(segment string) bool {
	const digits = "0123456789"
	return strings.ContainsAny(segment, digits) && (segment[0] != 'v' || strings.Trim(segment[1:], digits) != "")
}

func (t template) String() string {
	text := t.target
	if !strings.HasPrefix(strings.ToUpper(text), t.op) {
		text = strings.TrimSpace(t.op + " " + text)
	}
	return plain(text)
}

func (n *nPlusOne) Findings(s Scene) []Finding {
	var found []Finding
	for key, l := range n.loops.rows {
		if l.charge.requests < fewLoops {
			continue
		}
		each := l.charge.requests
		found = append(found, Finding{
			ID: n.ID(), Severity: l.charge.severity(s), Cost: l.charge.cost(s), Evidence: l.evidence.sorted(),
			Title: fmt.Sprintf("%s made %s calls one after the other to %s (%s), %s of its %s, in %d of %d requests.",
				plain(key.route.String()), amount(l.calls, each), plain(key.peer), key.template, span(mean(l.time, each)), span(mean(l.of, each)), each, s.Requests),
			Fix:       "Ask for all of them in one call (a join, IN or = ANY, a batch endpoint, MGET), or at least at once.",
			Reference: "https://docs.sqlalchemy.org/en/20/glossary.html#term-N-plus-one-problem",
		})
	}
	return inOrder(found)
}
