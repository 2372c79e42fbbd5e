package answer

import (
	"fmt"
	"slices"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// Row is one test on one path: what it gave and how that compares with the first path.
type Row struct {
	// Test says what was measured and how; Path which way, empty where there is only one.
	Test, Path string
	// Figure is the median over trials with its unit, Interval where it lies, 95 times of
	// 100, in the same unit.
	Figure, Interval string
	// Share is what this is of the first path's figure, ShareInterval where that lies, in
	// percent; both empty for the first path.
	Share, ShareInterval string
	// Outcome is empty for the first path, Verdict says it in words.
	Outcome probe.Outcome
	Verdict string
	Trials  string
	// Lost is the share of datagrams that did not arrive, where there are any.
	Lost string
	// Of is the place of the path in the result, 0 for the first.
	Of int
	// Values are the figures of the trials, Median and CI theirs, to be drawn.
	Values []float64
	Median float64
	CI     *[2]float64
}

// Paths are the first path and those compared with it.
func Paths(r *probe.Result) []*probe.Result {
	all := []*probe.Result{r}
	for i := range r.Others {
		all = append(all, &r.Others[i])
	}
	return all
}

// pathName is how a path is called, empty if there is only one.
func pathName(r, path *probe.Result) string {
	if len(r.Others) == 0 {
		return ""
	}
	return name(path)
}

func name(path *probe.Result) string {
	for _, n := range []string{path.Name, string(path.Path), path.To} {
		if n != "" {
			return n
		}
	}
	return "the path"
}

// key tells tests apart: one may be measured both ways and with several sizes.
type key struct {
	test      probe.Test
	direction probe.Direction
	message   int
	streams   int
	mode      probe.Mode
}

func keyOf(t *probe.TestResult) key {
	return key{t.Test, t.Direction, t.MessageBytes, t.Streams, t.Mode}
}

// find is the same test of another path; nil if it has none.
func find(path *probe.Result, k key) *probe.TestResult {
	for i := range path.Tests {
		if keyOf(&path.Tests[i]) == k {
			return &path.Tests[i]
		}
	}
	return nil
}

// keys are all tests of all paths, in the order in which they were measured.
func keys(r *probe.Result) []key {
	var all []key
	seen := map[key]bool{}
	for _, path := range Paths(r) {
		for i := range path.Tests {
			if k := keyOf(&path.Tests[i]); !seen[k] {
				seen[k] = true
				all = append(all, k)
			}
		}
	}
	return all
}

// label names a test, with what tells it from others of its kind in the same result.
func (k key) label(all []key) string {
	text := string(k.test)
	if k.test == probe.TCPBandwidth || k.test == probe.UDPBandwidth {
		text += " " + string(k.direction)
	}
	for _, other := range all {
		if other.test == k.test && other.message != k.message {
			text += " " + message(k.message)
			break
		}
	}
	if k.streams > 1 && k.test != probe.Responsiveness {
		text += fmt.Sprintf(" × %d", k.streams)
	}
	if k.mode == probe.Hot {
		text += " hot"
	}
	return strings.TrimSpace(text)
}

// Main is the figure that a test is about, in its unit; 0 if it has none.
func Main(t *probe.TestResult) float64 {
	switch {
	case t.Test.LowerIsBetter():
		return t.MedianUS
	case t.Test == probe.Responsiveness:
		return t.RoundTripsPerMinute
	case t.Test == probe.PathMTU:
		if t.PathMTU != nil {
			return float64(t.PathMTU.Out)
		}
		return 0
	}
	return t.BytesPerS
}

// Measured is one test on all paths that have it.
type Measured struct {
	// Name says what was measured and how.
	Name string
	Of   []OnPath
}

// OnPath is a test on one path, whose place in the result is Index.
type OnPath struct {
	Path   string
	Index  int
	Result *probe.Result
	Test   *probe.TestResult
}

// Tests are all tests, in the order in which they were measured.
func Tests(r *probe.Result) []Measured {
	var tests []Measured
	all := keys(r)
	for _, k := range all {
		m := Measured{Name: k.label(all)}
		for i, path := range Paths(r) {
			if t := find(path, k); t != nil {
				m.Of = append(m.Of, OnPath{pathName(r, path), i, path, t})
			}
		}
		tests = append(tests, m)
	}
	return tests
}

// Figures are the rows of a result, test by test and path by path.
func Figures(r *probe.Result) []Row {
	var rows []Row
	for _, test := range Tests(r) {
		for _, of := range test.Of {
			row := figureRow(of.Test, test.Name)
			row.Path, row.Of = of.Path, of.Index
			rows = append(rows, row)
		}
	}
	return rows
}

func figureRow(t *probe.TestResult, label string) Row {
	v := Main(t)
	row := Row{Test: label, Figure: Value(t.Test, v), Interval: interval(t.Test, v, t.CI), Trials: trials(t), Values: t.Trials, Median: v, CI: t.CI}
	if t.Test == probe.PathMTU && v > 0 {
		row.Figure = mtu(t.PathMTU)
	}
	if t.LostShare != nil {
		row.Lost = report.Number(100**t.LostShare) + " %"
	}
	if t.Verdict != nil {
		row.Outcome, row.Verdict = t.Verdict.Outcome, Verdict(t.Verdict)
		row.Share, row.ShareInterval = Percent(t.Verdict.Ratio), percents(t.Verdict.CI)
	}
	return row
}

func mtu(found *probe.PathMTUFound) string {
	text := report.Count(uint64(max(0, found.Out)))
	if found.In > 0 && found.In != found.Out {
		text += " out, " + report.Count(uint64(found.In)) + " in"
	}
	return text + " bytes"
}

func trials(t *probe.TestResult) string {
	text := report.Count(uint64(len(t.Trials)))
	if t.Incomplete > 0 {
		text += " of " + report.Count(uint64(len(t.Trials)+t.Incomplete))
	}
	return text
}

// Verdict says a verdict in words.
func Verdict(v *probe.Verdict) string {
	switch {
	case v.Outcome != probe.CannotTell:
		return string(v.Outcome)
	case v.Within:
		return "no difference worth telling"
	case v.Trials == 0:
		return "cannot tell: there is nothing to compare"
	case v.Needed > v.Trials:
		return "cannot tell: " + plural(v.Needed-v.Trials, "more round") + " would be needed"
	case v.Floor > 0:
		return "cannot tell: it differs from itself by as much"
	}
	return "cannot tell: too few rounds"
}

func plural(n int, what string) string {
	text := report.Count(uint64(max(0, n))) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}

// Percentiles are those that are told, and how many samples each takes.
var Percentiles = []struct {
	Name   string
	Wanted int64
}{{"p50", 1}, {"p90", 100}, {"p99", 1000}, {"p99.9", 10_000}, {"p99.99", 100_000}}

// Latency is one distribution of a test on a path.
type Latency struct {
	Test, Path string
	// At are the [Percentiles], [report.Missing] where too few samples lie beyond one.
	At        []string
	Mean, Max string
	Samples   string
}

// Latencies are the distributions of a result.
func Latencies(r *probe.Result) []Latency {
	var rows []Latency
	for _, test := range Tests(r) {
		var all []Latency
		for _, of := range test.Of {
			for _, d := range distributions(of.Test) {
				row := LatencyOf(d.latency)
				row.Test, row.Path = test.Name+d.what, of.Path
				all = append(all, row)
			}
		}
		// What is compared stands beside each other.
		for len(all) > 0 {
			first := all[0].Test
			same := func(l Latency) bool { return l.Test == first }
			for _, l := range all {
				if same(l) {
					rows = append(rows, l)
				}
			}
			all = slices.DeleteFunc(all, same)
		}
	}
	return rows
}

type distribution struct {
	what    string
	latency *probe.Latency
}

// distributions are those that a test has, each with what it is of.
func distributions(t *probe.TestResult) []distribution {
	candidates := []distribution{{"", t.RTT}, {", connecting", t.Connect}}
	if t.Test == probe.Responsiveness {
		candidates = []distribution{{", idle", t.Idle}, {", beside load", t.RTT}, {", in loaded connections", t.Load}}
	}
	var all []distribution
	for _, d := range candidates {
		if d.latency != nil && d.latency.Count > 0 {
			all = append(all, d)
		}
	}
	return all
}

// LatencyOf writes a summary's figures; of nil, that all are missing.
func LatencyOf(l *probe.Latency) Latency {
	if l == nil {
		l = &probe.Latency{}
	}
	row := Latency{Mean: Duration(l.Mean), Max: Duration(l.Max), Samples: report.Count(uint64(max(0, l.Count)))}
	for _, v := range []*float64{l.P50, l.P90, l.P99, l.P999, l.P9999} {
		text := report.Missing
		if v != nil {
			text = Duration(*v)
		}
		row.At = append(row.At, text)
	}
	return row
}

// Wanting says why percentiles are missing; empty if none is.
func Wanting(r *probe.Result) string {
	fewest := int64(-1)
	for _, path := range Paths(r) {
		for i := range path.Tests {
			for _, d := range distributions(&path.Tests[i]) {
				if fewest < 0 || d.latency.Count < fewest {
					fewest = d.latency.Count
				}
			}
		}
	}
	for _, p := range Percentiles {
		if fewest >= 0 && fewest < p.Wanted {
			return fmt.Sprintf("A percentile is told if ten samples lie beyond it: %s takes %s, and the smallest row has %s.",
				p.Name, report.Count(uint64(p.Wanted)), report.Count(uint64(fewest)))
		}
	}
	return ""
}

// Tool is what other programs would call one test of one path.
type Tool struct{ Test, Path, Qperf, Netperf, Iperf3 string }

// Tools are the rows of tests that other programs have.
func Tools(r *probe.Result) []Tool {
	var rows []Tool
	for _, test := range Tests(r) {
		for _, of := range test.Of {
			t := of.Test
			row := Tool{test.Name, of.Path, report.Missing, report.Missing, report.Missing}
			known := false
			for _, c := range []struct {
				into   *string
				v      *float64
				scales []scale
			}{
				{&row.Qperf, t.QperfUS, durations}, {&row.Qperf, t.QperfBytesPerS, rates},
				{&row.Netperf, t.NetperfUS, durations}, {&row.Netperf, t.NetperfBytesPerS, rates},
				{&row.Iperf3, t.Iperf3BytesPerS, rates},
			} {
				if c.v != nil {
					known = true
					*c.into = figure(*c.v, c.scales)
				}
			}
			if known {
				rows = append(rows, row)
			}
		}
	}
	return rows
}
