package explain

import (
	"cmp"
	"container/heap"
	"slices"

	"taper.dev/taper/internal/attribution"
)

const (
	// DefaultRequests is how many requests are kept for output.
	DefaultRequests = 1000
	// slowestKept is how many of the slowest requests of a route are kept; of routes after
	// the first manyRoutes, fewSlowest.
	slowestKept = 20
	manyRoutes  = 32
	fewSlowest  = 3
	// maxCalls and maxSlices bound what is kept of one request, maxFirst the calls and
	// slices of all the first ones.
	maxCalls  = 200
	maxSlices = 4 * maxCalls
	maxFirst  = 400_000
)

// keeper keeps some requests for output: the slowest of each route, then the first.
type keeper struct {
	limit  int
	first  []*Request
	weight int           // calls and slices of first
	routes []*routeStats // that have slowest ones, in the order in which they came
}

// offer keeps the request if it is one to be kept. Requests that are not are not even
// converted.
func (k *keeper) offer(r *attribution.Request, parts []attribution.Part, route *routeStats) {
	slow := k.limit > 0 && route.slowest.wants(milliseconds(r.Duration()))
	first := len(k.first) < k.limit && k.weight < maxFirst
	if !slow && !first {
		return
	}
	converted := convert(r, parts)
	if first {
		k.first = append(k.first, converted)
		k.weight += len(converted.Calls) + len(converted.Slices)
	}
	if slow {
		if len(route.slowest.requests) == 0 {
			k.routes = append(k.routes, route)
		}
		route.slowest.keep(converted)
	}
}

// requests are those to show, in the order in which they began.
func (k *keeper) requests() []Request {
	chosen := map[uint64]*Request{}
	choose := func(r *Request) {
		if len(chosen) < k.limit {
			chosen[r.ID] = r
		}
	}
	ranked := make([][]*Request, len(k.routes))
	for i, route := range k.routes {
		ranked[i] = route.slowest.ranked()
	}
	for rank := range slowestKept {
		for _, slow := range ranked {
			if rank < len(slow) {
				choose(slow[rank])
			}
		}
	}
	for _, r := range k.first {
		choose(r)
	}
	requests := make([]Request, 0, len(chosen))
	for _, r := range chosen {
		requests = append(requests, *r)
	}
	slices.SortFunc(requests, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	return requests
}

// slowest are the slowest requests of a route.
type slowest struct {
	limit    int
	requests slowHeap
}

func (s *slowest) wants(ms float64) bool {
	return len(s.requests) < s.limit || ms > s.requests[0].DurationMS
}

func (s *slowest) keep(r *Request) {
	if len(s.requests) < s.limit {
		heap.Push(&s.requests, r)
		return
	}
	s.requests[0] = r
	heap.Fix(&s.requests, 0)
}

// ranked is the slowest first.
func (s *slowest) ranked() []*Request {
	all := slices.Clone(s.requests)
	slices.SortFunc(all, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(b.DurationMS, a.DurationMS), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// slowHeap has the fastest on top.
type slowHeap []*Request

// Len implements [heap.Interface].
func (s slowHeap) Len() int { return len(s) }

// Less implements [heap.Interface]. Of equally slow requests the first stays.
func (s slowHeap) Less(i, j int) bool {
	if s[i].DurationMS != s[j].DurationMS {
		return s[i].DurationMS < s[j].DurationMS
	}
	return s[i].ID > s[j].ID
}

// Swap implements [heap.Interface].
func (s slowHeap) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements [heap.Interface].
func (s *slowHeap) Push(r any) { *s = append(*s, r.(*Request)) }

// Pop implements [heap.Interface].
func (s *slowHeap) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
