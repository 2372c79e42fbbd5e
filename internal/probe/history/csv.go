package history

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
)

// column is one column of a table of rows of a kind. The names are part of the interface:
// columns are only ever added, at the end.
type column[R any] struct {
	name  string
	value func(R) string
}

// WriteCSV writes a run as a table with a header line: of a result a row for each test on
// each path, of a matrix one for each pair on each path, of a page load one for each
// number of users on each way. What was not measured is empty. Units are in the names.
func WriteCSV[T Kept](w io.Writer, kept *T) error {
	switch kept := any(kept).(type) {
	case *probe.Result:
		return table(w, testColumns, testRows(kept))
	case *probe.Matrix:
		return table(w, cellColumns, cellRows(kept))
	case *probe.PageLoad:
		return table(w, stepColumns, stepRows(kept))
	}
	return nil
}

func table[R any](w io.Writer, columns []column[R], rows []R) error {
	out := csv.NewWriter(w)
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = c.name
	}
	_ = out.Write(line) // kept until Error
	for _, row := range rows {
		for i, c := range columns {
			line[i] = c.value(row)
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

// name writes a text from somewhere else. Spreadsheets take one that begins like a formula
// for a formula, which a hostile host could name itself; they hide the apostrophe.
func name(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }

// known writes a figure, of which none is ever 0.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

func maybe(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func end(ci *[2]float64, i int) string {
	if ci == nil {
		return ""
	}
	return number(ci[i])
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// testRow is one test on one path.
type testRow struct {
	path *probe.Result
	test *probe.TestResult
}

func testRows(r *probe.Result) []testRow {
	var rows []testRow
	for _, p := range append([]*probe.Result{r}, pointers(r.Others)...) {
		for i := range p.Tests {
			rows = append(rows, testRow{p, &p.Tests[i]})
		}
	}
	return rows
}

func pointers(list []probe.Result) []*probe.Result {
	var all []*probe.Result
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

var testColumns = append(append([]column[testRow]{
	{"started", func(r testRow) string { return at(r.path.Started) }},
	{"from", func(r testRow) string { return name(r.path.From) }},
	{"to", func(r testRow) string { return name(r.path.To) }},
	{"name", func(r testRow) string { return name(r.path.Name) }},
	{"path", func(r testRow) string { return name(string(r.path.Path)) }},
	{"test", func(r testRow) string { return string(r.test.Test) }},
	{"direction", func(r testRow) string { return string(r.test.Direction) }},
	{"message_bytes", func(r testRow) string { return strconv.Itoa(r.test.MessageBytes) }},
	{"streams", func(r testRow) string { return strconv.Itoa(r.test.Streams) }},
	{"mode", func(r testRow) string { return string(r.test.Mode) }},
	{"duration_s", func(r testRow) string { return number(r.test.Duration) }},
	{"trials", func(r testRow) string { return strconv.Itoa(len(r.test.Trials)) }},
	{"incomplete_trials", func(r testRow) string { return strconv.Itoa(r.test.Incomplete) }},
	{"bytes_per_s", func(r testRow) string { return known(r.test.BytesPerS) }},
	{"median_us", func(r testRow) string { return known(r.test.MedianUS) }},
	{"rpm", func(r testRow) string { return known(r.test.RoundTripsPerMinute) }},
	{"ci_low", func(r testRow) string { return end(r.test.CI, 0) }},
	{"ci_high", func(r testRow) string { return end(r.test.CI, 1) }},
}, latencies()...), []column[testRow]{
	{"lost_share", func(r testRow) string { return maybe(r.test.LostShare) }},
	{"path_mtu_out_bytes", func(r testRow) string { return pathMTU(r, func(m *probe.PathMTUFound) int { return m.Out }) }},
	{"path_mtu_in_bytes", func(r testRow) string { return pathMTU(r, func(m *probe.PathMTUFound) int { return m.In }) }},
	{"black_hole", func(r testRow) string {
		if r.test.PathMTU == nil {
			return ""
		}
		return strconv.FormatBool(r.test.PathMTU.BlackHole)
	}},
	{"qperf_us", func(r testRow) string { return maybe(r.test.QperfUS) }},
	{"netperf_us", func(r testRow) string { return maybe(r.test.NetperfUS) }},
	{"qperf_bytes_per_s", func(r testRow) string { return maybe(r.test.QperfBytesPerS) }},
	{"netperf_bytes_per_s", func(r testRow) string { return maybe(r.test.NetperfBytesPerS) }},
	{"iperf3_bytes_per_s", func(r testRow) string { return maybe(r.test.Iperf3BytesPerS) }},
	{"verdict", ofVerdict(func(v *probe.Verdict) string { return string(v.Outcome) })},
	{"ratio", ofVerdict(func(v *probe.Verdict) string { return known(v.Ratio) })},
	{"ratio_ci_low", ofVerdict(func(v *probe.Verdict) string { return end(v.CI, 0) })},
	{"ratio_ci_high", ofVerdict(func(v *probe.Verdict) string { return end(v.CI, 1) })},
	{"noise_floor", ofVerdict(func(v *probe.Verdict) string { return known(v.Floor) })},
	{"needed_trials", ofVerdict(func(v *probe.Verdict) string { return known(float64(v.Needed)) })},
	{"reason", func(r testRow) string {
		if r.test.Limits == nil {
			return ""
		}
		return name(r.test.Limits.Reason)
	}},
	{"why_incomplete", func(r testRow) string { return name(r.test.Why) }},
}...)

// latencies are the columns of the four distributions that a test may have.
func latencies() []column[testRow] {
	var all []column[testRow]
	for _, d := range []struct {
		name string
		of   func(*probe.TestResult) *probe.Latency
	}{
		{"rtt", func(t *probe.TestResult) *probe.Latency { return t.RTT }},
		{"connect", func(t *probe.TestResult) *probe.Latency { return t.Connect }},
		{"idle", func(t *probe.TestResult) *probe.Latency { return t.Idle }},
		{"load", func(t *probe.TestResult) *probe.Latency { return t.Load }},
	} {
		all = append(all, summary(d.name, func(r testRow) *probe.Latency { return d.of(r.test) })...)
	}
	return all
}

// summary is the columns of one distribution.
func summary[R any](prefix string, of func(R) *probe.Latency) []column[R] {
	figure := func(suffix string, value func(*probe.Latency) string) column[R] {
		return column[R]{prefix + "_" + suffix, func(r R) string {
			if l := of(r); l != nil {
				return value(l)
			}
			return ""
		}}
	}
	return []column[R]{
		figure("samples", func(l *probe.Latency) string { return strconv.FormatInt(l.Count, 10) }),
		figure("mean_us", func(l *probe.Latency) string { return number(l.Mean) }),
		figure("p50_us", func(l *probe.Latency) string { return maybe(l.P50) }),
		figure("p90_us", func(l *probe.Latency) string { return maybe(l.P90) }),
		figure("p99_us", func(l *probe.Latency) string { return maybe(l.P99) }),
		figure("p999_us", func(l *probe.Latency) string { return maybe(l.P999) }),
		figure("p9999_us", func(l *probe.Latency) string { return maybe(l.P9999) }),
		figure("max_us", func(l *probe.Latency) string { return number(l.Max) }),
	}
}

func pathMTU(r testRow, of func(*probe.PathMTUFound) int) string {
	if r.test.PathMTU == nil {
		return ""
	}
	return known(float64(of(r.test.PathMTU)))
}

func ofVerdict(value func(*probe.Verdict) string) func(testRow) string {
	return func(r testRow) string {
		if r.test.Verdict == nil {
			return ""
		}
		return value(r.test.Verdict)
	}
}

// cellRow is one pair on one path.
type cellRow struct {
	started time.Time
	cell    *probe.Cell
}

func cellRows(m *probe.Matrix) []cellRow {
	var rows []cellRow
	for i := range m.Cells {
		rows = append(rows, cellRow{m.Started, &m.Cells[i]})
	}
	return rows
}

var cellColumns = append(append([]column[cellRow]{
	{"started", func(r cellRow) string { return at(r.started) }},
	{"from", func(r cellRow) string { return name(r.cell.From) }},
	{"to", func(r cellRow) string { return name(r.cell.To) }},
	{"path", func(r cellRow) string { return name(string(r.cell.Path)) }},
	{"bytes_per_s", func(r cellRow) string { return known(r.cell.BytesPerS) }},
}, summary("rtt", func(r cellRow) *probe.Latency { return r.cell.RTT })...),
	column[cellRow]{"problem", func(r cellRow) string { return name(r.cell.Problem) }})

// stepRow is one number of users on one way to a page.
type stepRow struct {
	started time.Time
	target  *probe.PageTarget
	step    *probe.PageStep
}

func stepRows(p *probe.PageLoad) []stepRow {
	var rows []stepRow
	for i := range p.Targets {
		for j := range p.Targets[i].Steps {
			rows = append(rows, stepRow{p.Started, &p.Targets[i], &p.Targets[i].Steps[j]})
		}
	}
	return rows
}

var stepColumns = []column[stepRow]{
	{"started", func(r stepRow) string { return at(r.started) }},
	{"name", func(r stepRow) string { return name(r.target.Name) }},
	{"url", func(r stepRow) string { return name(r.target.URL) }},
	{"users", func(r stepRow) string { return strconv.Itoa(r.step.Users) }},
	{"bytes_per_s", func(r stepRow) string { return number(r.step.BytesPerS) }},
	{"pages_per_s", func(r stepRow) string { return number(r.step.PagesPerS) }},
	{"p50_ms", func(r stepRow) string { return maybe(r.step.P50) }},
	{"p90_ms", func(r stepRow) string { return maybe(r.step.P90) }},
	{"p99_ms", func(r stepRow) string { return maybe(r.step.P99) }},
	{"errors", func(r stepRow) string { return strconv.FormatInt(r.step.Errors, 10) }},
	{"saturated", func(r stepRow) string {
		return strconv.FormatBool(r.target.Users > 0 && r.step.Users >= r.target.Users)
	}},
	{"pages", func(r stepRow) string { return strconv.FormatInt(r.step.Pages, 10) }},
	{"client_busy", func(r stepRow) string { return maybe(r.step.ClientBusy) }},
	{"why", func(r stepRow) string { return name(r.step.Why) }},
}
