package attribution

import (
	"math"
	"time"

	"taper.dev/taper/internal/capture"
)

// walk is what was learned about the requests of one route: how likely each step from
// one call to the next is, and how long the pause before it takes.
//
// A place on the walk is 0 for the start, else a template; 0 is also the end. A step is
// parallel when the call before it is still open: its pause is measured from that call's
// start. Otherwise it is measured from when the request had nothing open any more.
type walk struct {
	local  []int32 // place by template; 0 is none yet
	places int32   // one more than the highest place
	room   int32   // places that the tables have room for
	// steps are indexed by from, to and kind; nil where none was seen.
	steps []*pauses
	// turns count steps by from, turn, to and kind; a place's turn is how often the
	// request had been there before. chance are the logarithms of their probabilities.
	turns  tallies
	chance []float32
	// density are the logarithms of the densities of their pauses.
	density []*[bins]float32
	// general are the pauses of all steps of a kind.
	general [stepKinds]*pauses
}

// Kinds of steps.
const (
	after    = iota // the calls before have ended
	parallel        // one is still open
	stepKinds
)

// tallies count with weights: what is settled, and what the window holds as it is linked
// at the moment.
type tallies struct{ past, now []float32 }

func newWalk() *walk {
	w := &walk{places: 1}
	for k := range w.general {
		w.general[k] = &pauses{}
	}
	w.grow(4)
	return w
}

// place numbers a template within the walk.
func (w *walk) place(t int32) int32 {
	for int(t) >= len(w.local) {
		w.local = append(w.local, 0)
	}
	if w.local[t] == 0 {
		if w.places <= maxLocal {
			w.places++
		}
		w.local[t] = w.places - 1
		if w.places > w.room {
			w.grow(2 * w.room)
		}
	}
	return w.local[t]
}

func (w *walk) grow(room int32) {
	old := *w
	w.room = room
	w.steps = make([]*pauses, room*room*stepKinds)
	n := room * maxTurns * room * stepKinds
	w.turns = tallies{make([]float32, n), make([]float32, n)}
	w.chance = make([]float32, n)
	w.density = make([]*[bins]float32, n)
	for from := range old.room {
		for to := range old.room {
			for kind := range int32(stepKinds) {
				w.steps[w.step(from, to, kind)] = old.steps[old.step(from, to, kind)]
				for turn := range int32(maxTurns) {
					i, j := w.turn(from, turn, to, kind), old.turn(from, turn, to, kind)
					w.turns.past[i], w.turns.now[i] = old.turns.past[j], old.turns.now[j]
				}
			}
		}
	}
}

func (w *walk) step(from, to, kind int32) int32 { return (from*w.room+to)*stepKinds + kind }

func (w *walk) turn(from, turn, to, kind int32) int32 {
	return ((from*maxTurns+turn)*w.room+to)*stepKinds + kind
}

// stepOf is the step that a turn is one of.
func (w *walk) stepOf(turn int32) int32 {
	row := w.room * stepKinds
	return turn/(maxTurns*row)*row + turn%row
}

// cursor goes along a walk.
type cursor struct {
	from, turn int32
	until      capture.Time // something is open until then
	latest     capture.Time // the last call began then
	visits     uint64       // to each place, two bits each
}

func (c *cursor) begin(r *request) {
	*c = cursor{until: r.ready, latest: r.start}
}

// call is the step to a call: which of the turns it is, and the pause before it.
func (c *cursor) call(w *walk, u *unit) (turn int32, pause time.Duration) {
	to, kind, since := w.local[u.template], int32(after), c.until
	if u.start < c.until {
		kind, since = parallel, c.latest
	}
	turn = w.turn(c.from, c.turn, to, kind)
	c.from, c.latest, c.until = to, u.start, max(c.until, u.end)
	c.turn = int32(c.visits >> (2 * to) & (maxTurns - 1))
	if c.turn < maxTurns-1 {
		c.visits += 1 << (2 * to)
	}
	return turn, u.start.Sub(since)
}

// end is the step to the answer: its first byte if nothing was open by then.
func (c *cursor) end(w *walk, r *request) (turn int32, pause time.Duration) {
	switch {
	case r.answer != 0 && c.until <= r.answer:
		return w.turn(c.from, c.turn, 0, after), r.answer.Sub(c.until)
	case c.until <= r.end:
		return w.turn(c.from, c.turn, 0, after), r.end.Sub(c.until)
	}
	return w.turn(c.from, c.turn, 0, parallel), r.end.Sub(c.latest)
}

// score is the logarithm of the likelihood of a request's calls.
func (w *walk) score(r *request, units []*unit) float64 {
	var c cursor
	c.begin(r)
	sum := 0.0
	for _, u := range units {
		sum += w.cost(c.call(w, u))
	}
	if !r.unanswered && !r.cut {
		sum += w.cost(c.end(w, r))
	}
	return sum
}

// difference is what a unit adds to the score of a request, from which another one is left
// out. Later says that the request has units of the same template after it.
func (w *walk) difference(r *request, u, left *unit, later bool) float64 {
	var without cursor
	without.begin(r)
	i := 0
	for ; i < len(r.units) && r.units[i].order < u.order; i++ {
		if v := r.units[i]; v != left {
			without.call(w, v)
		}
	}
	with := without
	sum := w.cost(with.call(w, u))
	for ; i < len(r.units); i++ {
		v := r.units[i]
		if v == left {
			continue
		}
		sum += w.cost(with.call(w, v)) - w.cost(without.call(w, v))
		if !later && with.turn == without.turn && with.until == without.until {
			return sum // from here on both are the same
		}
	}
	if !r.unanswered && !r.cut {
		sum += w.cost(with.end(w, r)) - w.cost(without.end(w, r))
	}
	return sum
}

// cost is the logarithm of the likelihood of a step after a pause.
func (w *walk) cost(turn int32, pause time.Duration) float64 {
	return float64(w.chance[turn] + w.density[turn][bin(pause)])
}

// learn counts the steps of a request.
func (w *walk) learn(r *request, units []*unit, settled bool, weight float32) {
	var c cursor
	c.begin(r)
	for _, u := range units {
		turn, pause := c.call(w, u)
		w.count(turn, pause, settled, weight)
	}
	if !r.unanswered && !r.cut {
		turn, pause := c.end(w, r)
		w.count(turn, pause, settled, weight)
	}
}

func (w *walk) count(turn int32, pause time.Duration, settled bool, weight float32) {
	p := &w.steps[w.stepOf(turn)]
	if *p == nil {
		*p = &pauses{}
	}
	general := w.general[turn%stepKinds]
	if b := bin(pause); settled {
		w.turns.past[turn] += weight
		(*p).past.add(b, weight)
		general.past.add(b, weight)
	} else {
		w.turns.now[turn] += weight
		(*p).now.add(b, weight)
		general.now.add(b, weight)
	}
}

// fade keeps so much of what was counted of the window.
func (w *walk) fade(keep float32) {
	for i := range w.turns.now {
		w.turns.now[i] *= keep
	}
	for _, p := range w.steps {
		if p != nil {
			p.now.fade(keep)
		}
	}
	for _, p := range w.general {
		p.now.fade(keep)
	}
}

// conclude turns counts into logarithms of probabilities.
func (w *walk) conclude() {
	var general [stepKinds][bins]float32
	for k, p := range w.general {
		p.conclude(&anything, &general[k])
	}
	var smooth [bins]float32
	for i, p := range w.steps {
		if p != nil {
			p.conclude(&general[i%stepKinds], &smooth)
		}
	}
	for from := range w.places {
		w.concludeTurns(from)
	}
	for turn := range w.density {
		p := w.steps[w.stepOf(int32(turn))]
		if p == nil {
			p = w.general[turn%stepKinds]
		}
		w.density[turn] = &p.log
	}
}

const (
	// trustInAnyTurn is how many steps count for what the place does at any turn, and
	// trustInAnyStep how many for that each step is as likely as the others.
	trustInAnyTurn = 2
	trustInAnyStep = 0.5
)

// concludeTurns computes the chances of the steps from a place, at each turn.
func (w *walk) concludeTurns(from int32) {
	n := w.room * stepKinds // steps of one turn lie side by side
	anyTurn := make([]float64, n)
	var turns [maxTurns][]float64
	for turn := range turns {
		at := w.turn(from, int32(turn), 0, 0)
		turns[turn] = make([]float64, n)
		for i := range turns[turn] {
			x := float64(w.turns.past[at+int32(i)] + w.turns.now[at+int32(i)])
			turns[turn][i] = x
			anyTurn[i] += x
		}
	}
	total := sum(anyTurn)
	for i := range anyTurn {
		anyTurn[i] = (anyTurn[i] + trustInAnyStep/float64(w.places*stepKinds)) / (total + trustInAnyStep)
	}
	for turn, seen := range turns {
		at, total := w.turn(from, int32(turn), 0, 0), sum(seen)
		for i, x := range seen {
			w.chance[at+int32(i)] = float32(math.Log((x + trustInAnyTurn*anyTurn[i]) / (total + trustInAnyTurn)))
		}
	}
}

func sum(all []float64) float64 {
	s := 0.0
	for _, x := range all {
		s += x
	}
	return s
}
