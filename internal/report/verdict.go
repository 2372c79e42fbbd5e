package report

import (
	"fmt"
	"math"
)

// Compared returns the arm that everything is measured against, which is the
// first, and the arm that the experiment is about: the last one whose control
// loop decided weights, or the last one where none has a loop; of a simulation
// the best one. Either is nil when there is no such arm.
func (e *Experiment) Compared() (before, after *Arm) {
	if len(e.Arms) == 0 {
		return nil, nil
	}
	if e.Simulation != nil {
		if best := e.best(); best != nil {
			return &e.Arms[0], best
		}
	}
	for i := range e.Arms[1:] {
		arm := &e.Arms[i+1]
		if arm.Controlled() || after == nil || !after.Controlled() {
			after = arm
		}
	}
	return &e.Arms[0], after
}

// Verdict answers in one sentence whether the last arm was better than the
// first, or for a simulation which one is the best. Each percentage follows from
// the two medians beside it, so that a reader can check it. Where an answer would
// be a guess it says what is missing.
func (e *Experiment) Verdict() string {
	if e.Simulation != nil {
		return fmt.Sprintf("Simulation of %s: %s", e.Scenario, e.outcome())
	}
	return e.outcome()
}

func (e *Experiment) outcome() string {
	before, after := e.Compared()
	switch {
	case before == nil:
		return "No verdict: the experiment has no arms."
	case before.lacks() != "":
		return fmt.Sprintf("No verdict: %s, the arm to compare with, %s.", before.Name, before.lacks())
	case after == nil:
		return fmt.Sprintf("%s alone: p99 is %s ms, %s; there is no other arm to compare it with.",
			before.Name, Number(before.P99), before.failures())
	case after.lacks() != "":
		return fmt.Sprintf("No verdict: %s %s; %s has a p99 of %s ms.",
			after.Name, after.lacks(), before.Name, Number(before.P99))
	}
	sentence := fmt.Sprintf("%s %s against %s, %s", e.called(before, after), changes(before, after), before.Name, failures(before, after))
	if !measured(before.CPU) || !measured(after.CPU) {
		sentence += "; CPU was not measured"
	}
	if before.Grows || after.Grows {
		sentence += "; but endpoints are saturated, and queues may grow without bound"
	}
	return sentence + "."
}

// called is how the verdict speaks of the arm that it is about.
func (e *Experiment) called(before, after *Arm) string {
	name := after.Name
	if after.Controlled() {
		name += " weights"
	}
	switch {
	case e.Simulation == nil || e.choices() < 3 || e.best() == nil:
		return name
	case after.beats(before, 1):
		return fmt.Sprintf("%s, the best of %d arms,", name, e.choices())
	}
	return fmt.Sprintf("no arm beats %s; %s, the best of the others,", before.Name, name)
}

// lacks says why the arm has nothing to compare, or "" if it has.
func (a *Arm) lacks() string {
	switch {
	case a.Requests == 0:
		return "has no data"
	case a.Errors >= a.Requests:
		return fmt.Sprintf("answered none of its %s requests", Count(a.Requests))
	case !measured(a.P99):
		return "has no latency measured"
	}
	return ""
}

// changes tells what became of p99, and of CPU usage where both arms have it.
func changes(before, after *Arm) string {
	latency := compare("p99", "ms", tail, before, after)
	if !measured(before.CPU) || !measured(after.CPU) {
		return latency.verb + " " + latency.phrase
	}
	cpu := compare("CPU", "cores", cores, before, after)
	switch {
	case latency.verb == cpu.verb:
		return latency.verb + " " + latency.phrase + " and " + cpu.phrase
	case latency.verb == left || cpu.verb == left:
		return latency.verb + " " + latency.phrase + " and " + cpu.verb + " " + cpu.phrase
	}
	return latency.verb + " " + latency.phrase + " but " + cpu.verb + " " + cpu.phrase
}

// A change is what became of one quantity.
type change struct{ verb, phrase string }

const (
	cut    = "cut"
	raised = "raised"
	left   = "left"
)

func compare(name, unit string, q quantity, before, after *Arm) change {
	from, to := q.of(before.whole()), q.of(after.whole())
	figures := fmt.Sprintf("%s → %s %s", Number(from), Number(to), unit)
	if overlap(q, before, after) {
		figures += ", rounds overlap"
	}
	percent := math.Round(math.Abs(to/from-1) * 100)
	switch {
	case percent == 0:
		return change{left, fmt.Sprintf("%s as it was (%s)", name, figures)}
	case to < from:
		// What is left is above 0, so the cut is never the whole.
		return change{cut, fmt.Sprintf("%s by %.0f %% (%s)", name, min(percent, 99), figures)}
	}
	return change{raised, fmt.Sprintf("%s by %.0f %% (%s)", name, percent, figures)}
}

// overlap tells whether the rounds of two arms reach into each other, in which
// case another run might order the arms differently. One round says nothing.
func overlap(q quantity, a, b *Arm) bool {
	aLow, aHigh, aRounds := a.spread(q)
	bLow, bHigh, bRounds := b.spread(q)
	return aRounds > 1 && bRounds > 1 && aLow <= bHigh && bLow <= aHigh
}

func failures(before, after *Arm) string {
	if before.Errors == 0 {
		return after.failures()
	}
	return fmt.Sprintf("%s (%s: %s of %s)", after.failures(), before.Name, Count(before.Errors), Count(before.Requests))
}

func (a *Arm) failures() string {
	if a.Errors == 0 {
		return "without a failed request"
	}
	return fmt.Sprintf("but %s of %s requests failed", Count(a.Errors), Count(a.Requests))
}
