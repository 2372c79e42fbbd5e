package policy

import (
	"slices"
	"sort"
)

// responder is what a server has to answer probes with, as in section 4 of the paper: the
// latencies of the last requests, each with how many requests were in flight when it arrived.
// The latency that it answers with is the median of those that arrived at about the load that
// there is now.
//
// Latencies are as proxies see them, with the round trip, which is the same for all servers.
type responder struct {
	arrivals  [arrivalsKept]arrival
	latencies [latenciesKept]tagged
	// arrivedN and departedN are how many there have been of either.
	arrivedN, departedN int
}

type arrival struct {
	at       float64
	inFlight int32
}

type tagged struct {
	latency  float64
	inFlight int32
}

const (
	// arrivalsKept is more than what a server usually has in flight; a request that was
	// overtaken by more counts like the oldest that is kept.
	arrivalsKept = 128
	// latenciesKept is how many make the last requests, and nearest how many of these a
	// median is taken of, at least.
	latenciesKept = 32
	nearest       = 5
	// responderBytes is the size of a responder.
	responderBytes = (arrivalsKept+latenciesKept)*16 + 16
)

// arrived is a request that comes now and finds others in flight. Times do not fall.
func (r *responder) arrived(now float64, inFlight int) {
	r.arrivals[r.arrivedN%arrivalsKept] = arrival{now, int32(inFlight)}
	r.arrivedN++
}

// departed is a request that was answered, and had arrived at this time.
func (r *responder) departed(arrivedAt, latency float64) {
	kept := min(r.arrivedN, arrivalsKept)
	if kept == 0 {
		return
	}
	oldest := r.arrivedN - kept
	i := sort.Search(kept-1, func(i int) bool {
		return r.arrivals[(oldest+i)%arrivalsKept].at >= arrivedAt-slack
	})
	inFlight := r.arrivals[(oldest+i)%arrivalsKept].inFlight
	r.latencies[r.departedN%latenciesKept] = tagged{latency, inFlight}
	r.departedN++
}

// latency is what a request would take with so many others in flight; 0 if none was answered
// yet, so that a new server is tried.
func (r *responder) latency(inFlight int32) float64 {
	kept := r.latencies[:min(r.departedN, latenciesKept)]
	if len(kept) == 0 {
		return 0
	}
	var chosen [latenciesKept]float64
	for distance := int32(0); ; distance = 2*distance + 1 {
		n := 0
		for _, t := range kept {
			if d := t.inFlight - inFlight; -distance <= d && d <= distance {
				chosen[n] = t.latency
				n++
			}
		}
		if n >= min(nearest, len(kept)) {
			slices.Sort(chosen[:n])
			return (chosen[(n-1)/2] + chosen[n/2]) / 2
		}
	}
}
