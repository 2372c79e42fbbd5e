package scenario

import (
	"strings"
	"unicode"
)

// Limits on what is simulated. They are there against slips, such as a unit forgotten, and
// keep sums finite; what is below them may still take too long or too much memory.
const (
	maxRounds    = 1000
	maxProxies   = 100_000
	maxEndpoints = 100_000
	maxChanges   = 10_000
	maxSteps     = 10_000
	maxOutages   = 1000
	maxArms      = 32
	maxStatic    = 50_000 // endpoints in all arms whose weights are worked out beforehand
	maxRetries   = 100
	maxName      = 64
	maxAbout     = 2000
	maxRate      = 1e7
	maxRequests  = 1e9
	leastCores   = 0.001
	maxCores     = 4096
	leastDemand  = 1e-6
	maxDemand    = 1000
	maxSigma     = 3
	maxFactor    = 1000
	maxSeconds   = 7 * 24 * 3600
	leastMeasure = 0.001
	// Those of balance.Policy.
	leastInterval = 0.1
	maxInterval   = 3600
)

// limit is what a number must keep to.
type limit struct {
	path            string
	value           float64
	least, greatest float64
}

// within reports the first number that does not keep to its limit.
func (r *reader) within(limits []limit) error {
	for _, l := range limits {
		if !(l.value >= l.least && l.value <= l.greatest) { // NaN fails too
			return r.Errorf(l.path, "is %g: it must be in %g..%g", l.value, l.least, l.greatest)
		}
	}
	return nil
}

// span is a duration that must keep to its limit.
type span struct {
	path            string
	value           seconds
	least, greatest float64
}

// spans reports the first duration that does not keep to its limit.
func (r *reader) spans(limits []span) error {
	for _, l := range limits {
		if v := float64(l.value); !(v >= l.least && v <= l.greatest) {
			return r.Errorf(l.path, "is %s: it must be in %s..%s", l.value, seconds(l.least), seconds(l.greatest))
		}
	}
	return nil
}

// lasts checks a stretch of time, whose end 0 is that of the run.
func (r *reader) lasts(path, begin string, from, until seconds) error {
	if until != 0 && until <= from {
		return r.Errorf(path+".until", "is %s: it must be after %s, which is %s", until, begin, from)
	}
	return r.spans([]span{{path + "." + begin, from, 0, maxSeconds}, {path + ".until", until, 0, maxSeconds}})
}

// named checks a name, which is shown in tables.
func (r *reader) named(path, name string) error {
	if name == "" || len(name) > maxName || name != strings.TrimSpace(name) ||
		strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return r.Errorf(path, "is %q: it takes a name of 1 to %d printable characters", name, maxName)
	}
	return nil
}

// choice checks one of a few words; the first is also that of a word left out.
func (r *reader) choice(path, word string, known ...string) (int, error) {
	for i, k := range known {
		if word == k || word == "" && i == 0 {
			return i, nil
		}
	}
	return 0, r.Errorf(path, "is %q: it is one of %s", word, strings.Join(known, ", "))
}

// value is what a pointer points to, or what is meant without one.
func value[T any](p *T, without T) T {
	if p == nil {
		return without
	}
	return *p
}
