package report

import (
	"fmt"
	"slices"
	"strings"
)

// Simulation says what an [Experiment] of a simulation is about.
type Simulation struct {
	// Source is what "taper sim" was given: a shipped scenario's name, or a file.
	Source string `json:"source,omitempty"`
	// Chosen tells that its arms were named: not all that it has, or in another order.
	Chosen bool   `json:"arms_chosen,omitempty"`
	About  string `json:"about,omitempty"`
	// Endpoints is how many there are over the whole time.
	Endpoints int `json:"endpoints"`
	// WarmUp is how long each run goes before it is measured.
	WarmUp float64 `json:"warm_up_s"`
	// Notes are sentences on what is odd about the scenario, such as a load that asks for
	// more cores than there are.
	Notes []string `json:"notes,omitempty"`
}

// Simulated is what only a simulation knows of a round, or of an arm: medians over its
// rounds, and sums of counts.
type Simulated struct {
	Mean float64 `json:"mean_ms,omitempty"`
	// Unfinished is how many requests had no end long after the measurement. They count in
	// latencies with the time that they had waited.
	Unfinished uint64 `json:"unfinished,omitempty"`
	// Saturated is how many endpoints were never without requests, in the round with the
	// most. Grows tells that there are such: their queues may grow without bound, and latencies
	// then depend on how long was measured.
	Grows     bool `json:"grows,omitempty"`
	Saturated int  `json:"saturated_endpoints,omitempty"`
}

// Step is a stretch of an arm's run: medians over the rounds, and the sum of errors.
type Step struct {
	// At is its beginning, in seconds since the run's.
	At       float64 `json:"at_s"`
	Requests float64 `json:"requests_per_s"`
	Errors   uint64  `json:"errors"`
	// P50 and P99 are of the requests that were answered in it; 0 where there were none.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	CPU float64 `json:"cpu_cores"`
	// InFlight is how many requests were under way at its end.
	InFlight float64 `json:"in_flight"`
}

// Kind is what endpoints that are alike did in one arm, each of them in the mean.
type Kind struct {
	Kind string `json:"kind"`
	// Endpoints is how many there are.
	Endpoints int     `json:"endpoints"`
	Requests  float64 `json:"requests_per_s"`
	CPU       float64 `json:"cpu_cores"`
	// P50 and P99 are of all their requests together.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Weight is the mean of the last ones; 0 if none is a member at the end.
	Weight float64 `json:"weight"`
}

// A simulation may have more endpoints than anybody reads about. Up to MaxEndpoints each has
// its row in [Arm.Endpoints], up to MaxExplained with the reason for its weight, and up to
// MaxShares numbers say how shares went over time; [Arm.Kinds] has all of them.
const (
	MaxEndpoints = 10_000
	MaxExplained = 1_000
	MaxShares    = 100_000
)

// ByKind is the arm with its kinds in the place of its endpoints, for pictures and tables
// that have no room for so many. An arm without kinds stays as it is.
func (a *Arm) ByKind() *Arm {
	if len(a.Kinds) == 0 {
		return a
	}
	kinds := *a
	kinds.Endpoints = make([]Endpoint, len(a.Kinds))
	for i, k := range a.Kinds {
		kinds.Endpoints[i] = Endpoint{
			Address: fmt.Sprintf("%s × %s", Count(uint64(k.Endpoints)), k.Kind), Demand: k.Kind,
			Requests: k.Requests, CPU: k.CPU, P50: k.P50, P99: k.P99, Weight: uint32(k.Weight + 0.5),
		}
	}
	kinds.Weights = make([]WeightsAt, len(a.Weights))
	for i, w := range a.Weights {
		w.Shares = make([]float64, len(a.Kinds))
		for n, share := range w.KindShares[:min(len(w.KindShares), len(a.Kinds))] {
			w.Shares[n] = share / float64(max(1, a.Kinds[n].Endpoints))
		}
		kinds.Weights[i] = w
	}
	return &kinds
}

// best is the arm with the lowest p99 among all but the first and those that are bounds; of
// arms that fail requests the one that fails fewest. One with a control loop is preferred to
// fixed weights that are no more than 2 % better: runs differ by as much. Nil if there is none.
func (e *Experiment) best() *Arm {
	var best *Arm
	consider := func(prefer func(*Arm) bool) {
		for i := range e.Arms[1:] {
			if arm := &e.Arms[i+1]; !arm.Bound && arm.lacks() == "" && prefer(arm) {
				best = arm
			}
		}
	}
	consider(func(a *Arm) bool { return best == nil || a.beats(best, 1) })
	if best != nil && !best.Controlled() {
		lowest := best
		consider(func(a *Arm) bool {
			return a.Controlled() && a.beats(lowest, 1.02) && (best == lowest || a.beats(best, 1))
		})
	}
	return best
}

// choices is how many arms there are to choose from.
func (e *Experiment) choices() int {
	n := 0
	for i := range e.Arms {
		if !e.Arms[i].Bound {
			n++
		}
	}
	return n
}

// beats tells whether an arm fails fewer requests than another, or as many and has a p99
// below so many times the other's.
func (a *Arm) beats(other *Arm, times float64) bool {
	return a.failed() < other.failed() || a.failed() == other.failed() && a.P99 < times*other.P99
}

func (a *Arm) failed() uint64 { return failedPart(a.Errors, a.Requests) }

// failedPart is the part of requests that failed, in steps of 0.1 %: less is no reason to
// prefer another arm.
func failedPart(errors, requests uint64) uint64 { return 1000 * errors / max(1, requests) }

// Caveats are sentences that a reader of a simulation's figures needs to know: what its
// notes say, what the bounds reach, and which queues grew.
func (e *Experiment) Caveats() []string {
	if e.Simulation == nil {
		return nil
	}
	sentences := slices.Clone(e.Simulation.Notes)
	var growing, bounds []string
	for i := range e.Arms {
		arm := &e.Arms[i]
		if arm.Grows {
			growing = append(growing, fmt.Sprintf("%s (%s of %s)", arm.Name, Count(uint64(arm.Saturated)), Count(uint64(e.Simulation.Endpoints))))
		}
		if arm.Bound && arm.lacks() == "" {
			bounds = append(bounds, fmt.Sprintf("%s (p99 %s ms)", arm.Name, Number(arm.P99)))
		}
	}
	if bounds != nil {
		sentences = append(sentences, fmt.Sprintf("What no proxy can know shows what is left to gain: %s.", strings.Join(bounds, ", ")))
	}
	if growing != nil {
		sentences = append(sentences, fmt.Sprintf("Endpoints are saturated, that is never without requests, under %s. Where their queues grow without bound, figures depend on how long was measured.", strings.Join(growing, ", ")))
	}
	return sentences
}
