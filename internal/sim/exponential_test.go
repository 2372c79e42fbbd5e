package sim

import (
	"math"
	"testing"

	"taper.dev/taper/internal/random"
)

func TestExponentialIsTheLogarithm(t *testing.T) {
	t.Parallel()
	r := random.New(1)
	us := []float64{1, 0.5, math.Nextafter(1, 0), 0x1p-53, 0x1p-1022}
	for range 100_000 {
		us = append(us, r.Unit(), math.Exp(-700*r.Unit()))
	}
	for _, u := range us {
		got, want := exponential(u), -math.Log(u)
		if math.Abs(got-want) > 1e-12*max(1, want) || got < 0 {
			t.Fatalf("-ln %v is %v, want %v", u, got, want)
		}
	}
}
