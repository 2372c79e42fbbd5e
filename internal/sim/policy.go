package sim

import "taper.dev/taper/internal/random"

// Policy is how proxies choose endpoints. One value serves all proxies; what one of them
// knows, another must not use, unless the policy is all-knowing on purpose. Endpoints are
// indices of [Service.Servers].
type Policy interface {
	// Assign tells every proxy who is there now, in rising order and never nobody, and their
	// weights (never 0), in the same order. It comes before the first Pick, and whenever one
	// of them changes. Neither list may be kept or changed.
	Assign(endpoints []int, weights []uint32)
	// Pick chooses an endpoint, of those that are assigned, for a request at a proxy. The
	// request is then under way until Done.
	Pick(proxy int) int
	// Done tells a proxy of the end of a request that it sent.
	Done(proxy, endpoint int, a Answer)
}

// Answer is what a proxy sees of a request's end.
type Answer struct {
	// Latency is since the attempt was sent, in seconds.
	Latency float64
	// Failed is refused, lost or given up.
	Failed bool
}

// World is what policies may know beyond what passes through their proxy, and how they do
// things later. A policy says in its documentation what of it would be there in reality.
type World interface {
	// Now is the time, in seconds since the beginning.
	Now() float64
	// InFlight is how many requests a server has.
	InFlight(server int) int
	// Utilization is the part of a server's cores in use by requests and idling, and Served
	// the requests that it answered per second, over a time of at least a second that ended
	// when somebody asked: what it would report by itself.
	Utilization(server int) float64
	Served(server int) float64
	// Expected is how long a mean request would take that went to the server now and found
	// no other after it, in seconds: what only somebody all-knowing has.
	Expected(server int) float64
	// Later calls a function after some seconds.
	Later(seconds float64, do func())
}

// Setting is what a policy is made for.
type Setting struct {
	Proxies, Servers int
	World            World
	Random           *random.Source
}

// NewPolicy makes a policy for one run.
type NewPolicy func(Setting) Policy
