package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// As in the tables of Hollander, Wolfe and Chicken, and of Conover.
func TestRanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"signs of 5", signRank(5, 0.05), 0}, {"signs of 6", signRank(6, 0.05), 1},
		{"signs of 10", signRank(10, 0.05), 2}, {"signs of 20", signRank(20, 0.05), 6},
		{"signs of 100", signRank(100, 0.05), 40},
		{"signed ranks of 5", walshRank(5, 0.05), 0}, {"signed ranks of 6", walshRank(6, 0.05), 1},
		{"signed ranks of 10", walshRank(10, 0.05), 9}, {"signed ranks of 20", walshRank(20, 0.05), 53},
		{"signed ranks of 10, 1 %", walshRank(10, 0.01), 4},
		{"two samples of 10", shiftRank(10, 10, 0.05), 24},
		{"two samples of 3", shiftRank(3, 3, 0.05), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	// Where the exact distribution ends, the normal one goes on.
	exact, normal := walshRank(exactRanks, 0.05), walshRank(exactRanks+1, 0.05)
	if step := normal - exact; step < 5 || step > 30 {
		t.Errorf("from %d to %d figures the rank goes from %d to %d", exactRanks, exactRanks+1, exact, normal)
	}
	for _, p := range [][]float64{binomial(1000), signedRanks(exactRanks)} {
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%d probabilities sum up to %v", len(p), sum)
		}
	}
}

// Shifts found by halving are those of all pairs laid out.
func TestShifts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 40; n++ {
		one, two := make([]float64, n), make([]float64, n+3)
		for i := range two {
			two[i] = math.Round(10 * r.NormFloat64()) // with ties
			if i < n {
				one[i] = math.Round(10 * r.NormFloat64())
			}
		}
		var means, differences []float64
		for i, a := range one {
			for _, b := range one[:i+1] {
				means = append(means, (a+b)/2)
			}
			for _, b := range two {
				differences = append(differences, b-a)
			}
		}
		if got, want := pairedShift(one).Value, Median(means); math.Abs(got-want) > 1e-9 {
			t.Errorf("paired shift of %v: %v, want %v", one, got, want)
		}
		if got, want := unpairedShift(one, two).Value, Median(differences); math.Abs(got-want) > 1e-9 {
			t.Errorf("shift from %v to %v: %v, want %v", one, two, got, want)
		}
		if k := walshRank(n, 0.05); k > 0 && dependence(one) == 1 {
			slices.Sort(means)
			want := Interval{means[k-1], means[len(means)-k]}
			if got := *pairedShift(one).Interval; math.Abs(got.Low-want.Low)+math.Abs(got.High-want.High) > 1e-9 {
				t.Errorf("interval of %v: %v, want %v", one, got, want)
			}
		}
	}
}

func TestDependence(t *testing.T) {
	t.Parallel()
	for phi, want := range map[float64]float64{0: 1, 0.3: math.Sqrt(1.3 / 0.7), 0.5: math.Sqrt(3), 0.8: 3} {
		t.Run(fmt.Sprint(phi), func(t *testing.T) {
			t.Parallel()
			series := trials(20_000, autoregressive(phi)(rand.New(rand.NewPCG(1, 2))))
			if got := dependence(series); math.Abs(got/want-1) > 0.05 {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	for name, series := range map[string][]float64{
		"none": nil, "too short": {1, 2, 3, 4}, "all alike": {3, 3, 3, 3, 3, 3}, "to and fro": {1, 9, 2, 8, 3, 7, 4, 6},
	} {
		if got := dependence(series); got != 1 {
			t.Errorf("%s: %v, want 1", name, got)
		}
	}
	if got := dependence([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}); got != math.Sqrt(1.9/0.1) {
		t.Errorf("a slow wave: %v", got)
	}
}
