package load

import (
	"math"
	"testing"
	"time"
)

func TestArrivalsArePoisson(t *testing.T) {
	const (
		rate    = 1500
		n       = 200_000
		targets = 16
	)
	a := newArrivals(1, rate, targets)
	var last time.Duration
	var squares float64
	perTarget := make([]int, targets)
	for range n {
		at, target := a.next()
		if at < last {
			t.Fatalf("arrival at %v after one at %v", at, last)
		}
		gap := (at - last).Seconds()
		squares += gap * gap
		perTarget[target]++
		last = at
	}
	mean := last.Seconds() / n
	if math.Abs(mean*rate-1) > 0.01 {
		t.Errorf("mean gap %.2f µs, want %.2f µs", mean*1e6, 1e6/rate)
	}
	// The exponential distribution is the one whose deviation is its mean.
	if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(cv-1) > 0.02 {
		t.Errorf("gaps deviate by %.3f of their mean, want 1", cv)
	}
	for target, count := range perTarget {
		if math.Abs(float64(count)*targets/n-1) > 0.05 {
			t.Errorf("target %d got %d of %d arrivals, want a %dth", target, count, n, targets)
		}
	}
}

func TestSeedDeterminesArrivals(t *testing.T) {
	a, same, other := newArrivals(1, 100, 4), newArrivals(1, 100, 4), newArrivals(2, 100, 4)
	differ := false
	for range 100 {
		at, target := a.next()
		if sameAt, sameTarget := same.next(); sameAt != at || sameTarget != target {
			t.Fatalf("same seed: target %d at %v, then target %d at %v", target, at, sameTarget, sameAt)
		}
		otherAt, _ := other.next()
		differ = differ || otherAt != at
	}
	if !differ {
		t.Error("another seed gives the same arrivals")
	}
}
