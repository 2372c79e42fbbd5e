package policy

import (
	"math"
	"math/bits"
	"slices"

	"taper.dev/taper/internal/random"
)

// lottery draws endpoints in proportion to weight, in constant time: the alias method
// (Walker 1977, in the form of Vose 1991). Each place is one endpoint's, up to a part of
// it; the rest is another's.
type lottery struct {
	endpoints []int32
	// own is the part, of 2⁶⁴, that a place's endpoint has; other has the rest. Both are
	// empty if weights are equal.
	own   []uint64
	other []int32
}

// lotteryBytes is what a lottery has for each server, with what it is made of.
const lotteryBytes = 8 + 4 + 8 + 4

// fill makes the lottery that of the members.
func (l *lottery) fill(m *members) {
	l.endpoints = m.endpoints
	l.own, l.other = l.own[:0], l.other[:0]
	if m.equal {
		return
	}
	n := len(m.endpoints)
	var sum float64
	for _, e := range m.endpoints {
		sum += m.weight[e]
	}
	// Places whose endpoint has too little are filled up by those that have too much.
	part := make([]float64, n)
	poor, rich := make([]int, 0, n), make([]int, 0, n)
	for i, e := range m.endpoints {
		part[i] = m.weight[e] / sum * float64(n)
		if part[i] < 1 {
			poor = append(poor, i)
		} else {
			rich = append(rich, i)
		}
		l.own, l.other = append(l.own, math.MaxUint64), append(l.other, e)
	}
	for len(poor) > 0 && len(rich) > 0 {
		p, r := poor[len(poor)-1], rich[len(rich)-1]
		poor = poor[:len(poor)-1]
		l.own[p], l.other[p] = uint64(part[p]*(1<<64)), m.endpoints[r]
		part[r] -= 1 - part[p]
		if part[r] < 1 {
			rich = rich[:len(rich)-1]
			poor = append(poor, r)
		}
	}
}

// draw is one endpoint.
func (l *lottery) draw(r *random.Source) int {
	// The high half of the product is the place; the low half is uniform within it.
	place, within := bits.Mul64(r.Next(), uint64(len(l.endpoints)))
	if len(l.own) > 0 && within >= l.own[place] {
		return int(l.other[place])
	}
	return int(l.endpoints[place])
}

// tries is how often another endpoint is drawn in place of one that was drawn before: often
// enough for weights that are not far apart.
const tries = 16

// another is an endpoint that was not drawn before, or false if none was found.
func (l *lottery) another(r *random.Source, drawn ...int32) (int32, bool) {
	if len(drawn) >= len(l.endpoints) {
		return 0, false
	}
	for range tries {
		if e := int32(l.draw(r)); !slices.Contains(drawn, e) {
			return e, true
		}
	}
	return 0, false
}
