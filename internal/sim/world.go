package sim

import "math"

// The engine is the [World] of its policy.
var _ World = (*engine)(nil)

// window is a stretch of time that a server reports of: what it had used and answered at its
// beginning, and what came of the one before.
type window struct {
	from, used          float64
	served              uint64
	utilization, perSec float64
}

// reportEvery is how long a window is at least, in seconds.
const reportEvery = 1

// Now implements [World].
func (e *engine) Now() float64 { return e.now }

// InFlight implements [World].
func (e *engine) InFlight(server int) int { return e.servers[server].inFlight() }

// Utilization implements [World].
func (e *engine) Utilization(server int) float64 { return e.report(server).utilization }

// Served implements [World].
func (e *engine) Served(server int) float64 { return e.report(server).perSec }

// report closes a server's window if it is over. Windows are closed when somebody asks, and
// last until then.
func (e *engine) report(server int) *window {
	w := &e.standing[server].window
	lasted := e.now - w.from
	if lasted < reportEvery {
		return w
	}
	used, served := e.cpu(server), e.servers[server].served
	*w = window{
		from: e.now, used: used, served: served,
		utilization: (used - w.used) / lasted / e.service.Servers[server].Cores,
		perSec:      float64(served-w.served) / lasted,
	}
	return w
}

// Expected implements [World].
func (e *engine) Expected(server int) float64 {
	s, st := &e.servers[server], &e.standing[server]
	if st.down {
		return math.Inf(1)
	}
	demand := st.factor * e.service.Servers[server].Demand.Mean()
	n := float64(s.inFlight() + 1)
	if queued := n - float64(s.atOnce); queued > 0 {
		return demand * (queued/s.free + 1/min(1, s.free/float64(s.atOnce)))
	}
	return demand / min(1, s.free/n)
}

// Later implements [World].
func (e *engine) Later(seconds float64, do func()) { e.agenda.add(e.now+seconds, do) }
