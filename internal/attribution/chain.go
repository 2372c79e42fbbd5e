package attribution

import (
	"math"
	"slices"
)

// maxChain bounds how many units change their requests in one chain.
const maxChain = 12

// never is the logarithm of a probability that is taken for none.
const never = -40

// option is where a unit can go: to a request, in the place of another unit of its
// template or of none. Request nil is to be a stray.
type option struct {
	to     *request
	leaves *unit
	weight float64
}

// chain takes a unit out, and lets it choose its request anew in proportion to the
// likelihood. It can take the place of another unit of its template, which has to choose
// in turn, until one goes where it displaces none.
//
// A chain is always accepted: write L(c) for the likelihood of the links c without the
// unit that is out. It goes to c', displacing v, with probability
// L(c')/(L(c-v)·Z), and the step back has probability L(c)/(L(c-v)·Z'). Over a chain from
// links x to links y, all factors of the way there are those of the way back, but for
// L(y) and L(x). So cycles of links change of which no two alone could be swapped.
func (s *sampler) chain(u *unit) {
	s.moved = s.moved[:0]
	s.out(u)
	for {
		o := s.pick(u)
		if o.leaves != nil {
			s.out(o.leaves)
		}
		u.enter(o.to)
		if o.leaves == nil {
			break
		}
		if u = o.leaves; len(s.moved) > maxChain {
			s.undo()
			return
		}
	}
	for _, m := range s.moved {
		s.rescore(m.from)
		s.rescore(m.unit.parent)
	}
}

// move is that a unit was taken out of a request.
type move struct {
	unit *unit
	from *request
}

func (s *sampler) out(u *unit) {
	s.moved = append(s.moved, move{u, u.parent})
	u.leave()
}

// undo puts all units back.
func (s *sampler) undo() {
	for _, m := range slices.Backward(s.moved) {
		m.unit.leave()
	}
	// The first entry of a unit says where it was.
	for _, m := range slices.Backward(s.moved) {
		m.unit.leave()
		m.unit.enter(m.from)
	}
}

func (s *sampler) rescore(r *request) {
	if r != nil {
		r.likelihood = s.model.walks[r.route].score(r, r.units)
	}
}

func (u *unit) leave() {
	if r := u.parent; r != nil {
		r.units = without(r.units[:0], r.units, u)
		u.parent = nil
	}
}

func (u *unit) enter(r *request) {
	if u.parent = r; r != nil {
		at, _ := slices.BinarySearchFunc(r.units, u, byOrder)
		r.units = slices.Insert(r.units, at, u)
	}
}

// pick chooses where a unit goes.
func (s *sampler) pick(u *unit) option {
	stray := float64(s.rate[u.template])
	s.options = append(s.options[:0], option{weight: stray})
	most := stray
	for _, r := range u.candidates {
		if r.long() {
			continue
		}
		w := s.model.walks[r.route]
		before, after := r.neighbours(u)
		most = max(most, s.offer(w, r, u, nil, after != nil))
		if before != nil && !before.certain {
			most = max(most, s.offer(w, r, u, before, after != nil))
		}
		if after != nil && !after.certain {
			most = max(most, s.offer(w, r, u, after, true))
		}
	}
	sum := 0.0
	for i := range s.options {
		o := &s.options[i]
		if o.weight = s.beta * (o.weight - most); o.weight > never {
			o.weight = math.Exp(o.weight)
			sum += o.weight
		} else {
			o.weight = 0
		}
	}
	left := s.Unit() * sum
	for _, o := range s.options {
		if left -= o.weight; left <= 0 {
			return o
		}
	}
	return s.options[0]
}

func (s *sampler) offer(w *walk, r *request, u, leaves *unit, later bool) float64 {
	gain := w.difference(r, u, leaves, later)
	s.options = append(s.options, option{r, leaves, gain})
	return gain
}

// neighbours are the units of a unit's template that a request has just before and after
// it.
func (r *request) neighbours(u *unit) (before, after *unit) {
	for _, v := range r.units {
		if v.template != u.template {
			continue
		}
		if v.order > u.order {
			return before, v
		}
		before = v
	}
	return before, nil
}
