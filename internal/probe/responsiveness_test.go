package probe_test

import (
	"math"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// of is a distribution of so many milliseconds each.
func of(ms ...float64) *probe.Distribution {
	d := probe.NewDistribution()
	for _, v := range ms {
		d.Record(time.Duration(v * float64(time.Millisecond)))
	}
	return d
}

// many is n times the same, and one more that is longer.
func many(n int, ms, last float64) *probe.Distribution {
	d := of(last)
	for range n {
		d.Add(of(ms))
	}
	return d
}

// The figures are computed by hand from the draft's formula.
func TestRPM(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                   string
		connect, foreign, load *probe.Distribution
		want                   float64
	}{
		// foreign 60000/((20+40)/2) = 2000, loaded 60000/60 = 1000.
		{"plain", of(20), of(40), of(60), 1500},
		// The means are over the shortest 95 %: of 20, the longest is left out.
		{"trimmed", many(19, 10, 30000), many(19, 10, 30000), many(19, 100, 30000), (6000 + 600) / 2.},
		// Of 10, nine (9.5) are kept.
		{"few", many(9, 10, 1000), many(9, 10, 1000), many(9, 10, 1000), 6000},
		{"spread", of(10, 20, 30, 40), of(10, 20, 30, 40), of(20), (3000 + 3000) / 2.},
		{"no load", of(20), of(40), of(), 0},
		{"nothing", nil, nil, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := probe.RPM(probe.Trial{Connect: c.connect, RTT: c.foreign, Load: c.load})
			if ok != (c.want > 0) || math.Abs(got-c.want) > c.want/500 {
				t.Errorf("got %v, %v; want %v", got, ok, c.want)
			}
		})
	}
}
