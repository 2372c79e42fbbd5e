package balance

import (
	"math"
	"time"
)

// rampStart is the part of its share that a new endpoint starts with: enough to
// be measured, little enough for cold caches.
const rampStart = 0.25

// stepFloor is the part of the equal share up to which any share may grow at once:
// that much every endpoint would get anyway, without taper.
const stepFloor = 0.5

// leastUtilization is the utilization, at equal shares, that shares are chosen for
// even when there is less load. Hardly loaded servers answer equally fast however
// much each gets: the latency of the strategy's model is flat there, and a few per
// cent of noise in the demands would move all requests from one to the other.
const leastUtilization = 0.15

// propose sets each member's target, which is what the strategy wants, and its
// next share, which is how far towards it this decision goes.
func (s *state) propose() {
	p := s.in.Policy
	equal := 1 / float64(len(s.members))
	appetites := make([]appetite, len(s.members))
	bounds := make([]bound, len(s.members))
	load := max(s.load, s.loadFor(leastUtilization))
	limits := s.limits()
	for i := range s.members {
		m := &s.members[i]
		appetites[i] = newAppetite(p.Strategy, m.assumed, m.cores, m.free, load)
		bounds[i] = s.standing(m, equal, limits[i])
	}
	for i, share := range distribute(appetites, bounds) {
		s.members[i].target = share
	}
	overloaded := highs(bounds) < 1
	for i := range s.members {
		m := &s.members[i]
		m.reason = m.standingReason(bounds[i], equal, p, overloaded)
		bounds[i] = s.pace(m, bounds[i], equal)
	}
	for i, share := range distribute(appetites, bounds) {
		m := &s.members[i]
		m.next = share
		if m.reason == Balanced && share < m.target && near(share, bounds[i].high) {
			m.reason = StepLimit
		}
	}
}

// loadFor is the load, in requests per second, that would make the given
// utilization of the whole service if every endpoint got the same.
func (s *state) loadFor(utilization float64) float64 {
	var demands, free float64
	for i := range s.members {
		demands += s.members[i].assumed
		free += s.members[i].free
	}
	return utilization * free * float64(len(s.members)) / demands
}

// limits are the shares at which members reach the utilization limit.
//
// Where capacities were learnt and leave no room for the load, they give way, since what
// makes latency may be something else than cores, and load that is kept from some must not
// overload the others: all limits rise in proportion, to half-way between the limit and full
// use, and those of members that were taken for small further, up to that of what is
// configured.
func (s *state) limits() []float64 {
	limit := s.in.Policy.UtilizationLimit
	hot := (1 + limit) / 2
	shares, most := make([]float64, len(s.members)), make([]float64, len(s.members))
	var sum, sumMost float64
	learnt := false
	for i := range s.members {
		m := &s.members[i]
		full := 1 / (m.assumed * s.load) // the share that uses one core
		shares[i], most[i] = limit*m.free*full, hot*m.given()*full
		sum, sumMost = sum+shares[i], sumMost+most[i]
		learnt = learnt || m.free != m.given()
	}
	if sum >= 1 || !learnt {
		return shares
	}
	if sumMost <= 1 { // nothing that was learnt can be kept
		for i := range s.members {
			shares[i] = most[i] * limit / hot
		}
		return shares
	}
	low, high := 1.0, mostRoom*hot/limit
	for high > low*1.001 {
		mid, sum := math.Sqrt(low*high), 0.0
		for i := range shares {
			sum += min(mid*shares[i], most[i])
		}
		if sum < 1 {
			low = mid
		} else {
			high = mid
		}
	}
	for i := range shares {
		shares[i] = min(high*shares[i], most[i])
	}
	return shares
}

// standing is how far a share may go whatever it is now; limit is its utilization limit's.
func (s *state) standing(m *member, equal, limit float64) bound {
	p := s.in.Policy
	if !m.fresh && m.demand > 0 {
		return s.unseen(m, equal)
	}
	b := bound{low: p.MinShare * equal, high: min(1, p.MaxShare*equal)}
	if limit < b.high {
		b.high = max(b.low, limit)
	}
	return b
}

// unseen keeps the share of an endpoint whose metric went missing. When that
// lasts, the share steps to the equal one.
func (s *state) unseen(m *member, equal float64) bound {
	share := m.current
	if m.age >= s.in.Policy.ReleaseAfter {
		share = s.step(share, equal)
	}
	return bound{share, share}
}

// step moves a share towards another by at most the policy's step.
func (s *state) step(share, to float64) float64 {
	f := s.in.Policy.MaxStep
	return clamp(to, bound{share / f, share * f})
}

// pace narrows a standing bound to what this one decision may do. Only growth is
// limited: a share that falls puts no endpoint at risk, and what it frees is
// taken up by shares that are limited themselves.
func (s *state) pace(m *member, b bound, equal float64) bound {
	if b.low == b.high {
		return b
	}
	p := s.in.Policy
	if part, warming := m.warmth(s.in.Now, p); warming {
		if part < 1 {
			m.reason = Warming
		}
		b.high = max(part*m.target, rampStart*p.MinShare*equal)
		b.low = min(b.low, b.high)
		return b
	}
	b.high = max(b.low, min(b.high, s.grown(m.current, equal)))
	return b
}

// warmth is the part, from rampStart to 1, of its share that a new endpoint may
// have. The first decision after the ramp still counts to it: the limit on steps
// would stretch the ramp otherwise.
func (m *member) warmth(now time.Time, p Policy) (float64, bool) {
	if m.estimate.Since.IsZero() {
		return 1, false
	}
	age := now.Sub(m.estimate.Since)
	if p.Ramp <= 0 || age >= p.Ramp+p.Interval {
		return 1, false
	}
	return min(1, rampStart+(1-rampStart)*float64(age)/float64(p.Ramp)), true
}

// standingReason names the bound that holds the target where it is.
func (m *member) standingReason(b bound, equal float64, p Policy, overloaded bool) Reason {
	switch {
	case !m.fresh && m.lacking != "":
		return m.lacking
	case !m.fresh:
		return StaleSample
	case overloaded:
		return Overloaded
	case near(m.target, b.low) && near(b.low, p.MinShare*equal):
		return AtMinShare
	case near(m.target, b.high) && near(b.high, min(1, p.MaxShare*equal)):
		return AtMaxShare
	case near(m.target, b.high):
		return AtUtilization
	}
	return Balanced
}

// release sets the next shares one step nearer to equal: all of them by the same
// part of their way, so that they still add up, and so far that the share which
// grows most does not grow faster than in any other decision.
func (s *state) release() {
	equal := 1 / float64(len(s.members))
	part := 1.0
	for i := range s.members {
		if m := &s.members[i]; m.current < equal {
			part = min(part, (s.grown(m.current, equal)-m.current)/(equal-m.current))
		}
	}
	for i := range s.members {
		m := &s.members[i]
		m.target, m.reason = equal, Released
		m.next = m.current + part*(equal-m.current)
	}
}

// grown is the most that a share may become in one decision.
func (s *state) grown(share, equal float64) float64 {
	return max(share*s.in.Policy.MaxStep, stepFloor*equal)
}

func highs(bounds []bound) float64 {
	var sum float64
	for _, b := range bounds {
		sum += b.high
	}
	return sum
}

// near allows for how exactly shares are solved for.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*b }
