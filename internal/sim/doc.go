// Package sim simulates a service behind load-balancing proxies: requests arrive, proxies
// choose endpoints, endpoints share their cores between requests, and a control loop moves
// weights by what it measures. It is pure and deterministic: a [Service], a [Policy] and a
// seed give the same [Result] each time, on machines of one architecture.
//
// Start with [Service], which says what there is, and [Run]. What happens next is decided in
// engine.go; server.go is the arithmetic of shared cores, departures.go finds the server that
// answers first, agenda.go keeps what is due at other times, loop.go is the control loop, and
// the children are the policies.
//
// Arms that are compared see the same requests: arrivals, the proxies that they come in at
// and how costly each request is among its like depend on the seed alone. Differences between
// arms are theirs, and not luck.
//
// Units: seconds, CPU in cores, demand in CPU-seconds per request, rates per second.
package sim
