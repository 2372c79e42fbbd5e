package network

import (
	"errors"
	"fmt"
	"os"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/measure"
)

// Options say what is run.
type Options struct {
	// Measure is how long the paths between two machines may be measured.
	Measure time.Duration
	// Shape is the bucket of the shaped cable, Narrow that of the balancer's interface and
	// of those of the machines behind it.
	Shape, Narrow netns.Bucket
	// Users is how many load the page at most, Step for how long each number of them does.
	Users int
	Step  time.Duration
	// Seed decides the order of what is measured in turn.
	Seed uint64
	// Envoy is the balancer, Agent the program whose "net serve" is an agent.
	Envoy, Agent string
}

const (
	// queued is what waits for tokens before it is dropped, as in a switch.
	queued = 1 << 20
	// narrowBurst lets a few large segments through at once, and is no burst that anybody
	// would notice.
	narrowBurst = 128 << 10

	leastRate = 1e6   // below it nothing comes to an end
	mostRate  = 100e9 // above what a pair of virtual devices carries
	// mostBucket keeps the search for its end short.
	mostBucket = 2e9
)

// DefaultOptions take about two minutes. The bucket is one that any machine can empty.
func DefaultOptions() Options {
	return Options{
		Measure: 50 * time.Second,
		Shape:   netns.Bucket{BitsPerS: 500e6, Bytes: 50e6, Queued: queued},
		Narrow:  netns.Bucket{BitsPerS: 100e6, Bytes: narrowBurst, Queued: queued},
		Users:   32, Step: 2500 * time.Millisecond,
		// This very program, whoever asks and whatever has become of its file.
		Envoy: "envoy", Agent: fmt.Sprintf("/proc/%d/exe", os.Getpid()),
	}
}

// Validate says what cannot be run, all at once.
func (o Options) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Measure < time.Second || o.Measure > time.Hour {
		wrong("measuring for %v: want 1s to 1h", o.Measure)
	}
	for _, b := range []struct {
		what string
		netns.Bucket
	}{{"the shaped cable", o.Shape}, {"the narrow interface", o.Narrow}} {
		if b.BitsPerS < leastRate || b.BitsPerS > mostRate {
			wrong("%d bits per second for %s: want 1M to 100G", b.BitsPerS, b.what)
		}
	}
	if o.Shape.Bytes < narrowBurst || o.Shape.Bytes > mostBucket {
		wrong("a bucket of %d bytes: want %d to 2G", o.Shape.Bytes, narrowBurst)
	}
	// The kernel is told a bucket by how long it lasts, in 32 bits of its ticks of 64 ns.
	if lasts := float64(o.Shape.Bytes) * 8 / float64(o.Shape.BitsPerS); o.Shape.BitsPerS >= leastRate && lasts > mostLasting.Seconds() {
		wrong("a bucket of %d bytes at %d bits per second lasts %.0f s: want at most %v", o.Shape.Bytes, o.Shape.BitsPerS, lasts, mostLasting)
	}
	if o.Users < 2 || o.Users > 1024 {
		wrong("%d users: want 2 to 1024", o.Users)
	}
	if o.Step < time.Second || o.Step > time.Minute {
		wrong("steps of %v: want 1s to 1m", o.Step)
	}
	if o.Envoy == "" || o.Agent == "" {
		wrong("no command for the balancer, or for the agents")
	}
	return errors.Join(errs...)
}

const mostLasting = 4 * time.Minute

// measuring are the options that measurements have in common.
func (o Options) measuring(progress func(string)) measure.Options {
	return measure.Options{
		RatePerS: measure.DefaultRatePerS, Rounds: measure.DefaultRounds, Budget: o.Measure,
		Difference: measure.DefaultDifference, DifferenceLatency: measure.DefaultDifferenceLatency,
		Seed: o.Seed, Progress: progress,
	}
}
