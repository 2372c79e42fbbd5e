// Package policy has the ways in which proxies choose endpoints, for [sim.Trial]: those that
// are in use, as their sources have them, and two that know more than anybody can, as bounds.
//
// Start with [All]. Each policy is a file of its own, which names its source and says what it
// leaves out. What several of them need is below: members.go is who is there, lottery.go
// draws in proportion to weights, edf.go is Envoy's scheduler and rotation.go its round robin.
//
// A proxy is an Envoy with one worker thread, or a client process with a balancer of its own.
// None of them checks health or ejects outliers: what an endpoint's failures do to a policy
// shows undiluted.
//
// Weights are a control plane's. A source that knows them decides what they do. Where it knows
// none, candidates are drawn in proportion to weight, or costs are divided by it, so that
// equal weights are the source's own policy.
package policy
