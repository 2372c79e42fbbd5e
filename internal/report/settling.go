package report

import (
	"fmt"
	"math"
	"strings"
)

// settledWithin is the fraction of requests that may still be placed differently from the
// end when weights count as settled.
const settledWithin = 0.05

// SettledAfter is the number of the first decision, counted from 1, after which no more than
// [settledWithin] of the requests went elsewhere than at the end. The end is the mean over
// the last third. False when they kept moving. A decision is a list of shares, best one for
// each kind: which of those that are alike a request goes to makes no difference.
func SettledAfter(decisions [][]float64) (int, bool) {
	n := len(decisions)
	if n < 3 {
		return 0, false
	}
	tail := decisions[n-max(1, n/3):]
	end := make([]float64, len(tail[0]))
	for _, shares := range tail {
		for i, share := range shares {
			end[i] += share / float64(len(tail))
		}
	}
	settled := n
	for settled > 0 && elsewhere(decisions[settled-1], end) <= settledWithin {
		settled--
	}
	return settled + 1, settled < n
}

// elsewhere is the fraction of requests that two lists of shares place differently.
func elsewhere(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / 2
}

// Controlled tells whether a control loop decided the arm's weights.
func (a *Arm) Controlled() bool { return len(a.Weights) > 0 }

// Settling says in sentences how soon each control loop came to rest: one per
// loop for the start, and one for the disturbance if there was one.
func (e *Experiment) Settling() []string {
	var sentences []string
	for i := range e.Arms {
		arm := &e.Arms[i]
		switch {
		case arm.SettledAfter != nil && *arm.SettledAfter >= 0:
			sentences = append(sentences, fmt.Sprintf("%s settled %s.", arm.Name, e.intervals(*arm.SettledAfter)))
		case arm.Controlled():
			sentences = append(sentences, fmt.Sprintf("%s did not settle within its %d decisions.", arm.Name, len(arm.Weights)))
		}
	}
	if e.Disturbance != nil {
		sentences = append(sentences, e.disturbed(e.Disturbance))
	}
	return sentences
}

func (e *Experiment) disturbed(d *Disturbance) string {
	var outcomes []string
	for _, arm := range e.Arms {
		intervals, ok := d.SettledAfter[arm.Name]
		switch {
		case ok && intervals >= 0:
			outcomes = append(outcomes, arm.Name+" settled again "+e.intervals(intervals))
		case ok:
			outcomes = append(outcomes, arm.Name+" did not settle again")
		}
	}
	if outcomes == nil {
		outcomes = []string{"no arm has a result"}
	}
	change := "was disturbed"
	if measured(d.Factor) {
		change = fmt.Sprintf("came to cost %s times as much", shortest(d.Factor))
	}
	return fmt.Sprintf("After a request on %s %s: %s.", d.Address, change, strings.Join(outcomes, "; "))
}

func (e *Experiment) intervals(n int) string {
	text := fmt.Sprintf("after %d control intervals", n)
	if n == 1 {
		text = "after 1 control interval"
	}
	if measured(e.Settings.IntervalS) {
		text += fmt.Sprintf(" (%s s)", shortest(float64(n)*e.Settings.IntervalS))
	}
	return text
}
