// Package study runs a scenario and reports what came of it: [Run] every arm in every round,
// [Sweep] all of that at several values of one parameter.
//
// Each arm of each round is one sim.Run. All arms of a round have the same seed, and so the
// same requests; pool.go runs as many at once as there are processors and memory for.
// figures.go takes from a run what is reported and lets go of the rest, experiment.go and
// sweep.go put that together. Results depend on the scenario alone, and not on how many ran
// at once.
package study

import (
	"fmt"
	"time"
)

// Options say how to run, not what.
type Options struct {
	// Memory is how many bytes the simulations may take at once; 0 is no limit. It is
	// [TooLarge] if one alone takes more.
	Memory int64
	// Progress is called a few times a second, never twice at a time, if not nil.
	Progress func(Progress)
}

// Progress is how far a study has come.
type Progress struct {
	// Part is what is done, 0..1.
	Part float64
	// Doing names what runs, such as "least-latency, round 2 of 3".
	Doing string
	// Left is about how long the rest takes; 0 as long as nobody can tell.
	Left time.Duration
}

// TooLarge is a scenario that takes more memory than is allowed, both in bytes.
type TooLarge struct {
	Scenario     string
	Takes, Limit int64
}

// Error implements error.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("simulating %s takes some %s of memory at once, and %s is the limit", e.Scenario, binary(e.Takes), binary(e.Limit))
}

// binary is a number of bytes as people read it.
func binary(bytes int64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	if bytes < gibi {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mebi)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gibi)
}
