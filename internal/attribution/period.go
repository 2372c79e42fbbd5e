package attribution

import (
	"math"
	"slices"
)

const (
	// maxUnits and maxWays bound the busy periods whose links are all tried: that takes
	// fewer steps than to sample them.
	maxUnits, maxWays = 12, 1 << 16
	// negligible is by how much the logarithm of a way's likelihood lies below the best's
	// where the way is left out: e^-20 each, so that even maxWays of them do not count.
	negligible = 20
)

// period is a small busy period: its open units, by start, and the requests that they may
// belong to, which no other open unit may.
type period struct {
	units    []*unit
	requests []*request
}

// solver holds all ways to link the units of a period.
type solver struct {
	*period
	// parents are, by unit and candidate, the request's place in the period.
	parents [maxUnits][]int
	// scores are, by request, the likelihood of each set of units, as bits. Before those,
	// at 1<<i + set for a set of the first i units, is the highest that others can make of
	// it.
	scores [][]float64
	strays [maxUnits]float64 // logarithm of the rate at which each unit is nobody's
	sets   []uint16          // by request: those of the way that is made
	choice choice
	ways   []way
	best   int
	least  float64 // likelihood of a way that is not left out
	sum    float64
}

// way is one way to link the units; its weight is its likelihood relative to the best's.
type way struct {
	weight float64
	choice choice
}

// choice is by unit which candidate has it.
type choice [maxUnits]uint8

// split puts the open units into small busy periods, and into what is tangled.
func (s *sampler) split() {
	for open := s.open; len(open) > 0; {
		units := open[:busyPeriod(open)]
		open = open[len(units):]
		p := &period{units: units}
		p.findRequests()
		s.touch = append(s.touch, p.requests...)
		if p.small() {
			s.small = append(s.small, p)
			continue
		}
		s.tangled = append(s.tangled, units...)
		for _, u := range units {
			u.counts = make([]float32, len(u.candidates)+1)
		}
	}
}

// busyPeriod is how many of the open units come before a moment at which none of the
// requests that they may belong to is open.
func busyPeriod(open []*unit) int {
	until := open[0].start
	for i, u := range open {
		if u.start > until {
			return i
		}
		for _, r := range u.candidates {
			until = max(until, r.end)
		}
	}
	return len(open)
}

// findRequests lists the candidates of all units, each once.
func (p *period) findRequests() {
	var known map[*request]bool // where there are many
	for _, u := range p.units {
		for _, r := range u.candidates {
			switch {
			case known != nil:
				if known[r] {
					continue
				}
				known[r] = true
			case slices.Contains(p.requests, r):
				continue
			case len(p.requests) == maxUnits:
				known = map[*request]bool{r: true}
				for _, r := range p.requests {
					known[r] = true
				}
			}
			p.requests = append(p.requests, r)
		}
	}
}

func (p *period) small() bool {
	if len(p.units) > maxUnits || len(p.requests) > maxCandidates {
		return false
	}
	ways := 1
	for _, u := range p.units {
		if ways *= len(u.candidates) + 1; ways > maxWays {
			return false
		}
	}
	return !slices.ContainsFunc(p.requests, (*request).long)
}

// solve computes how likely each way is to link the units of a period.
func (s *sampler) solve(p *period) *solver {
	v := &s.solver
	v.period, v.ways, v.best, v.sum = p, v.ways[:0], 0, 0
	v.sets = append(v.sets[:0], make([]uint16, len(p.requests))...)
	for len(v.scores) < len(p.requests) {
		v.scores = append(v.scores, nil)
	}
	for i, u := range p.units {
		v.strays[i] = float64(s.rate[u.template])
		v.parents[i] = v.parents[i][:0]
		for _, r := range u.candidates {
			v.parents[i] = append(v.parents[i], slices.Index(p.requests, r))
		}
	}
	for j, r := range p.requests {
		v.scores[j] = s.scoreSets(v.scores[j], p, r)
	}
	v.least = v.likelihood() - negligible
	v.try(0, 0)
	most := v.ways[v.best].weight
	for i := range v.ways {
		v.ways[i].weight = math.Exp(v.ways[i].weight - most)
		v.sum += v.ways[i].weight
	}
	return v
}

// likelihood is that of the links as they are.
func (v *solver) likelihood() float64 {
	sum := 0.0
	for i, u := range v.units {
		if u.parent == nil {
			sum += v.strays[i]
		} else {
			v.sets[slices.Index(v.requests, u.parent)] |= 1 << i
		}
	}
	for j := range v.sets {
		sum += v.scores[j][1<<len(v.units)+int(v.sets[j])]
		v.sets[j] = 0
	}
	return sum
}

// try adds the ways to link the units from one on (branch and bound).
func (v *solver) try(i int, strays float64) {
	sum := strays
	for j, set := range v.sets {
		sum += v.scores[j][1<<i+int(set)]
	}
	if sum < v.least {
		return
	}
	if i == len(v.units) {
		if v.ways = append(v.ways, way{sum, v.choice}); sum > v.ways[v.best].weight {
			v.best, v.least = len(v.ways)-1, sum-negligible
		}
		return
	}
	for k, j := range v.parents[i] {
		v.choice[i] = uint8(k)
		v.sets[j] |= 1 << i
		v.try(i+1, strays)
		v.sets[j] &^= 1 << i
	}
	v.choice[i] = uint8(len(v.parents[i]))
	v.try(i+1, strays+v.strays[i])
}

// scoreSets computes the likelihoods of a request with each set of the period's units that
// it may have.
func (s *sampler) scoreSets(scores []float64, p *period, r *request) []float64 {
	var may uint16
	for i, u := range p.units {
		if u.may(r) {
			may |= 1 << i
		}
	}
	n := len(p.units)
	scores = slices.Grow(scores[:0], 2<<n)[:2<<n]
	for i := range scores {
		scores[i] = math.Inf(-1)
	}
	w := s.model.walks[r.route]
	s.b = s.b[:0] // what it has in any case
	for _, u := range r.units {
		if !slices.Contains(p.units, u) {
			s.b = append(s.b, u)
		}
	}
	for set := may; ; set = (set - 1) & may {
		s.a = s.a[:0]
		rest := s.b
		for i, u := range p.units {
			if set>>i&1 == 0 {
				continue
			}
			for len(rest) > 0 && rest[0].before(u) {
				s.a, rest = append(s.a, rest[0]), rest[1:]
			}
			s.a = append(s.a, u)
		}
		s.a = append(s.a, rest...)
		if scores[1<<n+int(set)] = w.score(r, s.a); set == 0 {
			break
		}
	}
	for i := n - 1; i >= 0; i-- {
		for set := range 1 << i {
			scores[1<<i+set] = max(scores[2<<i+set], scores[2<<i+1<<i+set])
		}
	}
	return scores
}

// drawSmall links each small busy period in one way, in proportion to its likelihood.
func (s *sampler) drawSmall() {
	for _, p := range s.small {
		v := s.solve(p)
		drawn := v.best
		left := s.unit() * v.sum
		for i := range v.ways {
			if left -= v.ways[i].weight; left <= 0 {
				drawn = i
				break
			}
		}
		v.link(drawn)
	}
}

func (v *solver) link(way int) {
	for i, u := range v.units {
		var r *request
		if k := int(v.ways[way].choice[i]); k < len(u.candidates) {
			r = u.candidates[k]
		}
		if r != u.parent {
			u.leave()
			u.enter(r)
		}
	}
}

// decide links a small busy period in the most likely way, and states how probable each
// link is: the share of the ways that have it.
func (s *sampler) decide(p *period) {
	v := s.solve(p)
	v.link(v.best)
	var share [maxUnits]float64
	childless := make([]float64, len(p.requests))
	best := v.ways[v.best].choice
	for _, w := range v.ways {
		var have uint64 // requests with a unit of the period
		for i := range p.units {
			if w.choice[i] == best[i] {
				share[i] += w.weight
			}
			if k := int(w.choice[i]); k < len(v.parents[i]) {
				have |= 1 << v.parents[i][k]
			}
		}
		for j := range childless {
			if have>>j&1 == 0 {
				childless[j] += w.weight
			}
		}
	}
	for i, u := range p.units {
		u.probability = min(mostProbable, share[i]/v.sum)
	}
	for j, r := range p.requests {
		r.samples++
		if !r.hasOther(p.units) {
			r.childless += float32(childless[j] / v.sum)
		}
	}
}

// hasOther says whether a request has a unit that is none of these.
func (r *request) hasOther(units []*unit) bool {
	return slices.ContainsFunc(r.units, func(u *unit) bool { return !slices.Contains(units, u) })
}
