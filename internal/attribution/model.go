package attribution

import (
	"math"
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// maxLocal bounds the templates that a route tells apart; the others are one.
	maxLocal = 31
	// maxTurns bounds the turns of a template in a request that are told apart.
	maxTurns = 4
	// quiet is for how long, and quietStrays how many, strays of a template are assumed
	// to have been seen outside of requests, before anything was.
	quiet       = 5 * time.Second
	quietStrays = 0.5
)

// model is what was learned about routes and templates.
type model struct {
	byRoute map[Route]int32
	walks   []*walk
	// past is what was seen up to the decided moment, now what is in the window.
	past, now exposure
	strays    []float64 // strays by template among the open units of the window
	windows   int       // that were sampled
}

func newModel() *model { return &model{byRoute: map[Route]int32{}} }

func (m *model) route(r Route) int32 {
	i, ok := m.byRoute[r]
	if !ok {
		i = int32(len(m.walks))
		m.byRoute[r] = i
		m.walks = append(m.walks, newWalk())
	}
	return i
}

// exposure is how long the service had requests open and how long none, and how many
// calls of each template began then.
type exposure struct {
	busy, idle time.Duration
	within     []float64
	without    []float64
}

func (e *exposure) count(u *unit) {
	for int(u.template) >= len(e.within) {
		e.within, e.without = append(e.within, 0), append(e.without, 0)
	}
	if len(u.candidates) > 0 {
		e.within[u.template]++
	} else {
		e.without[u.template]++
	}
}

func (e *exposure) add(o *exposure) {
	e.busy += o.busy
	e.idle += o.idle
	for t := range o.within {
		if t >= len(e.within) {
			e.within, e.without = append(e.within, 0), append(e.without, 0)
		}
		e.within[t] += o.within[t]
		e.without[t] += o.without[t]
	}
}

// exposed is the exposure between two moments.
func exposed(units []*unit, requests []*request, from, to capture.Time) exposure {
	var e exposure
	for _, u := range units {
		if u.start < to {
			e.count(u)
		}
	}
	first, last := maxTime, capture.Time(0)
	for _, r := range requests {
		first, last = min(first, r.start), max(last, r.end)
	}
	for _, u := range units {
		first, last = min(first, u.start), max(last, u.end)
	}
	if from == 0 {
		from = first
	}
	to = min(to, last)
	open := from
	for _, r := range requests {
		if a, b := max(r.start, open), min(r.end, to); a < b {
			e.busy += b.Sub(a)
			open = b
		}
	}
	e.idle = max(0, to.Sub(from)-e.busy)
	return e
}

// expose notes what is in the window.
func (m *model) expose(units []*unit, requests []*request, from, to capture.Time) {
	m.now = exposed(units, requests, from, to)
	m.now.add(&m.past)
}

// settle moves what is decided into the past.
func (m *model) settle(units []*unit, requests []*request, from, to capture.Time) {
	e := exposed(units, requests, from, to)
	m.past.add(&e)
}

// stray is how probable it is, by what was seen outside of requests alone, that a call
// within requests is none of theirs.
func (m *model) stray(u *unit) float64 {
	e, t := &m.now, u.template
	rate := (e.without[t] + quietStrays) / float64(e.idle+quiet)
	return min(1, rate*float64(e.busy)/e.within[t])
}

// logStray is the logarithm of the rate of strays of a template, per ns.
func (m *model) logStray(t int32) float32 {
	e := &m.now
	seen := e.without[t] + quietStrays
	if int(t) < len(m.strays) {
		seen += m.strays[t]
	}
	return float32(math.Log(seen / float64(e.idle+e.busy+quiet)))
}

// learn counts a settled request.
func (m *model) learn(r *request) {
	w := m.walks[r.route]
	for _, u := range r.settled {
		w.place(u.template)
	}
	w.learn(r, r.settled, true, 1)
}

// learnStrays counts the open units without a parent.
func (m *model) learnStrays(open []*unit, news float64) {
	for len(m.strays) < len(m.now.within) {
		m.strays = append(m.strays, 0)
	}
	for t := range m.strays {
		m.strays[t] *= 1 - news
	}
	for _, u := range open {
		if u.parent == nil {
			m.strays[u.template] += news
		}
	}
}
