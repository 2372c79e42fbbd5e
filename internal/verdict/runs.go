package verdict

import "math"

// CompareRuns compares two runs of their own, such as yesterday's and today's: trials are
// not paired, and what drifts is in the difference. Each list is in the order of its run.
//
// The noise floor is what two runs of such trials stay within as surely as [Goal] asks for,
// or by how much the halves of a run differ from each other, if that is more. It knows
// nothing of noise that is slower than a run: a difference between runs is no proof that
// what was changed in between is its cause.
func CompareRuns(first, other []float64, goal Goal) Comparison {
	one, two := kept(first), kept(other)
	return judge(sample{
		ratio:      unpairedEffect(logarithms(one), logarithms(two), goal),
		difference: unpairedEffect(one, two, goal),
		rounds:     min(len(one), len(two)),
	}, goal)
}

func unpairedEffect(first, other []float64, goal Goal) Effect {
	if len(first) == 0 || len(other) == 0 {
		return Effect{Value: math.NaN()}
	}
	e := unpairedShift(first, other)
	if e.Interval == nil || min(len(first), len(other)) < FewestTrials {
		e.Interval = nil
		return e
	}
	floor := e.half() * goal.surer()
	drift := max(betweenHalves(first), betweenHalves(other))
	e.Floor, e.stays = max(floor, drift), drift > floor
	return e
}

// betweenHalves is by how much the second half of a run differs from its first.
func betweenHalves(run []float64) float64 {
	return math.Abs(unpairedShift(run[:len(run)/2], run[len(run)/2:]).Value)
}
