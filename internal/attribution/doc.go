// Package attribution finds out which calls a request caused, and what its time went to.
//
// A [Linker] takes the facts of a capture as package capture tells them, and tells
// [Request]s: each with the calls that it caused, how sure that is, and its time split
// once by cause. It is pure: it reads no file, has no clock, and for one capture always
// gives one answer.
//
// The way of an exchange:
//
//	linker.go    waits until all that began before it is known; windows
//	roles.go     request or call? which addresses are local
//	kind.go      route and template (pattern.go), peer (peer.go)
//	unit.go      name, handshake and first exchange become one unit
//	link.go      exact keys, constraints, first links
//	sample.go    links in proportion to their likelihood (period.go, solver.go: all ways
//	             to link a few; chain.go, exchange.go: steps from one way to another)
//	walk.go      the likelihood: steps and pauses of a route (density.go, model.go)
//	slice.go     the request's time, split once (part.go)
//	ledger.go    what cannot be claimed, and why
//
// Which call belongs to which request is decided in this order: exact keys (trace and
// request ids, threads), constraints that nothing can break (a call begins within its
// request; a handshake belongs to the first exchange on its connection; an answer of DNS
// to the connection that goes to its address), and for what is left a probability, from
// a model of the sequence of calls and of the pauses between them that is learned per
// route from the capture itself; see docs/explain.md.
package attribution
