// Package lab repeats, on one machine and with real servers, the experiments that
// taper grew from.
//
// [Balance] is the Fibonacci experiment: fifteen endpoints of unequal speed behind
// a number of Envoys, under open-loop load, with one way to balance after another.
// [Options] says what to run; testbed.go starts the servers, experiment.go is the
// order of events, result.go turns what was measured into a report.
//
// The loop under test is standalone.Controller, the one that `taper balance` runs;
// its samples come through the promql source, from an embedded store or a real one.
package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
)

// The ways to balance, by their names in the report.
const (
	LeastRequest = "least-request"
	RoundRobin   = "round-robin"
	EqualLoad    = string(balance.EqualLoad)
	LeastLatency = string(balance.LeastLatency)
)

// Kinds of endpoints, and stores.
const (
	Emulated        = "emulated"
	Nginx           = "nginx"
	EmbeddedStore   = "embedded"
	VictoriaMetrics = "victoria-metrics"
)

// Options say what to run. Start from [DefaultOptions].
type Options struct {
	// Endpoints is the kind of the servers under test.
	Endpoints string
	// Store is where the samples are kept.
	Store string
	// Arms are the ways to balance; the first is what the others are compared with.
	Arms []string
	// Proxies is the number of client Envoys.
	Proxies int
	// Rate is the load on all proxies together, in requests per second.
	Rate float64
	// Rounds is how often each arm is measured, the arms taking turns.
	Rounds int
	// Measure is for how long.
	Measure time.Duration
	// Interval is the control interval of the loops under test.
	Interval time.Duration
	// Disturb doubles the demand of one endpoint after the last round and watches
	// the weights follow.
	Disturb bool
	Seed    uint64
	// Envoy and NginxBinary are commands or paths. VictoriaMetrics is looked up in
	// PATH.
	Envoy, NginxBinary string
}

// DefaultOptions is the published experiment, as far as one machine carries it:
// all of it emulated, a tenth of its load with real nginx.
func DefaultOptions(endpoints string) Options {
	o := Options{
		Endpoints: endpoints, Store: EmbeddedStore, Arms: []string{LeastRequest, EqualLoad, LeastLatency},
		Proxies: 16, Rate: 1500, Rounds: 3, Measure: 10 * time.Second, Interval: 3 * time.Second, Seed: 1,
		Envoy: "envoy", NginxBinary: "nginx",
	}
	if endpoints == Nginx {
		o.Rate, o.Measure, o.Interval = 150, 20*time.Second, 4*time.Second
	}
	return o
}

// Validate reports the first option that cannot be run.
func (o Options) Validate() error {
	if err := oneOf("endpoints", o.Endpoints, Emulated, Nginx); err != nil {
		return err
	}
	if err := oneOf("store", o.Store, EmbeddedStore, VictoriaMetrics); err != nil {
		return err
	}
	if len(o.Arms) == 0 {
		return fmt.Errorf("there are no arms: name at least one of %s, %s, %s, %s", LeastRequest, EqualLoad, LeastLatency, RoundRobin)
	}
	for i, arm := range o.Arms {
		if err := oneOf("arm", arm, LeastRequest, EqualLoad, LeastLatency, RoundRobin); err != nil {
			return err
		}
		if slices.Contains(o.Arms[:i], arm) {
			return fmt.Errorf("arm %s is there twice", arm)
		}
	}
	for _, b := range []struct {
		name             string
		value, low, high float64
	}{
		{"proxies", float64(o.Proxies), 1, 128},
		{"rate", o.Rate, 1, 20000},
		{"rounds", float64(o.Rounds), 1, 100},
		{"measure in seconds", o.Measure.Seconds(), 1, 3600},
		{"interval in seconds", o.Interval.Seconds(), 1, 300},
	} {
		if !(b.value >= b.low && b.value <= b.high) {
			return fmt.Errorf("%s is %g: it must be in %g..%g", b.name, b.value, b.low, b.high)
		}
	}
	if n := o.Rate * o.Measure.Seconds(); n < leastRequests {
		return fmt.Errorf("%g requests per second for %s are some %.0f requests: a measurement takes %d", o.Rate, o.Measure, n, leastRequests)
	}
	return nil
}

// leastRequests is what a percentile can be read from at all.
const leastRequests = 100

func oneOf(what, name string, known ...string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("unknown %s %q: it is one of %s", what, name, strings.Join(known, ", "))
}

// controlled tells whether an arm has a control loop.
func controlled(arm string) bool { return arm == EqualLoad || arm == LeastLatency }

// warmUp is how long an arm runs before it is measured: a control loop needs its
// intervals to settle, longer the first time; queues settle within seconds.
func (o Options) warmUp(arm string, round int) time.Duration {
	switch {
	case !controlled(arm):
		return 3 * time.Second
	case round == 0:
		return 4*o.Interval + o.Interval/2
	}
	return o.Interval + o.Interval/2
}

// disturbed is the number of intervals for which the weights are watched after a
// disturbance.
const disturbed = 8

// Duration is about how long the whole takes, apart from starting servers.
func (o Options) Duration() time.Duration {
	var d time.Duration
	for _, arm := range o.Arms {
		for round := range o.Rounds {
			d += o.warmUp(arm, round) + o.Measure
		}
		if o.Disturb && controlled(arm) {
			d += o.warmUp(arm, 1) + disturbed*o.Interval
		}
	}
	return d
}
