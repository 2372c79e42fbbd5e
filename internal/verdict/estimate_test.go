package verdict

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// coverage is how often the interval holds the true median.
func coverage(n noise, count, runs int, centre float64) float64 {
	r := rand.New(rand.NewPCG(3, uint64(count)))
	held := 0
	for range runs {
		l, _ := Estimate(trials(count, n.begin(r)))
		if l.Interval.Low <= centre && centre <= l.Interval.High {
			held++
		}
	}
	return float64(held) / float64(runs)
}

// by is how far below a share a simulation of so many runs may fall by chance (3 σ).
func by(share float64, runs int) float64 {
	return 3 * math.Sqrt(share*(1-share)/float64(runs))
}

func TestIntervalHoldsTheMedian(t *testing.T) {
	t.Parallel()
	for _, n := range slices.Concat(noises, slow) {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			centre := n.trueMedian()
			for _, count := range []int{6, 10, 20, 40, 100} {
				want := 0.93
				if n.short > 0 && count < 40 {
					want = n.short
				}
				got := coverage(n, count, *simulated, centre)
				t.Logf("%d trials: %.1f %%", count, 100*got)
				if got < want-by(want, *simulated) {
					t.Errorf("of %d trials the interval held the median in %.1f %% of runs, want %.0f %%", count, 100*got, 100*want)
				}
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name     string
		trials   []float64
		median   float64
		interval *Interval
		count    int
	}{
		{"none", nil, 0, nil, 0},
		{"none with a figure", []float64{nan, 0, -1, inf}, 0, nil, 0},
		{"one", []float64{7}, 7, nil, 1},
		{"too few for an interval", []float64{1, 2, 3, 4, 5}, 3, nil, 5},
		{"the smallest and the largest of six", []float64{3, 6, 1, 4, 2, 5}, 3.5, &Interval{1, 6}, 6},
		{"ended early", []float64{3, nan, 6, 1, 4, 2, nan, 5}, 3.5, &Interval{1, 6}, 6},
		{"the second of nine", []float64{5, 1, 9, 2, 8, 3, 7, 4, 6}, 5, &Interval{2, 8}, 9},
		{"a slow wave is wider", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, &Interval{1, 9}, 9},
		{"all alike", []float64{2, 2, 2, 2, 2, 2}, 2, &Interval{2, 2}, 6},
		{"huge", []float64{1e308, 1.7e308}, 1.35e308, nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Estimate(c.trials)
			if ok != (c.count > 0) || got.Median != c.median || got.Trials != c.count {
				t.Fatalf("got %+v, %v", got, ok)
			}
			switch {
			case (got.Interval == nil) != (c.interval == nil):
				t.Errorf("interval %v, want %v", got.Interval, c.interval)
			case c.interval != nil && *got.Interval != *c.interval:
				t.Errorf("interval %v, want %v", *got.Interval, *c.interval)
			}
		})
	}
}
