//go:build !race

package scenario

import (
	"strings"
	"testing"

	"taper.dev/taper/internal/sim"
)

// harmless is by how much the default strategy may miss what least-request reaches, which
// is less than what the luck of a run makes.
const harmless = 1.03

// TestTheDefaultStrategyDoesNoHarm runs each shipped scenario once, under the first arm,
// which is what people have, and under each arm of the default strategy.
func TestTheDefaultStrategyDoesNoHarm(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("some ten million requests")
	}
	for _, name := range Shipped() {
		if name == "large" {
			continue // a minute
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			today := run(t, s, &s.Arms[0])
			for i := range s.Arms {
				if !strings.HasPrefix(s.Arms[i].Name, "least-latency") {
					continue
				}
				ours := run(t, s, &s.Arms[i])
				if a, b := ours.Latency.Quantile(0.99), today.Latency.Quantile(0.99); a > harmless*b {
					t.Errorf("%s: p99 is %.2f ms, and %.2f ms under %s", s.Arms[i].Name, 1000*a, 1000*b, s.Arms[0].Name)
				}
				if ours.Errors > today.Errors || ours.Left > today.Left {
					t.Errorf("%s: %d failed and %d are left, under %s %d and %d", s.Arms[i].Name, ours.Errors, ours.Left, s.Arms[0].Name, today.Errors, today.Left)
				}
			}
		})
	}
}

func run(t *testing.T, s *Scenario, a *Arm) *sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), sim.Trial{Service: &s.Service, NewPolicy: a.NewPolicy, Weigher: a.Weigher, Seed: s.Seed, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 {
		t.Fatal("no requests")
	}
	return r
}
