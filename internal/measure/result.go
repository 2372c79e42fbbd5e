package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// result tells what was measured. It is an error if there is nothing to tell.
func (r *run) result(ctx context.Context) (*probe.Result, error) {
	var all []probe.Result
	var gone []error
	figures := 0
	for i, m := range r.paths {
		result := r.ofPath(m, i)
		for _, t := range result.Tests {
			figures += len(t.Trials)
		}
		figures += len(m.sustain)
		all = append(all, result)
		if m.gone != "" {
			gone = append(gone, fmt.Errorf("%s: %s", m.Name, m.gone))
		}
	}
	if figures == 0 {
		return nil, nothing(ctx, gone)
	}
	first := all[0]
	first.Others = all[1:]
	if ctx.Err() != nil {
		first.Incomplete = "interrupted"
	}
	return &first, nil
}

// nothing is why there is not one figure.
func nothing(ctx context.Context, gone []error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(gone) > 0 {
		return errors.Join(gone...)
	}
	return errors.New("no trial came to its end")
}

func (r *run) ofPath(m *measured, index int) probe.Result {
	p := probe.Result{Started: r.started, From: m.From, To: m.To, Name: m.Name, Path: m.Kind, Incomplete: m.gone}
	for i, rec := range m.records {
		if len(rec.figures) == 0 {
			continue
		}
		t := rec.result()
		if t.Test == probe.TCPBandwidth && t.Direction == probe.Out {
			m.addTools(&t)
		}
		if index > 0 && repeated(t.Test) {
			v := probe.VerdictOf(r.compare(m, i))
			t.Verdict = &v
		}
		p.Tests = append(p.Tests, t)
	}
	p.Conditions = r.conditions(m)
	return p
}

// result summarizes a record.
func (r *record) result() probe.TestResult {
	t := probe.TestResult{
		Test: r.spec.Test, Direction: r.spec.Direction, Streams: r.spec.Streams, Mode: r.spec.Mode,
		MessageBytes: r.spec.MessageBytes, Duration: r.spec.Duration.Seconds(), Trials: whole(r.figures),
		Connect: r.connect.Summary(), Load: r.load.Summary(), Idle: r.idle.Summary(),
		PathMTU: r.pathMTU, Incomplete: r.incomplete, Why: r.why,
	}
	location, ok := verdict.Estimate(r.figures)
	if ok && location.Interval != nil {
		t.CI = &[2]float64{location.Interval.Low, location.Interval.High}
	}
	switch r.spec.Test {
	case probe.TCPBandwidth, probe.UDPBandwidth:
		t.BytesPerS = location.Median
		t.Bins, t.Limits = r.bins, r.limits()
	case probe.Responsiveness:
		t.RoundTripsPerMinute = location.Median
		t.RTT = r.backToBack.Summary()
	case probe.TCPLatency, probe.UDPLatency, probe.Connect:
		r.latency(&t, location)
	}
	if r.sent > 0 {
		lost := max(0, 1-float64(r.received)/float64(r.sent))
		t.LostShare = &lost
	}
	return t
}

// latency adds what a latency test has: percentiles from messages at a rate, and what
// tools would say from those that followed each other.
func (r *record) latency(t *probe.TestResult, location verdict.Location) {
	timed := r.timed
	if timed == nil {
		timed = r.backToBack
	}
	t.RTT = timed.Summary()
	if timed != nil {
		t.Curve = timed.Curve()
	}
	if len(t.Trials) > 0 {
		t.MedianUS = location.Median
	}
	if r.backToBack == nil || r.spec.RatePerS > 0 || t.Test == probe.Connect {
		return
	}
	mean := float64(r.backToBack.Mean()) / 1e3
	half := mean / 2
	t.NetperfUS, t.QperfUS = &mean, &half
}

func (m *measured) addTools(t *probe.TestResult) {
	for tool, into := range map[probe.Tool]**float64{
		probe.Qperf: &t.QperfBytesPerS, probe.Netperf: &t.NetperfBytesPerS, probe.Iperf3: &t.Iperf3BytesPerS,
	} {
		if v, ok := m.tools[tool]; ok && !math.IsNaN(v) {
			*into = &v
		}
	}
}

// whole are the figures of whole trials.
func whole(figures []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(figures), math.IsNaN)
}

// usage is what is kept of a trial beside its figure.
type usage struct {
	near, far []int
	throttled *time.Duration
	clockStep time.Duration
}

func usageOf(t probe.Trial) usage {
	u := usage{near: t.Near.Usage.CPUs, far: t.Far.Usage.CPUs}
	for _, side := range []probe.Side{t.Near, t.Far} {
		if d := side.Usage.Throttled; d != nil {
			sum := *d
			if u.throttled != nil {
				sum += *u.throttled
			}
			u.throttled = &sum
		}
		if step := side.Usage.ClockStep; step.Abs() > u.clockStep.Abs() {
			u.clockStep = step
		}
	}
	return u
}
