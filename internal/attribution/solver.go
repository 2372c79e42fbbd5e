package attribution

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// maxTries bounds the beginnings of ways that are tried. A period that has more, of
	// which none can be left out, is sampled like the tangled ones.
	maxTries = 1 << 14
	// negligible is by how much the logarithm of a way's likelihood lies below the best's
	// where the way is left out: e^-20 each, so that even maxTries of them do not count.
	negligible = 20
)

// solver holds all ways to link the units of a period.
type solver struct {
	*period
	// parents are, by unit and candidate, which request of the period that is.
	parents [maxUnits][]parent
	sets    []sets            // by request
	strays  [maxUnits]float64 // logarithm of the rate at which each unit is nobody's
	choice  choice
	ways    []way
	tries   int
	best    int
	least   float64 // likelihood of a way that is not left out
	sum     float64
}

// parent is a request of the period as the parent of one of its units.
type parent struct {
	request int
	bit     uint16 // of the unit in the request's sets
}

// sets are the sets of a period's units that one request may have, as bits of those that
// it may have alone.
type sets struct {
	// may are those units' places in the period.
	may []int
	// scores are the likelihoods of each set. Before those, at 1<<i + set for a set of the
	// first i of may, is the highest that others can make of it.
	scores []float64
	fixed  []*unit // what it has in any case
	now    uint16  // the set in the way that is made
	known  int     // 1 << how many of may are decided in it
}

// way is one way to link the units; its weight is its likelihood relative to the best's.
type way struct {
	weight float64
	choice choice
}

// choice is by unit which candidate has it.
type choice [maxUnits]uint8

// solve computes how likely each way is to link the units of a period. It fails when there
// are too many that cannot be left out.
func (s *sampler) solve(p *period) (v *solver, ok bool) {
	v = &s.solver
	v.period, v.ways, v.tries, v.best, v.sum = p, v.ways[:0], 0, 0, 0
	v.prepare()
	for i, u := range p.units {
		v.strays[i] = float64(s.rate[u.template])
	}
	for j, r := range p.requests {
		of := &v.sets[j]
		of.fixed = of.fixed[:0]
		for _, u := range r.units {
			if !slices.Contains(p.units, u) {
				of.fixed = append(of.fixed, u)
			}
		}
		n := 2 << len(of.may)
		of.scores = slices.Grow(of.scores[:0], n)[:n]
		g := grower{walk: s.model.walks[r.route], request: r, units: p.units, sets: of}
		var c cursor
		c.begin(r)
		g.grow(1, 0, of.fixed, c, 0)
	}
	v.least = v.likelihood() - negligible
	if !v.try(0, 0) {
		return v, false
	}
	most := v.ways[v.best].weight
	for i := range v.ways {
		v.ways[i].weight = math.Exp(v.ways[i].weight - most)
		v.sum += v.ways[i].weight
	}
	return v, true
}

// prepare finds out which units each request may have.
func (v *solver) prepare() {
	for len(v.sets) < len(v.requests) {
		v.sets = append(v.sets, sets{})
	}
	for j := range v.requests {
		of := &v.sets[j]
		of.may, of.now, of.known = of.may[:0], 0, 1
	}
	for i, u := range v.units {
		v.parents[i] = v.parents[i][:0]
		for _, r := range u.candidates {
			j := slices.Index(v.requests, r)
			of := &v.sets[j]
			v.parents[i] = append(v.parents[i], parent{j, 1 << len(of.may)})
			of.may = append(of.may, i)
		}
	}
}

// grower goes along a request's walks with all sets of units that it may have.
type grower struct {
	*sets
	walk    *walk
	request *request
	units   []*unit
}

// grow goes on from a set of those before bit: the rest of what the request has in any
// case comes yet. It returns the highest likelihood of the sets that grow from this one.
func (g *grower) grow(bit, set int, fixed []*unit, c cursor, sum float64) (most float64) {
	i := bits.TrailingZeros(uint(bit))
	for len(fixed) > 0 && (i == len(g.may) || fixed[0].before(g.units[g.may[i]])) {
		sum += g.walk.cost(c.call(g.walk, fixed[0]))
		fixed = fixed[1:]
	}
	if i == len(g.may) {
		most = sum
		if r := g.request; !r.unanswered && !r.cut {
			most += g.walk.cost(c.end(g.walk, r))
		}
	} else {
		most = g.grow(bit<<1, set, fixed, c, sum)
		sum += g.walk.cost(c.call(g.walk, g.units[g.may[i]]))
		most = max(most, g.grow(bit<<1, set|bit, fixed, c, sum))
	}
	g.scores[bit|set] = most
	return most
}

// bound is the highest likelihood that a request can still come to.
func (of *sets) bound() float64 { return of.scores[of.known|int(of.now)] }

// likelihood is that of the links as they are.
func (v *solver) likelihood() float64 {
	sum := 0.0
	for i, u := range v.units {
		if u.parent == nil {
			sum += v.strays[i]
		}
	}
	for j, r := range v.requests {
		of := &v.sets[j]
		set := 1 << len(of.may)
		for k, i := range of.may {
			if v.units[i].parent == r {
				set |= 1 << k
			}
		}
		sum += of.scores[set]
	}
	return sum
}

// try adds the ways to link the units from one on (branch and bound). It fails when that
// takes too many tries.
func (v *solver) try(i int, strays float64) bool {
	sum := strays
	for j := range v.requests {
		sum += v.sets[j].bound()
	}
	if sum < v.least {
		return true
	}
	if v.tries++; v.tries > maxTries {
		return false
	}
	if i == len(v.units) {
		if v.ways = append(v.ways, way{sum, v.choice}); sum > v.ways[v.best].weight {
			v.best, v.least = len(v.ways)-1, sum-negligible
		}
		return true
	}
	parents := v.parents[i]
	for _, p := range parents {
		v.sets[p.request].known <<= 1
	}
	ok := true
	for k, p := range parents {
		v.choice[i] = uint8(k)
		v.sets[p.request].now |= p.bit
		ok = ok && v.try(i+1, strays)
		v.sets[p.request].now &^= p.bit
	}
	v.choice[i] = uint8(len(parents))
	ok = ok && v.try(i+1, strays+v.strays[i])
	for _, p := range parents {
		v.sets[p.request].known >>= 1
	}
	return ok
}
