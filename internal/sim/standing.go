package sim

import (
	"math"
	"slices"
)

// standing is what has become of a server: whether it is a member, and what happened to it.
type standing struct {
	member, down bool
	// factor is what demands are multiplied by.
	factor float64
	// up is for how long it idled until since, in seconds, and since when it does; it does
	// not while since is NaN.
	up, since float64
	// window is what it last reported of itself.
	window window
}

// leastFree is the part of a server's cores that requests get whatever else there is.
const leastFree = 0.01

// plan enters what will happen to servers, and lets happen what is so from the beginning.
func (e *engine) plan() {
	due := []float64{}
	for _, s := range e.service.Servers {
		for _, at := range []float64{s.From, s.Until} {
			if at > 0 {
				due = append(due, at)
			}
		}
	}
	slices.Sort(due)
	for _, at := range slices.Compact(due) {
		e.agenda.add(at, e.muster)
	}
	e.changes = map[int][]Change{}
	for _, c := range e.service.Changes {
		e.changes[c.Server] = append(e.changes[c.Server], c)
		for _, at := range []float64{c.At, c.Until} {
			if at > 0 {
				e.agenda.add(at, func() { e.change(c.Server) })
			}
		}
	}
	for i := range e.service.Servers {
		e.change(i)
	}
	e.muster()
}

// within tells whether a span that may have no end holds now.
func (e *engine) within(from, until float64) bool {
	return e.now >= from && (until <= 0 || e.now < until)
}

// change makes a server what the changes that hold now say.
func (e *engine) change(server int) {
	s, st, of := &e.servers[server], &e.standing[server], e.service.Servers[server]
	stolen, down := 0.0, false
	st.factor = 1
	for _, c := range e.changes[server] {
		if !e.within(c.At, c.Until) {
			continue
		}
		if c.Demand > 0 {
			st.factor *= c.Demand
		}
		stolen += c.Stolen
		down = down || c.Down
	}
	s.advance(e.now)
	lost := down && !st.down
	st.down = down // before: what is lost may be sent again at once, and must find it so
	if lost {
		s.fail(e.now, func(i int32) {
			e.attempts[i].failed = true
			e.answerLater(i)
		})
	}
	e.idle(server)
	s.open(max(leastFree*of.Cores, of.Cores-of.Idle-stolen), of.Discipline)
	e.departures.set(int32(server), s.next())
}

// muster finds out who is a member now and tells the policy.
func (e *engine) muster() {
	e.members = e.members[:0]
	for i, s := range e.service.Servers {
		e.standing[i].member = e.within(s.From, s.Until)
		if e.standing[i].member {
			e.members = append(e.members, i)
		}
		e.idle(i)
	}
	if e.loop != nil {
		e.loop.follow()
	}
	e.assign()
}

// idle begins or ends a server's idling.
func (e *engine) idle(server int) {
	st := &e.standing[server]
	idles := st.member && !st.down
	switch {
	case idles && math.IsNaN(st.since):
		st.since = e.now
	case !idles && !math.IsNaN(st.since):
		st.up += e.now - st.since
		st.since = math.NaN()
	}
}

// cpu is what a server has used until now, in core-seconds.
func (e *engine) cpu(server int) float64 {
	s, st := &e.servers[server], &e.standing[server]
	s.advance(e.now)
	up := st.up
	if !math.IsNaN(st.since) {
		up += e.now - st.since
	}
	return s.used + up*e.service.Servers[server].Idle
}

// assign tells the policy who is there and what weights they have.
func (e *engine) assign() {
	if len(e.members) > 0 {
		e.policy.Assign(e.members, e.weights())
	}
}

// weights are those of the members now.
func (e *engine) weights() []uint32 {
	weights := make([]uint32, len(e.members))
	for i, server := range e.members {
		weights[i] = 1
		switch {
		case e.fixed != nil:
			weights[i] = e.fixed[server]
		case e.loop != nil:
			weights[i] = e.loop.weight(server)
		}
	}
	return weights
}
