package balance

import (
	"math"
	"slices"
)

// What an endpoint may use is configured; what it gets is another matter: neighbours on its
// machine steal cores, and none of its own metrics of CPU shows that. Its latency does. Where
// requests in flight are measured beside CPU, Little's law gives the response time that
// requests had; from their demand follows how many cores would explain it.

const (
	// mostRoom bounds what is learnt: a factor, either way.
	mostRoom = 16
	// commonPart is the part of endpoints whose requests may wait less than what counts as
	// common to all: fewer than half may be far from what all wait for, and noise is not
	// the least.
	commonPart = 0.25
	// roomIntervals is the memory of what was learnt, long enough that an endpoint which was
	// given less is not at once taken for well again: with little load any capacity explains
	// its latency.
	roomIntervals = 10
	// configuredDeviation is how far configured capacities are believed to be off, as the
	// standard deviation of their logarithm.
	configuredDeviation = 0.2
	// responseDeviation is that of single response times, in multiples of their mean, which
	// are like their neighbours in time; scrapeDeviation is that of a mean over many, since
	// CPU, requests and requests in flight are not counted at one instant.
	responseDeviation = 2
	scrapeDeviation   = 0.05
	// roomDoubt is the part of a learnt difference that is never believed, as a logarithm, and
	// doubtDeviations what is not, in deviations of what was learnt: shares must not chase the
	// noise of endpoints that are alike.
	roomDoubt       = 0.1
	doubtDeviations = 2
)

// Room is what is known of an endpoint's cores beside its configuration: the logarithm of
// the cores that explain its latency over those that are configured, as discounted sums.
type Room struct {
	Sum    float64 `json:"sum"`
	Weight float64 `json:"weight"`
}

// factor is what configured cores are multiplied by: at most 1, since a limit that is set on
// their utilization must hold whatever latency looks like.
func (r Room) factor() float64 {
	weight := r.Weight + 1/(configuredDeviation*configuredDeviation)
	log := r.Sum / weight
	doubt := max(roomDoubt, doubtDeviations/math.Sqrt(weight))
	return math.Exp(min(0, log+doubt))
}

// response is the mean response time, in seconds, that a strategy's model has for requests
// of a demand, at a rate, on so many cores: S/(1-ρ^c). It is +Inf where the queue grows.
func response(demand, rate, cores float64) float64 {
	rho := rate * demand / cores
	if rho >= 1 {
		return math.Inf(1)
	}
	return demand / min(1, cores) / (1 - power(rho, max(1, cores)))
}

// power is yⁿ, fast for the numbers of cores that are common.
func power(y, n float64) float64 {
	switch n {
	case 1:
		return y
	case 2:
		return y * y
	case 4:
		return y * y * y * y
	}
	return math.Pow(y, n)
}

// coresFor are the cores with which requests take that long: response, inverted to better
// than 1 %, which is less than the noise.
func coresFor(took, demand, rate, least, most float64) float64 {
	for most > least*1.01 {
		if mid := math.Sqrt(least * most); response(demand, rate, mid) > took {
			least = mid
		} else {
			most = mid
		}
	}
	return most
}

// took is the mean response time in a sample, in seconds, by Little's law; 0 when unknown.
func (o observation) took() float64 {
	if !o.inFlight.Valid() || o.rate <= 0 {
		return 0
	}
	return o.inFlight.Value / o.rate
}

// learnRoom corrects what endpoints can use by how long their requests took. What requests
// wait for everywhere alike (another service, the network between a proxy and here) is not
// theirs, and is taken off first.
func (s *state) learnRoom() {
	if s.memory.Evidence != FromCPU {
		return
	}
	waits := make([]float64, 0, len(s.members))
	for i := range s.members {
		if m := &s.members[i]; m.timed() {
			waits = append(waits, m.took-response(m.demand, m.estimate.Rate, m.free*m.estimate.Room.factor()))
		}
	}
	common := max(0, quantile(waits, commonPart))
	for i := range s.members {
		m := &s.members[i]
		if m.timed() {
			m.estimate.Room = m.room(m.took - common)
			s.memory.Endpoints[m.Address] = m.estimate
		}
		if f := m.estimate.Room.factor(); f != 1 {
			m.free *= f
			m.cores = m.idle + m.free
		}
	}
}

// quantile is what a part of the values is below, roughly; 0 of none.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(part*float64(len(values)))]
}

// given are the cores that are left for requests, as configured.
func (m *member) given() float64 { return m.configured - m.idle }

// timed tells whether it is known how long the endpoint's requests took.
func (m *member) timed() bool { return m.demand > 0 && m.took > 0 }

// room adds what the newest sample says, of which own seconds are the endpoint's. It counts
// as much as it tells: a latency that hardly depends on the cores says little about them.
func (m *member) room(own float64) Room {
	rate, known := m.estimate.Rate, m.estimate.Room
	busy := rate * m.demand
	now := max(m.free*known.factor(), busy*1.01)
	least := max(m.free/mostRoom, busy*1.001)
	most := max(least, min(2*now, m.free*mostRoom))
	cores := coresFor(max(m.demand, own), m.demand, rate, least, most)
	slope := sensitivity(m.demand, rate, math.Sqrt(now*cores)) // in the middle: it differs a lot
	variance := responseDeviation*responseDeviation/m.requests + scrapeDeviation*scrapeDeviation
	// An error in all of the time is a larger one in the part that is the endpoint's own.
	part := max(m.demand, own) / m.took
	weight := slope * slope * part * part / variance
	fade := math.Exp(-1.0 / roomIntervals)
	return Room{
		Sum:    known.Sum*fade + weight*math.Log(cores/m.free),
		Weight: known.Weight*fade + weight,
	}
}

// sensitivity is how much the response time changes with the cores, both relative, up to 1.
func sensitivity(demand, rate, cores float64) float64 {
	const step = 1.05
	return min(1, math.Log(response(demand, rate, cores)/response(demand, rate, cores*step))/math.Log(step))
}
