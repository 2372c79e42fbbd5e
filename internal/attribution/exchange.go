package attribution

import "math"

// maxExchanged bounds how many units two requests swap at once, but for all.
const maxExchanged = 9

// exchange lets two requests swap all their units from one on: the next one, two or
// three, or all.
func (s *sampler) exchange(u *unit) {
	from := u.parent
	to := u.candidates[s.Below(len(u.candidates))]
	n := 1 + s.Below(maxExchanged)
	if n == maxExchanged {
		n = 2 * longRequest
	}
	if from == nil || from == to || from.long() || to.long() {
		return
	}
	s.a, s.b = s.a[:0], s.b[:0]
	i, j := 0, 0
	for i < len(from.units) || j < len(to.units) {
		v, mine := s.next(from, to, &i, &j)
		swaps := v.order >= u.order && n > 0
		if swaps {
			n--
			other := from
			if mine {
				other = to
			}
			if v.certain || !v.may(other) {
				return
			}
		}
		if mine != swaps {
			s.a = append(s.a, v)
		} else {
			s.b = append(s.b, v)
		}
	}
	if !s.accept(s.gain(from, s.a) + s.gain(to, s.b)) {
		return
	}
	for _, v := range s.a {
		v.parent = from
	}
	for _, v := range s.b {
		v.parent = to
	}
	s.commit(from, to)
}

// next is the next unit of two requests, by start, and whether it is the first one's.
func (s *sampler) next(from, to *request, i, j *int) (*unit, bool) {
	if *j == len(to.units) || *i < len(from.units) && from.units[*i].before(to.units[*j]) {
		*i++
		return from.units[*i-1], true
	}
	*j++
	return to.units[*j-1], false
}

// gain is what a request's likelihood would rise by with other units.
func (s *sampler) gain(r *request, units []*unit) float64 {
	if r == nil {
		return 0
	}
	r.proposed = s.model.walks[r.route].score(r, units)
	return r.proposed - r.likelihood
}

func (s *sampler) accept(gain float64) bool {
	return gain >= 0 || s.Unit() < math.Exp(s.beta*gain)
}

// commit makes the proposed lists those of two requests.
func (s *sampler) commit(from, to *request) {
	if from != nil {
		from.units, s.a = s.a, from.units
		from.likelihood = from.proposed
	}
	if to != nil {
		to.units, s.b = s.b, to.units
		to.likelihood = to.proposed
	}
}
