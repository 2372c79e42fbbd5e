package report

import (
	"fmt"
	"strings"
)

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
