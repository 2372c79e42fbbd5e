package verdict

import "math"

// Goal says what difference is worth telling.
type Goal struct {
	// Share is it as a share of the first path's figure (0.05: 5 %). Absolute, unless it
	// is 0, is it in the figure's unit (5: 5 µs), and counts instead.
	Share, Absolute float64
	// LowerIsBetter is set for latency.
	LowerIsBetter bool
	// Comparisons is how many are told together; 0 is one. Each is one more occasion for
	// chance, so each has to be surer: by chance, 1 time in 40 one of them is better or worse
	// (Bonferroni).
	Comparisons int
}

// missed is how often at most chance may make a verdict, in all comparisons that are told
// together. 2.5 % where 5 % is promised: the rest is for noise that is not as independent as
// it seems, and for looking again after each round.
const missed = 0.025

// surer is by what factor half a told interval must be wider to be as sure as a verdict.
func (g Goal) surer() float64 {
	alpha := missed / float64(max(1, g.Comparisons))
	return normalQuantile(alpha/2) / normalQuantile((1-confidence)/2)
}

// Outcome is what a comparison says.
type Outcome string

// The outcomes: better or worse than the first path, or no telling.
const (
	Better     Outcome = "better"
	Worse      Outcome = "worse"
	CannotTell Outcome = "cannot tell"
)

// Effect is a difference on one scale.
type Effect struct {
	// Value is the difference, Interval where it lies, 95 times of 100; nil with too few
	// rounds.
	Value    float64
	Interval *Interval
	// Floor is the noise floor: by how much the first path seems to differ from itself,
	// measured as often and as closely. What is less cannot be told from chance. 0 if it
	// is not known.
	Floor float64
	// stays is set if more rounds would not lower the floor.
	stays bool
}

// Comparison says how a path differs from the first one.
type Comparison struct {
	Outcome Outcome
	// Ratio is the path's figure over the first's; its floor is a ratio above 1.
	Ratio Effect
	// Difference is the path's figure less the first's, in their unit.
	Difference Effect
	// Within is set if the interval leaves no room for a difference as large as the goal.
	Within bool
	// Rounds is how many pairs there are, Needed how many it takes to tell a difference as
	// large as this one or the goal, whichever is larger, 9 times of 10; 0 if more rounds
	// would not help, or nobody can say.
	Rounds int
	Needed int
}

// Compare compares a path with the first by their figures within rounds. Element i of each
// list is of round i (NaN: no figure), and again is the first path measured a second time
// in the same round. Trials of a round must have been in random order: see [Order].
//
// The path is better or worse if the difference, on the scale of the goal, is beyond two
// things: its own interval, made as sure as [Goal] asks for, leaves no room for none at all;
// and it is beyond the noise floor, which is what the first path against itself stays
// within just as surely, or by how much it did differ from itself if that is more.
func Compare(first, again, other []float64, goal Goal) Comparison {
	one, two := paired(first, other)
	same, repeat := paired(first, again)
	return judge(sample{
		ratio:      pairedEffect(logarithms(one), logarithms(two), logarithms(same), logarithms(repeat), goal),
		difference: pairedEffect(one, two, same, repeat, goal),
		rounds:     len(one),
	}, goal)
}

// paired are the rounds in which both have a figure.
func paired(a, b []float64) (x, y []float64) {
	for i := range min(len(a), len(b)) {
		if usable(a[i]) && usable(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	return x, y
}

func pairedEffect(first, other, same, repeat []float64, goal Goal) Effect {
	if len(first) == 0 {
		return Effect{Value: math.NaN()}
	}
	e := pairedShift(less(other, first))
	if len(same) > 0 {
		e.Floor, e.stays = pairedShift(less(repeat, same)).floor(goal)
	}
	return e
}

// less is a - b, element by element.
func less(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}

// floor is how far from 0 an effect may lie that should be 0: half the interval, made as
// sure as a verdict, or where it lies in this run if that is more, which then stays with
// more rounds. The floor is 0 if there are too few rounds to say.
func (e Effect) floor(goal Goal) (floor float64, stays bool) {
	if e.Interval == nil {
		return 0, false
	}
	floor, seen := e.half()*goal.surer(), math.Abs(e.Value)
	return max(floor, seen), seen > floor
}

// sample is a comparison on both scales before it is judged: ratio still holds logarithms.
type sample struct {
	ratio, difference Effect
	rounds            int
}

func judge(s sample, goal Goal) Comparison {
	effect, size := s.ratio, math.Log1p(goal.Share)
	if goal.Absolute > 0 {
		effect, size = s.difference, goal.Absolute
	}
	c := Comparison{
		Outcome: effect.outcome(goal), Rounds: s.rounds,
		Ratio: s.ratio.ratio(), Difference: s.difference,
		Needed: effect.needed(size, s.rounds),
	}
	if i := effect.Interval; i != nil {
		c.Within = max(math.Abs(i.Low), math.Abs(i.High)) < size
	}
	return c
}

// ratio turns an effect on logarithms into one of ratios.
func (e Effect) ratio() Effect {
	r := Effect{Value: math.Exp(e.Value)}
	if e.Interval != nil {
		r.Interval = &Interval{math.Exp(e.Interval.Low), math.Exp(e.Interval.High)}
	}
	if e.Floor > 0 {
		r.Floor = math.Exp(e.Floor)
	}
	return r
}

func (e Effect) outcome(goal Goal) Outcome {
	switch {
	case e.Interval == nil, e.Floor <= 0, math.Abs(e.Value) <= e.Floor, e.nearest() <= e.half()*(goal.surer()-1):
		return CannotTell
	case e.Value < 0 == goal.LowerIsBetter:
		return Better
	}
	return Worse
}

// nearest is how far the interval stays away from 0; negative if it does not.
func (e Effect) nearest() float64 { return max(e.Interval.Low, -e.Interval.High) }

// needed is how many rounds tell a difference of at least this size: widths shrink with
// the root of the number of rounds, and the difference must be beyond the floor by as much
// as it seems smaller than it is 1 time in 10.
func (e Effect) needed(size float64, rounds int) int {
	if e.Interval == nil || e.Floor <= 0 {
		return 0
	}
	size = max(size, math.Abs(e.Value))
	width := e.half() * normalQuantile(0.9) / normalQuantile((1+confidence)/2)
	if e.stays {
		size -= e.Floor
	} else {
		width += e.Floor
	}
	if size <= 0 {
		return 0
	}
	n := math.Ceil(float64(rounds) * (width / size) * (width / size))
	if n > mostRounds {
		return 0
	}
	return max(int(n), FewestTrials)
}

// mostRounds is how many rounds are worth proposing: with trials of half a second, a week.
const mostRounds = 400_000
