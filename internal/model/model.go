// Package model is taper's vocabulary: the endpoints of a service, what was
// measured on them, and the weights they are given. Every other package speaks
// in these types; this one imports nothing of taper.
//
// Start with [Endpoint] and [Sample]. A measured value is a [Reading]: it
// carries the time at which it was true, and a Reading without a time was never
// measured. Missing is not zero anywhere in taper.
package model

import "time"

// Endpoint is one address:port behind a service.
type Endpoint struct {
	// Address is host:port as the data plane dials it, and the endpoint's identity.
	Address string
	// Name is what metrics call the endpoint (a pod's name); empty where they use the address.
	Name string
	// Capacity is the CPU the endpoint can use, in cores; 0 where the policy's default applies.
	Capacity float64
}

// Reading is one measured value with the time at which it was true.
// The zero Reading is a missing one.
type Reading struct {
	Value float64
	At    time.Time
}

// Known tells whether the reading was measured at all. It says nothing of its age.
func (r Reading) Known() bool { return !r.At.IsZero() }

// mostValue is more than any endpoint does of anything: more cores, more requests
// a second. What lies above it is a broken metric, and would overflow sums.
const mostValue = 1e9

// Valid tells whether the reading was measured and is a number from 0 to 1e9.
// A counter that ran backwards and a division by zero both fail here.
func (r Reading) Valid() bool {
	return r.Known() && r.Value >= 0 && r.Value <= mostValue // NaN fails too
}

// Sample is what was observed of one endpoint over the last control interval.
// Each reading may be missing on its own.
type Sample struct {
	// CPU is the mean CPU usage, in cores.
	CPU Reading
	// Requests is the rate of requests served, per second.
	Requests Reading
	// InFlight is the mean number of requests being served at once.
	InFlight Reading
	// Window is how long before its time a reading's mean begins; 0 when the source
	// does not tell.
	Window time.Duration
}

// Snapshot holds the newest sample of each endpoint, by [Endpoint.Address].
// An endpoint that was not measured is absent.
type Snapshot map[string]Sample

// Weights are the integers that the data plane balances by, by [Endpoint.Address].
// A weight is never 0.
type Weights map[string]uint32

// Shares turns weights into fractions of their sum.
func (w Weights) Shares() map[string]float64 {
	var total float64
	for _, v := range w {
		total += float64(v)
	}
	shares := make(map[string]float64, len(w))
	for address, v := range w {
		shares[address] = float64(v) / total
	}
	return shares
}
