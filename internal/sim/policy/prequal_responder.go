package policy

import (
	"math/bits"
	"slices"
	"sort"
)

// responder is what a server has to answer probes with, as in section 4 of the paper: the
// latencies of past requests, by how many requests were in flight when they arrived. The
// latency that it answers with is the median of those that arrived at about the load that
// there is now. Those of each load are kept until others of that load take their place, so
// that a server which has become idle knows how fast it is then. How recent latencies must be
// the paper leaves open: without an end, one that was slow by chance would get nothing more.
//
// Latencies are as proxies see them, with the round trip, which is the same for all servers.
type responder struct {
	arrivals [arrivalsKept]arrival
	// arrivedN is how many there have been.
	arrivedN int
	levels   [levels]level
}

// level are the last latencies at a load.
type level struct {
	latencies [latenciesKept]tagged
	n         int32
}

type tagged struct{ at, latency float32 }

type arrival struct {
	at       float64
	inFlight int32
}

const (
	// arrivalsKept is more than what a server usually has in flight; a request that was
	// overtaken by more counts like the oldest that is kept.
	arrivalsKept = 128
	// latenciesKept is how many are kept at each load, and nearest of how many a median is
	// taken, at least.
	latenciesKept = 15
	nearest       = 5
	// recent is how old they may be, in seconds.
	recent = 10
	// Loads up to exact requests in flight are told apart, those above by powers of two.
	exact  = 16
	levels = exact + 17
	// responderBytes is the size of a responder.
	responderBytes = (arrivalsKept*16 + 8 + levels*(latenciesKept*8+4) + 7) / 8 * 8
)

// levelOf is the place of a load among the levels.
func levelOf(inFlight int32) int {
	if inFlight < exact {
		return int(inFlight)
	}
	return min(levels-1, exact+bits.Len32(uint32(inFlight))-bits.Len32(exact))
}

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
	l := &r.levels[levelOf(r.arrivals[(oldest+i)%arrivalsKept].inFlight)]
	l.latencies[l.n%latenciesKept] = tagged{float32(arrivedAt + latency), float32(latency)}
	l.n++
}

// latency is what a request would take with so many others in flight; 0 if none was answered
// yet, so that a new server is tried.
func (r *responder) latency(now float64, inFlight int32) float64 {
	var chosen [levels * latenciesKept]float32
	n := 0
	at := levelOf(inFlight)
	for away := 0; away < levels && n < nearest; away++ {
		for _, i := range [2]int{at - away, at + away} {
			if i < 0 || i >= levels || away == 0 && i != at {
				continue
			}
			l := &r.levels[i]
			for _, t := range l.latencies[:min(l.n, latenciesKept)] {
				if float32(now)-t.at < recent {
					chosen[n] = t.latency
					n++
				}
			}
			if away == 0 {
				break
			}
		}
	}
	if n == 0 {
		return 0
	}
	slices.Sort(chosen[:n])
	return float64(chosen[(n-1)/2]+chosen[n/2]) / 2
}
