package verdict

import "slices"

// confidence is of the intervals that are told: 95 %.
const confidence = 0.95

// Interval is where a figure lies, 95 times of 100.
type Interval struct{ Low, High float64 }

// half is half the width.
func (i Interval) half() float64 { return (i.High - i.Low) / 2 }

// Location is where the figures of trials lie, in their unit.
type Location struct {
	Median float64
	// Interval holds the median of all trials that there might have been. It is nil below
	// [FewestTrials]: not even the smallest and the largest hold it surely enough.
	Interval *Interval
	// Trials is how many had a figure.
	Trials int
}

// FewestTrials is how many an interval takes: of five, the smallest and the largest still
// miss the median 1 time in 16.
const FewestTrials = 6

// Estimate is the median of trials, given in the order in which they were made; false if
// none has a figure. NaN marks a trial without one.
//
// The interval lies between two order statistics (signs; exact for any distribution), and
// is wider where neighbours are alike (see [dependence]).
func Estimate(trials []float64) (Location, bool) {
	series := kept(trials)
	n := len(series)
	if n == 0 {
		return Location{}, false
	}
	sorted := slices.Sorted(slices.Values(series))
	l := Location{Median: sortedMedian(sorted), Trials: n}
	if n >= FewestTrials {
		k := widen(signRank(n, 1-confidence), n, dependence(series))
		l.Interval = &Interval{Low: sorted[k-1], High: sorted[n-k]}
	}
	return l, true
}
