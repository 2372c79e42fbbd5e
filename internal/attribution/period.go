package attribution

import "slices"

const (
	// maxUnits bounds the units of a small busy period, and maxSets the sets of them that
	// its requests may have, in all: that takes fewer steps than to sample its links.
	maxUnits, maxSets = 32, 1 << 14
)

// period is a small busy period: its open units, by start, and the requests that they may
// belong to, which no other open unit may.
type period struct {
	units    []*unit
	requests []*request
}

// split puts the open units into small busy periods, and into what is tangled.
func (s *sampler) split() {
	for open := s.open; len(open) > 0; {
		units := open[:busyPeriod(open)]
		open = open[len(units):]
		p := &period{units: units}
		p.findRequests()
		if p.small() {
			s.small = append(s.small, p)
		} else {
			s.tangle(p)
		}
	}
}

// tangle leaves a period to chains.
func (s *sampler) tangle(p *period) {
	s.tangled = append(s.tangled, p.units...)
	s.touch = append(s.touch, p.requests...)
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
	if len(p.units) > maxUnits || len(p.requests) > maxCandidates || slices.ContainsFunc(p.requests, (*request).long) {
		return false
	}
	all := 0
	for _, r := range p.requests {
		may := 0
		for _, u := range p.units {
			if u.may(r) {
				may++
			}
		}
		if all += 1 << may; all > maxSets {
			return false
		}
	}
	return true
}

// drawSmall links each small busy period in one way, in proportion to its likelihood.
func (s *sampler) drawSmall() {
	for _, p := range s.small {
		v, ok := s.solve(p)
		if !ok {
			continue // chains do it
		}
		drawn := v.best
		left := s.Unit() * v.sum
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

// decideSmall links the small busy periods; those with too many ways by samples.
func (s *sampler) decideSmall() {
	s.tangled, s.touch = nil, nil
	for _, p := range s.small {
		if !s.decide(p) {
			s.tangle(p)
		}
	}
	s.sampleTangled()
}

// decide links a small busy period in the most likely way, and states how probable each
// link is: the share of the ways that have it. It fails when there are too many.
func (s *sampler) decide(p *period) bool {
	v, ok := s.solve(p)
	if !ok {
		return false
	}
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
				have |= 1 << v.parents[i][k].request
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
	return true
}

// hasOther says whether a request has a unit that is none of these.
func (r *request) hasOther(units []*unit) bool {
	return slices.ContainsFunc(r.units, func(u *unit) bool { return !slices.Contains(units, u) })
}
