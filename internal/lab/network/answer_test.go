package network

import (
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// found is a result such as a quiet machine gives.
func found() *Result {
	us := func(v float64) *float64 { return &v }
	path := func(name string, rate, rtt float64, bandwidth, latency *probe.Verdict) probe.Result {
		return probe.Result{
			Name: name, To: "10.0.0.2", Conditions: probe.Conditions{MTU: 1450},
			Tests: []probe.TestResult{
				{Test: probe.TCPBandwidth, Direction: probe.Out, BytesPerS: rate, Verdict: bandwidth},
				{Test: probe.TCPLatency, Direction: probe.Out, MedianUS: rtt, QperfUS: us(rtt / 2), Verdict: latency},
			},
		}
	}
	r := &Result{Made: Made{ShapeBytesPerS: 62.5e6, BucketBytes: 50e6, NarrowBytesPerS: 12.5e6}}
	first := path("native", 2e9, 15, nil, nil)
	first.Conditions.MTU = 0
	first.Others = []probe.Result{
		path("vxlan", 1.98e9, 19, &probe.Verdict{Outcome: probe.CannotTell, Ratio: 0.99, Within: true, Trials: 10},
			&probe.Verdict{Outcome: probe.Worse, Ratio: 1.25, CI: &[2]float64{1.2, 1.31}, Trials: 10}),
		path("user-space", 0.24e9, 45, &probe.Verdict{Outcome: probe.Worse, Ratio: 0.12, CI: &[2]float64{0.11, 0.13}, Trials: 10},
			&probe.Verdict{Outcome: probe.Worse, Ratio: 3, Trials: 10}),
	}
	r.Paths = &first
	r.Shaped = &probe.Result{Name: "shaped", Conditions: probe.Conditions{Shaped: true, Shaping: &probe.Shaping{
		Direction: probe.Out, BucketBytes: 49.9e6, BurstBytesPerS: 561e6, SustainedBytesPerS: 62.6e6, AtS: 0.1,
	}}}
	r.Page = &probe.PageLoad{Bottleneck: &probe.Bottleneck{Hop: "balancer"}}
	return r
}

func TestRows(t *testing.T) {
	t.Parallel()
	want := []Row{
		{Path: "native", MTU: report.Missing, Bandwidth: "16.0 Gbit/s", RoundTrip: "15.0 µs", AsQperf: "7.50 µs"},
		{
			Path: "vxlan", MTU: "1,450", Bandwidth: "15.8 Gbit/s", BandwidthShare: "99.0 %",
			RoundTrip: "19.0 µs", RoundTripShare: "125 %", RoundTripInterval: "120..131", AsQperf: "9.50 µs",
			Verdict: "bandwidth: the same, latency: worse",
		},
		{
			Path: "user-space", MTU: "1,450", Bandwidth: "1.92 Gbit/s", BandwidthShare: "12.0 %", BandwidthInterval: "11.0..13.0",
			RoundTrip: "45.0 µs", RoundTripShare: "300 %", AsQperf: "22.5 µs", Verdict: "worse", Outcome: probe.Worse,
		},
	}
	rows := found().Rows()
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", rows[i], want[i])
		}
	}
}

func TestARowOfAPathWithoutFigures(t *testing.T) {
	t.Parallel()
	r := found()
	r.Paths.Others[0].Tests = nil
	row := r.Rows()[1]
	if row.Bandwidth != report.Missing || row.RoundTrip != report.Missing || row.BandwidthShare != "" || row.Verdict != "" {
		t.Errorf("what is missing is told: %+v", row)
	}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Result)
		want   string
	}{
		"as in the story":   {func(*Result) {}, "user-space costs 88.0 % of the bandwidth"},
		"the balancer":      {func(*Result) {}, "the balancer's interface is the ceiling."},
		"the servers":       {func(r *Result) { r.Page.Bottleneck.Hop = "backends" }, "the ceiling is not the balancer but: backends."},
		"none":              {func(r *Result) { r.Page.Bottleneck.Hop = "none seen" }, "no ceiling was seen"},
		"nothing was found": {func(r *Result) { r.Page.Bottleneck = nil }, "nothing can be said about the balancer."},
	} {
		r := found()
		c.change(r)
		if got := r.Headline(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", name, got, c.want)
		}
	}
}

func TestShaping(t *testing.T) {
	t.Parallel()
	r := found()
	if got := r.Shaping(); !strings.Contains(got, "given a bucket of 50.0 MB and 500 Mbit/s") || !strings.Contains(got, "found was a burst of 49.9 MB for 0.10 s, and then 501 Mbit/s.") {
		t.Errorf("%q", got)
	}
	r.Shaped.Conditions = probe.Conditions{ShapingBytes: 3e9}
	if got := r.Shaping(); !strings.HasSuffix(got, "no limit was found within 3.00 GB.") {
		t.Errorf("%q", got)
	}
}
