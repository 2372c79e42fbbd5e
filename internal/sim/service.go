package sim

import (
	"time"

	"taper.dev/taper/internal/balance"
)

// Service is a service as it is simulated: its endpoints, its load, and what happens to it.
type Service struct {
	Servers []Server
	// Proxies is how many balance, each of which knows nothing of the others. A request
	// comes in at any of them alike.
	Proxies  int
	Arrivals Arrivals
	// RoundTrip is what the network and the proxy add to a request, in seconds: an answer
	// comes that much later than the server has it.
	RoundTrip float64
	// Timeout is when a proxy gives an attempt up; 0 is never. The server goes on with it.
	Timeout float64
	// Retries is how often a failed attempt is repeated, each time at an endpoint that the
	// policy chooses anew.
	Retries int
	// Changes happen to servers, at any time and in any order.
	Changes []Change
	// WarmUp is how long the service runs before it is measured, Measure for how long.
	WarmUp, Measure float64
}

// Server is an endpoint.
type Server struct {
	// Address names it. It is unique.
	Address string
	// Kind says what it is like, in a word or two; servers of one kind are alike.
	Kind string
	// Cores is what it can use, for idling and for requests.
	Cores float64
	// Idle is what it uses without requests, in cores; requests share the rest.
	Idle float64
	// Demand is what requests cost there.
	Demand Demand
	// Discipline is how requests share the cores.
	Discipline Discipline
	// From and Until are when it is a member of the service; Until 0 is to the end. One that
	// leaves answers what it has.
	From, Until float64
}

// Discipline is how requests share a server's cores. A request uses one core at a time, and
// a part of one where there is no whole one.
type Discipline int

// The disciplines.
const (
	// ProcessorSharing lets all requests run side by side, as threads do.
	ProcessorSharing Discipline = iota
	// FirstComeFirstServed lets as many run as there are cores; the others queue.
	FirstComeFirstServed
)

// Change is something that happens to one server, at At, until Until (0: to the end).
type Change struct {
	Server    int
	At, Until float64
	// Demand is what costs are multiplied by, for requests that arrive meanwhile; 0 is 1.
	Demand float64
	// Stolen are cores that others on the machine use. The server's CPU does not show them.
	Stolen float64
	// Down refuses requests and loses those under way.
	Down bool
}

// Weigher is how proxies' weights come about; a nil Weigher leaves them equal.
type Weigher struct {
	// Fixed are weights from the beginning, one per server, if not nil; there is no loop then.
	Fixed []uint32
	// Decide is the control loop's decision.
	Decide func(balance.Input) balance.Decision
	Policy balance.Policy
	// Evidence is which metrics the loop reads: CPU, rates and requests in flight; all but
	// CPU; or CPU alone.
	Evidence balance.Evidence
	// NoInFlight leaves requests in flight out of the first of these.
	NoInFlight bool
	// Delay is how old samples are when they are read: they are of the interval that ended
	// so long before.
	Delay float64
	// Propagation is how long after a decision proxies have it.
	Propagation float64
	// Noise is the relative deviation of a reading, Missing the probability that an
	// endpoint's sample is missing.
	Noise, Missing float64
	// Outages are spans, in seconds, in which nothing is read.
	Outages []Span
}

// Span is a stretch of time, in seconds.
type Span struct{ From, Until float64 }

// epoch is the wall time of 0: decisions have times and not seconds.
var epoch = time.Unix(0, 0).UTC()

// at is a simulated time as decisions have it.
func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}
