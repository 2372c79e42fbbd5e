package history_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"strconv"
	"strings"
	"testing"

	"taper.dev/taper/internal/goldentest"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

func table[T history.Kept](t *testing.T, kept *T) (text string, rows []map[string]string) {
	t.Helper()
	var out bytes.Buffer
	if err := history.WriteCSV(&out, kept); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return out.String(), rows
}

// The golden files hold the columns, which may be added to, at the end only.
func TestCSVGolden(t *testing.T) {
	t.Parallel()
	compared, _ := table(t, read[probe.Result](t, "compared"))
	m := read[probe.Matrix](t, "matrix")
	m.Cells = m.Cells[:20]
	matrix, _ := table(t, m)
	load, _ := table(t, read[probe.PageLoad](t, "pageload"))
	for name, got := range map[string]string{"compared": compared, "matrix": matrix, "pageload": load} {
		goldentest.Holds(t, "testdata/"+name+".csv", got, *update)
	}
}

func TestCSVHasTheFigures(t *testing.T) {
	t.Parallel()
	r := read[probe.Result](t, "compared")
	_, rows := table(t, r)
	if len(rows) != len(r.Tests)+len(r.Others[0].Tests) {
		t.Fatalf("%d rows of %d and %d tests", len(rows), len(r.Tests), len(r.Others[0].Tests))
	}
	number := func(row int, column string) float64 {
		v, err := strconv.ParseFloat(rows[row][column], 64)
		if err != nil {
			t.Errorf("row %d, %s: %v", row, column, err)
		}
		return v
	}
	if got, want := number(0, "bytes_per_s"), r.Tests[0].BytesPerS; got/want < 1-1e-8 || got/want > 1+1e-8 {
		t.Errorf("the bandwidth is %v, want %v", got, want)
	}
	if got, want := number(1, "rtt_p99_us"), *r.Tests[1].RTT.P99; got != want {
		t.Errorf("p99 is %v, want %v", got, want)
	}
	// What was not measured is empty, and not 0.
	for _, column := range []string{"median_us", "rtt_p50_us", "verdict", "lost_share", "path_mtu_out_bytes", "black_hole"} {
		if got := rows[0][column]; got != "" {
			t.Errorf("of tcp_bw, %s is %q", column, got)
		}
	}
	if got := rows[len(r.Tests)]["verdict"]; got != "cannot tell" {
		t.Errorf("the verdict on the second path is %q", got)
	}
}

func TestCSVTakesNoFormulas(t *testing.T) {
	t.Parallel()
	r := &probe.Result{From: "=cmd|' /C calc'!A0", To: "@SUM(1)", Name: "+1", Tests: []probe.TestResult{{Why: "-2"}}}
	_, rows := table(t, r)
	for column, want := range map[string]string{"from": "'" + r.From, "to": "'" + r.To, "name": "'+1", "why_incomplete": "'-2"} {
		if got := rows[0][column]; got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	quoted, _ := table(t, &probe.Result{From: "a,\"b\nc", Tests: []probe.TestResult{{}}})
	if !strings.Contains(quoted, "\"a,\"\"b\nc\"") {
		t.Errorf("a comma and a quote are written as %q", quoted)
	}
}

func TestCSVReportsErrors(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	if err := history.WriteCSV(failing{full}, &probe.Result{}); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
