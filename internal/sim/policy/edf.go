package policy

import "math"

// edf is Envoy's scheduler, earliest deadline first (source/common/upstream/edf_scheduler.h):
// whoever is due first is picked, and is due again 1/weight later. Each is thus picked in
// proportion to its weight, evenly spread. Those that are due at the same time go in the
// order in which they were entered.
type edf struct {
	// heap has four children to a node, which lie side by side in memory: with thousands of
	// endpoints that misses the cache half as often as two do.
	heap  []turn
	order uint32
}

// turn is when a server is due.
type turn struct {
	due    float64
	order  uint32
	server int32
}

// turnBytes is the size of a turn.
const turnBytes = 16

const (
	children = 4
	// nudge is what Envoy adds to weights while it begins, so that equal times come out equal.
	nudge = 1e-13
	// maxPicks is Envoy's bound on how many picks it begins after.
	maxPicks = 429496729
)

func (t *turn) before(other *turn) bool {
	return t.due < other.due || t.due == other.due && t.order < other.order
}

// begin starts afresh, as if so many picks had been made. That is where schedulers of several
// proxies differ, lest all pick the same endpoint at once. Weights are by server.
//
// Most of the picks are not made but computed, as Envoy does: nobody has had less than its
// share of them, rounded down. Where that leaves many, a later time is tried, as long as it
// does not leave too few; the outcome is the same.
func (s *edf) begin(endpoints []int32, weight []float64, picks uint32) {
	if cap(s.heap) < len(endpoints) {
		s.heap = make([]turn, len(endpoints))
	}
	s.heap = s.heap[:len(endpoints)]
	var sum float64
	for _, e := range endpoints {
		sum += weight[e] + nudge
	}
	wanted := int(picks % maxPicks)
	until := float64(wanted) / sum
	made := s.enter(endpoints, weight, until)
	margin := math.Sqrt(float64(len(endpoints)))
	for tries := 0; tries < 4 && float64(wanted-made) > 2*margin; tries++ {
		later := until + (float64(wanted-made)-margin)/sum
		more := s.enter(endpoints, weight, later)
		if more > wanted {
			s.enter(endpoints, weight, until)
			break
		}
		until, made = later, more
	}
	s.order = uint32(len(endpoints))
	for i := (len(s.heap) - 2) / children; i >= 0; i-- {
		s.sink(i, s.heap[i])
	}
	for ; made < wanted; made++ {
		s.again(weight[s.first()])
	}
}

// enter puts in all endpoints, in no order, as they are after those picks that come before a
// time, and returns how many these are.
func (s *edf) enter(endpoints []int32, weight []float64, until float64) int {
	made := 0
	for i, e := range endpoints {
		w := weight[e] + nudge
		had := uint32(w * until)
		if had > 0 && float64(had)/w >= until {
			had-- // rounding gave it one too many
		}
		made += int(had)
		s.heap[i] = turn{float64(had+1) / w, uint32(i), e}
	}
	return made
}

// first is the server that is due.
func (s *edf) first() int32 { return s.heap[0].server }

// again enters the one that was due again, with this weight.
func (s *edf) again(weight float64) {
	t := s.heap[0]
	t.due += 1 / weight
	t.order = s.order
	s.order++
	s.sink(0, t)
}

// sink puts a turn in the place i, or where it belongs below.
func (s *edf) sink(i int, t turn) {
	h := s.heap
	for {
		from := children*i + 1
		if from >= len(h) {
			break
		}
		least := from
		for c := from + 1; c < min(from+children, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&t) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = t
}
