package balance

import (
	"fmt"
	"strings"
	"time"
)

// Strategy names a way to choose shares.
type Strategy string

const (
	// EqualLoad gives every endpoint the same utilization: share ∝ capacity/demand.
	EqualLoad Strategy = "equal-load"
	// LeastLatency minimises the mean response time; slow endpoints get less than
	// their proportional share.
	LeastLatency Strategy = "least-latency"
)

// Strategies lists the known ones.
var Strategies = []Strategy{EqualLoad, LeastLatency}

// ParseStrategy returns the strategy of that name; the error lists the known ones.
func ParseStrategy(name string) (Strategy, error) {
	known := make([]string, len(Strategies))
	for i, s := range Strategies {
		if string(s) == name {
			return s, nil
		}
		known[i] = string(s)
	}
	return "", fmt.Errorf("unknown strategy %q: it is one of %s", name, strings.Join(known, ", "))
}

// Policy is what the owner of a service may choose. The zero Policy is not
// valid: start from [DefaultPolicy].
type Policy struct {
	Strategy Strategy
	// Interval is the time between decisions. Memory spans are multiples of it.
	Interval time.Duration
	// Capacity is the CPU of an endpoint that does not state its own, in cores.
	Capacity float64
	// UtilizationLimit is the highest utilization that a decision aims for, 0..1.
	UtilizationLimit float64
	// MinShare and MaxShare bound each share, in multiples of the equal share 1/n.
	// The minimum keeps a slow endpoint warm and measured.
	MinShare, MaxShare float64
	// MaxStep is the factor by which a share may grow in one decision, > 1.
	MaxStep float64
	// DeadBand is the relative change of a share below which weights are left alone.
	DeadBand float64
	// Ramp is how long a new endpoint takes to get all that it could take; it does so
	// with the first decision after that.
	Ramp time.Duration
	// EqualWeight is the weight of an equal share. 0 is for weights so fine that
	// rounding does not matter; a small one is for a mesh that gives weight 1 to an
	// endpoint which it knows and the weights do not name.
	EqualWeight uint32
	// MaxAge is the age beyond which a sample is stale.
	MaxAge time.Duration
	// ReleaseAfter is how long weights are held without fresh samples before they
	// step back to equal.
	ReleaseAfter time.Duration
	// Coverage is the fraction of endpoints, 0..1, that must have a fresh sample.
	Coverage float64
}

// DefaultPolicy is good for a service of which nothing is known.
func DefaultPolicy(interval time.Duration) Policy {
	return Policy{
		Strategy:         LeastLatency,
		Interval:         interval,
		Capacity:         1,
		UtilizationLimit: 0.7,
		MinShare:         0.05,
		MaxShare:         10,
		MaxStep:          2,
		DeadBand:         0.05,
		Ramp:             2 * interval,
		MaxAge:           3 * interval,
		ReleaseAfter:     10 * interval,
		Coverage:         0.6,
	}
}

// Validate reports the first bound that the policy breaks.
func (p Policy) Validate() error {
	if _, err := ParseStrategy(string(p.Strategy)); err != nil {
		return err
	}
	for _, b := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"interval in seconds", p.Interval.Seconds(), 0.1, 3600},
		{"capacity in cores", p.Capacity, 0.001, 4096},
		{"utilization limit", p.UtilizationLimit, 0.05, 1},
		{"minimum share", p.MinShare, 0.001, 1},
		{"maximum share", p.MaxShare, 1, 1e6},
		{"maximum step", p.MaxStep, 1.01, 100},
		{"dead band", p.DeadBand, 0, 0.5},
		{"ramp in seconds", p.Ramp.Seconds(), 0, 86400},
		{"maximum age in seconds", p.MaxAge.Seconds(), p.Interval.Seconds(), 86400},
		{"release after in seconds", p.ReleaseAfter.Seconds(), p.MaxAge.Seconds(), 7 * 86400},
		{"coverage", p.Coverage, 0, 1},
		{"equal weight", float64(p.EqualWeight), 0, 10000},
	} {
		if !(b.value >= b.low && b.value <= b.high) { // NaN fails too
			return fmt.Errorf("%s is %g: it must be in %g..%g", b.name, b.value, b.low, b.high)
		}
	}
	return nil
}
