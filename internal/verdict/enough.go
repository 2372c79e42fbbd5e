package verdict

import (
	"math"
	"time"
)

// Progress is how far measuring has come.
type Progress struct {
	Rounds int
	// Spent is the time that the rounds took, Budget what all may take.
	Spent, Budget time.Duration
}

// fewestRounds come before widths are believed: those of a few rounds may be narrow by luck.
const fewestRounds = 10

// Enough tells whether measuring ends after this round: what was measured is precise, or
// the next round, as long as those before, would not end within the budget.
//
// It never asks for outcomes. Who stops as soon as a difference shows finds one where none
// is, in nearly every run that lasts long enough; who stops by the width keeps the promise
// of the interval (Chow and Robbins 1965).
func Enough(p Progress, precise bool) bool {
	if p.Rounds <= 0 {
		return p.Spent >= p.Budget
	}
	round := p.Spent / time.Duration(p.Rounds)
	return precise && p.Rounds >= fewestRounds || p.Spent+round > p.Budget
}

// Precise tells whether half the interval is at most half the goal: a difference as large
// as the goal would show.
func (l Location) Precise(goal Goal) bool {
	if l.Interval == nil {
		return false
	}
	if goal.Absolute > 0 {
		return l.Interval.half() <= goal.Absolute/2
	}
	return l.Interval.half() <= l.Median*goal.Share/2
}

// Precise tells whether half the interval and the noise floor are both at most half the
// goal: a difference as large as the goal would be told.
func (c Comparison) Precise(goal Goal) bool {
	half, floor, size := 0.0, 0.0, 0.0
	if goal.Absolute > 0 {
		half, floor, size = c.Difference.half(), c.Difference.Floor, goal.Absolute
	} else {
		half, floor, size = c.Ratio.half(), c.Ratio.Floor-1, goal.Share
	}
	return floor > 0 && max(half, floor) <= size/2
}

// half is half the interval's width; infinite without one.
func (e Effect) half() float64 {
	if e.Interval == nil {
		return math.Inf(1)
	}
	return e.Interval.half()
}
