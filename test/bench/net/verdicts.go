package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/measure"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/test/bench/aim"
)

const (
	megabit = 1e6
	// little is a bucket of a few packets: what goes through is the rate.
	little = 64 << 10
)

// compare measures the first link and another path in turn.
func (w *world) compare(ctx context.Context, other int, test probe.Test, trial, budget time.Duration, rounds int, seed uint64) (*probe.TestResult, error) {
	s := probe.Default(test)
	s.Duration = trial
	o := measure.Options{
		Specs: []probe.Spec{s}, RatePerS: measure.DefaultRatePerS, Rounds: rounds, Budget: budget, Seed: seed,
		Difference: measure.DefaultDifference, DifferenceLatency: measure.DefaultDifferenceLatency,
	}
	for _, path := range []int{0, other} {
		o.Paths = append(o.Paths, measure.Path{Name: far(path).String(), Prober: w.clients[path]})
	}
	result, err := measure.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(result.Others) == 0 || len(result.Others[0].Tests) == 0 {
		return nil, fmt.Errorf("%s: there is nothing to compare: %s", test, result.Incomplete)
	}
	return &result.Others[0].Tests[0], nil
}

// differences measures whether 5 % of bandwidth, and what VXLAN adds to latency, are told
// within a minute.
func (w *world) differences(ctx context.Context, _ plan) error {
	if err := w.slower(ctx); err != nil {
		return err
	}
	began := time.Now()
	t, err := w.compare(ctx, overlay, probe.TCPLatency, measure.DefaultTrial, time.Minute, measure.DefaultRounds, 1)
	if err != nil {
		return err
	}
	told(fmt.Sprintf("VXLAN's latency is told, from %.3g to %.3g µs", t.MedianUS/t.Verdict.Ratio, t.MedianUS), t, began)
	return nil
}

// slower compares with a link that is 5 % slower.
func (w *world) slower(ctx context.Context) error {
	for link, rate := range []float64{1000, 950} {
		if err := netns.Shape(device(link), netns.Bucket{BitsPerS: uint64(rate * megabit), Bytes: little, Queued: 1 << 20}); err != nil {
			return err
		}
		defer netns.Unshape(device(link))
	}
	began := time.Now()
	t, err := w.compare(ctx, 1, probe.TCPBandwidth, measure.DefaultTrial, time.Minute, measure.DefaultRounds, 1)
	if err != nil {
		return err
	}
	told("5 % less bandwidth is told", t, began)
	aim.Row("  as a ratio of", t.Verdict.Ratio, "", "0.95", math.Abs(t.Verdict.Ratio-0.95) < 0.01)
	return nil
}

// told prints whether the path that is worse was called so, and when.
func told(what string, t *probe.TestResult, began time.Time) {
	found := 0.0
	if t.Verdict.Outcome == probe.Worse {
		found = 1
	}
	aim.Row(what, found, "", "1", found == 1)
	aim.Row("  after", time.Since(began).Seconds(), "s", "≤ 60", time.Since(began) <= time.Minute)
}

// sameness counts how often paths that are alike are called different.
func (w *world) sameness(ctx context.Context, p plan) error {
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency} {
		different := 0
		for n := range p.same {
			t, err := w.compare(ctx, 1, test, 50*time.Millisecond, 10*time.Second, measure.DefaultRounds, uint64(n))
			if err != nil {
				return err
			}
			if t.Verdict.Outcome != probe.CannotTell {
				different++
			}
		}
		share := float64(different) / float64(max(1, p.same))
		aim.Row(fmt.Sprintf("%s: alike, called different, of %d", test, p.same), float64(different), "", "< 5 %", share < 0.05)
	}
	return nil
}

// shaping measures a bucket of 50 MB, and looks for one where there is none.
func (w *world) shaping(ctx context.Context, p plan) error {
	const rate, bucket = 500 * megabit, 50e6
	if err := netns.Shape(device(0), netns.Bucket{BitsPerS: rate, Bytes: bucket, Queued: 1 << 20}); err != nil {
		return err
	}
	found, err := w.sustain(ctx)
	if _, e := netns.Unshape(device(0)); err != nil || e != nil {
		return fmt.Errorf("looking for shaping: %w", firstOf(err, e))
	}
	if found == nil {
		aim.Row("500 Mbit/s after 50 MB is seen", 0, "", "1", false)
	} else {
		size, sustained := found.BucketBytes/bucket, found.SustainedBytesPerS*8/rate
		aim.Row("500 Mbit/s after 50 MB: the bucket", size, "×", "0.85–1.15", size >= .85 && size <= 1.15)
		aim.Row("500 Mbit/s after 50 MB: the rate", sustained, "×", "0.97–1.03", sustained >= .97 && sustained <= 1.03)
	}
	seen := 0
	for range p.long {
		if found, err = w.sustain(ctx); err != nil {
			return err
		}
		if found != nil {
			seen++
		}
	}
	aim.Row(fmt.Sprintf("shaping seen where there is none, of %d", p.long), float64(seen), "", "0", seen == 0)
	return nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// sustain is what a measurement says of shaping on the first link.
func (w *world) sustain(ctx context.Context) (*probe.Shaping, error) {
	s := probe.Default(probe.TCPBandwidth)
	s.Duration = 50 * time.Millisecond
	result, err := measure.Run(ctx, measure.Options{
		Paths: []measure.Path{{Name: far(0).String(), Prober: w.clients[0]}}, Specs: []probe.Spec{s},
		Sustain: 4 * time.Second, RatePerS: measure.DefaultRatePerS, Rounds: 1, Budget: time.Nanosecond,
		Difference: measure.DefaultDifference, DifferenceLatency: measure.DefaultDifferenceLatency,
	})
	if err != nil {
		return nil, err
	}
	return result.Conditions.Shaping, nil
}
