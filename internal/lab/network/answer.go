package network

import (
	"fmt"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/verdict"
)

// Row is one path between two machines, as the story's tables have them.
type Row struct {
	Path, MTU string
	// Bandwidth and RoundTrip are medians over trials, AsQperf is half the mean round trip.
	Bandwidth, RoundTrip, AsQperf string
	// The shares are of the native path, the intervals where they lie, 95 times of 100;
	// empty for the native path.
	BandwidthShare, BandwidthInterval string
	RoundTripShare, RoundTripInterval string
	// Verdict is in short: how much more it would take is in the headline.
	Verdict string
	// Outcome is that of both verdicts where they are the same.
	Outcome probe.Outcome
}

// Rows are the paths, the native one first.
func (r *Result) Rows() []Row {
	var rows []Row
	for _, path := range answer.Paths(r.Paths) {
		bandwidth, latency := find(path, probe.TCPBandwidth), find(path, probe.TCPLatency)
		row := Row{
			Path: path.Name, MTU: report.Missing, AsQperf: report.Missing,
			Bandwidth: answer.Rate(bandwidth.BytesPerS), RoundTrip: answer.Duration(latency.MedianUS),
		}
		row.BandwidthShare, row.BandwidthInterval = share(bandwidth.Verdict)
		row.RoundTripShare, row.RoundTripInterval = share(latency.Verdict)
		if mtu := path.Conditions.MTU; mtu > 0 {
			row.MTU = report.Count(uint64(mtu))
		}
		if latency.QperfUS != nil {
			row.AsQperf = answer.Duration(*latency.QperfUS)
		}
		row.Verdict, row.Outcome = both(bandwidth.Verdict, latency.Verdict)
		rows = append(rows, row)
	}
	return rows
}

// find is a test of a path, without any figure if it has none.
func find(path *probe.Result, test probe.Test) probe.TestResult {
	for _, t := range path.Tests {
		if t.Test == test {
			return t
		}
	}
	return probe.TestResult{Test: test}
}

// share is a ratio in percent, and its interval.
func share(v *probe.Verdict) (text, interval string) {
	if v == nil || v.Ratio <= 0 {
		return "", ""
	}
	if v.CI != nil {
		interval = report.Number(100*v.CI[0]) + ".." + report.Number(100*v.CI[1])
	}
	return answer.Percent(v.Ratio), interval
}

// both says two verdicts, once if they are the same.
func both(bandwidth, latency *probe.Verdict) (string, probe.Outcome) {
	if bandwidth == nil || latency == nil {
		return "", ""
	}
	b, l := short(bandwidth), short(latency)
	if b == l {
		return b, bandwidth.Outcome
	}
	return fmt.Sprintf("bandwidth: %s, latency: %s", b, l), ""
}

func short(v *probe.Verdict) string {
	if v.Outcome == probe.CannotTell && v.Within {
		return "the same"
	}
	return string(v.Outcome)
}

// Headline answers the question in a line: what the overlays cost, and what is full.
func (r *Result) Headline() string { return answer.Result(r.Paths).Headline + "; " + r.ceiling() + "." }

// ceiling says what is full on the way to the page.
func (r *Result) ceiling() string {
	b := r.Page.Bottleneck
	switch {
	case b == nil:
		return "nothing can be said about the balancer"
	case b.Hop == string(verdict.Balancer):
		return "the balancer's interface is the ceiling"
	case b.Hop == string(verdict.NoneSeen):
		return "no ceiling was seen behind the balancer or at it"
	}
	return "the ceiling is not the balancer but: " + b.Hop
}

// Shaping says what was made of the shaped cable, and what was found of it.
func (r *Result) Shaping() string {
	c := &r.Shaped.Conditions
	found := fmt.Sprintf("no limit was found within %s", answer.Size(float64(c.ShapingBytes)))
	if c.Shaped && c.Shaping != nil {
		found = fmt.Sprintf("found was a burst of %s for %s s, and then %s",
			answer.Size(c.Shaping.BucketBytes), report.Number(c.Shaping.AtS), answer.Rate(c.Shaping.SustainedBytesPerS))
	}
	return fmt.Sprintf("A cable was given a bucket of %s and %s; %s.",
		answer.Size(r.Made.BucketBytes), answer.Rate(r.Made.ShapeBytesPerS), found)
}
