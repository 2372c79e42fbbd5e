package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestDistribution(t *testing.T) {
	t.Parallel()
	quantiles := []float64{0, .01, .5, .9, .99, .999, 1}
	for _, n := range []int{1, 2, 10, 100, exactUpTo, exactUpTo + 1, 50_000} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		var d distribution
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = time.Duration(math.Exp(rng.NormFloat64()*2) * float64(200*time.Microsecond))
			d.add(all[i])
		}
		slices.Sort(all)
		for i, got := range d.at(quantiles...) {
			want := all[max(int(math.Ceil(quantiles[i]*float64(n)-1e-9))-1, 0)]
			tolerance := 0.0
			if n > exactUpTo {
				tolerance = 0.001
			}
			if math.Abs(float64(got-want)) > tolerance*float64(want) {
				t.Errorf("of %d, quantile %g is %s, want %s", n, quantiles[i], got, want)
			}
		}
	}
}

func TestDistributionOfOddTimes(t *testing.T) {
	t.Parallel()
	for _, many := range []int{1, exactUpTo} {
		var d distribution
		for range many {
			d.add(-time.Second) // the clock stepped back
			d.add(3 * longest)
		}
		values := d.at(0, .99, 1)
		if values[0] != 0 || values[1] < longest || values[2] != 3*longest {
			t.Errorf("%d of each: %s", many, values)
		}
	}
	var empty distribution
	if got := empty.at(.5)[0]; got != 0 {
		t.Errorf("median of nothing is %s", got)
	}
}

func TestReservoir(t *testing.T) {
	t.Parallel()
	const n, limit = 20_000, 1000
	s := newSamples(limit)
	for i := range n {
		slot := s.slot()
		slot.begin(0, time.Duration(i))
		slot.add(0, time.Duration(i))
		slot.add(1, 0)
	}
	if len(s.kept) != limit {
		t.Fatalf("%d kept, want %d", len(s.kept), limit)
	}
	mean := 0.0
	for _, k := range s.kept {
		mean += float64(k.duration) / limit
		if k.duration > 0 && (len(k.parts) != 1 || k.parts[0].time != k.duration) {
			t.Fatalf("parts %v of %d", k.parts, k.duration)
		}
	}
	// The standard error is n/√12/√limit = 183.
	if math.Abs(mean-n/2) > 4*183 {
		t.Errorf("the mean of the kept is %g, want about %d", mean, n/2)
	}
	var none *samples
	slot := none.slot()
	slot.begin(0, 1)
	slot.add(0, 1) // keeps nothing, and does not fail
}
