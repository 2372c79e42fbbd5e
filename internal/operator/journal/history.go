package journal

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
)

const (
	// HistoryLength is how many decisions are remembered: an hour at the default
	// interval.
	HistoryLength = 120
	// HistoryEndpoints is for how many endpoints of a policy weights are remembered:
	// as many as its status lists.
	HistoryEndpoints = 500
)

// History is what the last decisions of a policy were, oldest first: those that
// had samples, and those that changed a weight without.
type History struct {
	Points []Point
	// Lines are those of the endpoints of now and of those that were some in the
	// time of Points, sorted by pod and address.
	Lines []Line
}

// Point is one decision.
type Point struct {
	At time.Time
	// Enforced tells weights that were written from those that were only shown.
	Enforced bool
	// Hold is empty when weights were free to move.
	Hold balance.Reason
	// Total is the sum of all weights, those of endpoints without a line included.
	Total uint64
}

// Line is how the weight of one endpoint went.
type Line struct {
	Pod, Address string
	// Weights has one for each of History.Points; 0 where it was not an endpoint.
	Weights []uint32
}

// history is a ring of decisions: the decision with number n, from 0, is in slot
// n % HistoryLength of everything.
type history struct {
	next   uint64 // number of the decision to come
	points []point
	// lines are sorted by address.
	lines []*line
}

// point is a [Point], kept small.
type point struct {
	nanoseconds int64 // since 1970
	total       uint64
	hold        balance.Reason
	enforced    bool
}

// line is the ring of one endpoint's weights. There is one for every endpoint of
// the cluster, so it is small: weights that two bytes do not hold are rare, and
// widen only the lines that they are in.
type line struct {
	pod, address string
	last         uint64 // number of the newest decision that the endpoint was in
	narrow       [HistoryLength]uint16
	wide         *[HistoryLength]uint32
}

func (l *line) get(slot uint64) uint32 {
	if l.wide != nil {
		return l.wide[slot]
	}
	return uint32(l.narrow[slot])
}

func (l *line) set(slot uint64, weight uint32) {
	if l.wide == nil && weight <= math.MaxUint16 {
		l.narrow[slot] = uint16(weight)
		return
	}
	if l.wide == nil {
		l.wide = new([HistoryLength]uint32)
		for i, w := range l.narrow {
			l.wide[i] = uint32(w)
		}
	}
	l.wide[slot] = weight
}

// add appends a decision, over the oldest one when the ring is full.
func (h *history) add(e *Entry) {
	n, slot := h.next, h.next%HistoryLength
	h.next++
	p := point{nanoseconds: e.At.UnixNano(), hold: e.Hold.Reason, enforced: e.Mode == "Enforce"}
	for _, l := range h.lines {
		l.set(slot, 0)
	}
	var joined []*Endpoint
	for i := range e.Endpoints {
		ep := &e.Endpoints[i]
		p.total += uint64(ep.Verdict.Weight)
		at, known := h.find(ep.Verdict.Address)
		if !known {
			joined = append(joined, ep)
			continue
		}
		l := h.lines[at]
		l.pod, l.last = ep.Pod, n
		l.set(slot, ep.Verdict.Weight)
	}
	h.lines = slices.DeleteFunc(h.lines, func(l *line) bool { return n-l.last >= HistoryLength })
	h.join(joined, n)
	if h.points == nil {
		h.points = make([]point, 0, HistoryLength)
	}
	if slot == uint64(len(h.points)) {
		h.points = append(h.points, p)
	} else {
		h.points[slot] = p
	}
}

func (h *history) find(address string) (int, bool) {
	return slices.BinarySearchFunc(h.lines, address, func(l *line, address string) int {
		return strings.Compare(l.address, address)
	})
}

// join gives new endpoints a line each. When there are too many, those that left
// make room, the longest gone first; endpoints beyond that have no line.
func (h *history) join(joined []*Endpoint, n uint64) {
	if excess := len(h.lines) + len(joined) - HistoryEndpoints; excess > 0 {
		gone := slices.DeleteFunc(slices.Clone(h.lines), func(l *line) bool { return l.last == n })
		slices.SortFunc(gone, func(a, b *line) int { return cmp.Compare(a.last, b.last) })
		gone = gone[:min(excess, len(gone))]
		h.lines = slices.DeleteFunc(h.lines, func(l *line) bool { return slices.Contains(gone, l) })
		joined = joined[:min(len(joined), HistoryEndpoints-len(h.lines))]
	}
	for _, ep := range joined {
		l := &line{pod: ep.Pod, address: ep.Verdict.Address, last: n}
		l.set(n%HistoryLength, ep.Verdict.Weight)
		h.lines = append(h.lines, l)
	}
	if len(joined) > 0 {
		slices.SortFunc(h.lines, func(a, b *line) int { return strings.Compare(a.address, b.address) })
		h.lines = slices.CompactFunc(h.lines, func(a, b *line) bool { return a.address == b.address })
	}
}

// read copies the rings out, oldest decision first.
func (h *history) read() History {
	length := uint64(len(h.points))
	out := History{Points: make([]Point, length), Lines: make([]Line, len(h.lines))}
	first := h.next - length
	for i := range length {
		p := h.points[(first+i)%HistoryLength]
		out.Points[i] = Point{At: time.Unix(0, p.nanoseconds), Enforced: p.enforced, Hold: p.hold, Total: p.total}
	}
	weights := make([]uint32, length*uint64(len(h.lines)))
	for i, l := range h.lines {
		of := weights[:length:length]
		weights = weights[length:]
		for i := range length {
			of[i] = l.get((first + i) % HistoryLength)
		}
		out.Lines[i] = Line{Pod: l.pod, Address: l.address, Weights: of}
	}
	slices.SortFunc(out.Lines, func(a, b Line) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), strings.Compare(a.Address, b.Address))
	})
	return out
}
