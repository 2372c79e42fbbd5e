package attribution

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// tooManyOpen is how many requests may be open at once, on average, for claims about
	// a single one.
	tooManyOpen = 20
	// mostlyAmbiguous is the share of ambiguous requests above which a route is refused.
	mostlyAmbiguous = 0.5
	// maxRoutes bounds the routes that refusals are counted for.
	maxRoutes = 2000
)

// ledger sums up what refusals are decided by.
type ledger struct {
	routes   map[Route]*account
	weighted float64 // sum of open × duration
	time     float64 // sum of durations, ns
}

type account struct{ requests, ambiguous, crowded uint64 }

func (l *ledger) enter(r *Request) {
	d := float64(r.Duration())
	l.weighted += r.Open * d
	l.time += d
	if l.routes == nil {
		l.routes = map[Route]*account{}
	}
	a := l.routes[r.Route]
	if a == nil {
		if len(l.routes) >= maxRoutes {
			return
		}
		a = &account{}
		l.routes[r.Route] = a
	}
	a.requests++
	if r.Certainty == Ambiguous {
		a.ambiguous++
	}
	if r.Open > tooManyOpen {
		a.crowded++
	}
}

// open is how many requests were open on average, over the time of requests.
func (l *ledger) open() float64 {
	if l.time == 0 {
		return 0
	}
	return l.weighted / l.time
}

// biased is what every refusal of single requests ends with.
const biased = "a route's mean parts stay right, because time is conserved when calls are confused, but the tails of its causes are biased low"

func (l *ledger) refusals(s *Summary) []string {
	var out []string
	if open := l.open(); open > tooManyOpen {
		out = append(out, fmt.Sprintf("no claim about single requests: %.0f were open at once on average, and calls can be told apart up to %d; %s", open, tooManyOpen, biased))
	}
	for _, r := range l.refused() {
		a := l.routes[r]
		out = append(out, fmt.Sprintf("no claim about single requests of %s: the calls of %d of %d (%.0f %%) are ambiguous; %s",
			r, a.ambiguous, a.requests, 100*float64(a.ambiguous)/float64(a.requests), biased))
	}
	if s.Early > 0 {
		out = append(out, fmt.Sprintf("%d times calls were linked before all exchanges around them were known, because %d exchanges were waiting; %d exchanges came too late for it", s.Early, s.Requests, s.Late))
	}
	return out
}

// refused lists the routes whose requests are mostly ambiguous, those with most requests
// first.
func (l *ledger) refused() []Route {
	var out []Route
	for r, a := range l.routes {
		if float64(a.ambiguous) > mostlyAmbiguous*float64(a.requests) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Route) int {
		if d := int64(l.routes[b].requests) - int64(l.routes[a].requests); d != 0 {
			return int(d)
		}
		return compareRoutes(a, b)
	})
	return out
}

func compareRoutes(a, b Route) int {
	return strings.Compare(a.Protocol+" "+a.String(), b.Protocol+" "+b.String())
}
