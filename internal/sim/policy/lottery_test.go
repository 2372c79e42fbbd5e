package policy

import (
	"math"
	"slices"
	"testing"

	"taper.dev/taper/internal/random"
)

func filled(weights ...uint32) *lottery {
	m := newMembers(newWorld(len(weights)).setting(1))
	m.assign(upTo(len(weights)), weights)
	l := &lottery{}
	l.fill(&m)
	return l
}

// What places have, put together, is each endpoint's share, to the last bits of a float.
func TestLotteryHasExactShares(t *testing.T) {
	t.Parallel()
	r := random.New(3)
	for range 100 {
		weights := make([]uint32, 2+r.Below(50))
		var sum float64
		for i := range weights {
			weights[i] = uint32(1 + r.Below(1<<(1+r.Below(32))))
			sum += float64(weights[i])
		}
		weights[0] += 5 // not all alike
		sum += 5
		l := filled(weights...)
		shares := make([]float64, len(weights))
		for i, own := range l.own {
			part := float64(own) / (1 << 64)
			shares[i] += part / float64(len(weights))
			shares[l.other[i]] += (1 - part) / float64(len(weights))
		}
		for i, w := range weights {
			if want := float64(w) / sum; math.Abs(shares[i]-want) > 1e-12 {
				t.Fatalf("weights %v: endpoint %d has %v, want %v", weights, i, shares[i], want)
			}
		}
	}
}

func TestAnotherIsNoneOfThoseDrawn(t *testing.T) {
	t.Parallel()
	r := random.New(1)
	l := filled(1, 2, 3)
	for range 1000 {
		if e, ok := l.another(r, 2); ok && e == 2 {
			t.Fatal("endpoint 2 is drawn again")
		}
		if e, ok := l.another(r, 2, 1); ok && slices.Contains([]int32{1, 2}, e) {
			t.Fatalf("endpoint %d is drawn again", e)
		}
		if e, ok := l.another(r, 2, 1, 0); ok {
			t.Fatalf("of none that are left %d is drawn", e)
		}
	}
}
