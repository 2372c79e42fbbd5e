package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/goldentest"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/text"
	"taper.dev/taper/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read[T any](t testing.TB, name string) *T {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func write(w io.Writer, v any, opts terminal.Options) error {
	switch v := v.(type) {
	case *probe.Result:
		return text.Result(w, v, opts)
	case *probe.Matrix:
		return text.Matrix(w, v, opts)
	case *probe.PageLoad:
		return text.PageLoad(w, v, opts)
	case *probe.Comparison:
		return text.Comparison(w, v, opts)
	}
	return fmt.Errorf("nothing draws a %T", v)
}

func draw(t testing.TB, v any, opts terminal.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, v, opts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// overlay is a comparison that could be told: the overlay gives 12 % of the bandwidth.
func overlay(t testing.TB) *probe.Result {
	r := read[probe.Result](t, "compared")
	r.Incomplete = "interrupted"
	o := &r.Others[0]
	o.Name, o.Conditions.Shaped, o.Conditions.Shaping = "overlay", false, nil
	for i := range o.Tests {
		x := &o.Tests[i]
		switch x.Test {
		case probe.TCPBandwidth:
			x.Verdict = &probe.Verdict{Outcome: probe.Worse, Ratio: .1173, CI: &[2]float64{.112, .125}, Floor: 1.04, Trials: 12}
		case probe.TCPLatency:
			x.MedianUS = r.Tests[i].MedianUS + 45
			x.Verdict = &probe.Verdict{Outcome: probe.Worse, Ratio: 3.9, CI: &[2]float64{3.7, 4.1}, Floor: 1.1, Trials: 12}
		case probe.UDPBandwidth:
			x.Verdict = &probe.Verdict{Outcome: probe.Better, Ratio: 1.31, CI: &[2]float64{1.2, 1.4}, Floor: 1.1, Trials: 12}
		case probe.PathMTU:
			x.PathMTU = &probe.PathMTUFound{Out: 1372, In: 1450, Believed: 1450, BlackHole: true}
		}
	}
	return r
}

// large is a matrix of n agents in blocks of ten, of which agent 3 sends little.
func large(n int) *probe.Matrix {
	m := &probe.Matrix{}
	for i := range n {
		m.Agents = append(m.Agents, probe.Agent{Name: fmt.Sprintf("agent-%03d", i), Block: fmt.Sprintf("rack-%02d", i/10)})
	}
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			c := probe.Cell{From: m.Agents[i].Name, To: m.Agents[j].Name, Path: probe.HostPath, BytesPerS: 1e9 + float64((i*31+j*17)%97)*1e5}
			if i == 3 {
				c.BytesPerS /= 2
			}
			m.Cells = append(m.Cells, c)
		}
	}
	m.Outliers = []probe.Outlier{{Kind: "sends", Name: "agent-003", Path: probe.HostPath, Metric: "bandwidth", Share: .5, Sentence: "agent-003 sends at 50 % of the median over host."}}
	return m
}

func comparison() *probe.Comparison {
	return &probe.Comparison{
		Old: probe.Run{Name: "before.json", From: "web-1"}, New: probe.Run{Name: "after.json", From: "web-1", Incomplete: "interrupted"},
		Tests: []probe.ComparedTest{
			{Test: probe.TCPBandwidth, Direction: probe.Out, Path: "host", Streams: 1, MessageBytes: 128 << 10, Old: 1.2e9, New: 1.19e9, OldTrials: 20, NewTrials: 18,
				Verdict: probe.Verdict{Outcome: probe.CannotTell, Within: true, Ratio: .992, CI: &[2]float64{.98, 1.01}, Floor: 1.02, Trials: 18}},
			{Test: probe.TCPBandwidth, Direction: probe.Out, Path: "pod", Streams: 1, MessageBytes: 128 << 10, Old: 1.1e9, New: 6e8, OldTrials: 20, NewTrials: 18,
				Verdict: probe.Verdict{Outcome: probe.Worse, Ratio: .545, CI: &[2]float64{.53, .56}, Floor: 1.02, Trials: 18}},
			{Test: probe.TCPLatency, Path: "pod", MessageBytes: 1, Old: 92, New: 64, OldTrials: 20, NewTrials: 18,
				Verdict: probe.Verdict{Outcome: probe.Better, Ratio: .7, CI: &[2]float64{.66, .72}, Floor: 1.1, Trials: 18}},
			{Test: probe.Connect, Path: "pod", MessageBytes: 1, Old: 180, New: 195, OldTrials: 20, NewTrials: 18,
				Verdict: probe.Verdict{Outcome: probe.CannotTell, Ratio: 1.08, CI: &[2]float64{.9, 1.3}, Floor: 1.2, Trials: 18, Needed: 52}},
		},
		Notes: []string{"Only the new run has udp_bw out over pod."},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"single": read[probe.Result](t, "single"), "compared": read[probe.Result](t, "compared"), "overlay": overlay(t),
		"matrix": read[probe.Matrix](t, "matrix"), "large": large(60), "larger": large(200), "pageload": read[probe.PageLoad](t, "pageload"),
		"comparison": comparison(), "empty": &probe.Result{}, "empty-matrix": &probe.Matrix{}, "empty-pageload": &probe.PageLoad{},
		"empty-comparison": &probe.Comparison{},
	} {
		widths := []int{80, 120}
		if strings.HasPrefix(name, "empty") {
			widths = widths[:1]
		}
		for _, width := range widths {
			for _, color := range []bool{false, true} {
				golden := fmt.Sprintf("%s-%d", name, width)
				if color {
					golden += "-color"
				}
				if color && (width != 80 || strings.HasPrefix(name, "empty")) {
					continue
				}
				t.Run(golden, func(t *testing.T) {
					t.Parallel()
					got := draw(t, v, terminal.Options{Width: width, Color: color})
					goldentest.Holds(t, filepath.Join("testdata", golden+".golden"), got, *update)
				})
			}
		}
	}
}

// samples are all that is drawn.
func samples(t testing.TB) []any {
	return []any{
		read[probe.Result](t, "single"), read[probe.Result](t, "compared"), overlay(t), read[probe.Matrix](t, "matrix"),
		large(60), read[probe.PageLoad](t, "pageload"), comparison(),
	}
}

func TestFitsTheWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 100, 132} {
		for _, v := range samples(t) {
			for line := range strings.SplitSeq(draw(t, v, terminal.Options{Width: width}), "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%T: %d columns for a width of %d: %s", v, n, width, line)
				}
			}
		}
	}
}

// Maps of any number of agents fit, whatever their names.
func TestMapsFitTheWidth(t *testing.T) {
	t.Parallel()
	for n := 2; n < 40; n++ {
		m := large(n)
		for i := range m.Agents {
			m.Agents[i].Block = ""
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var long probe.Matrix
		if err := json.Unmarshal(bytes.ReplaceAll(b, []byte("agent-"), []byte("ip-10-0-0-1.eu-central-1.compute.internal-")), &long); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(draw(t, &long, terminal.Options{Width: 80}), "\n") {
			if got := utf8.RuneCountInString(line); got > 80 {
				t.Errorf("of %d agents a line has %d columns: %s", n, got, line)
			}
		}
	}
}

func TestColorsMoveNothing(t *testing.T) {
	t.Parallel()
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, v := range samples(t) {
		plain, colored := draw(t, v, terminal.Options{Width: 100}), draw(t, v, terminal.Options{Width: 100, Color: true})
		if strings.Contains(plain, "\x1b") || !strings.Contains(colored, "\x1b") {
			t.Errorf("%T: colours are on without, or off with Color", v)
		}
		if diff := cmp.Diff(plain, escape.ReplaceAllString(colored, "")); diff != "" {
			t.Errorf("without its colours the text differs (-plain +colored):\n%s", diff)
		}
	}
}

// What answers the question is the first line, whatever else there is to say.
func TestTheFirstLineAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v    any
		want string
	}{
		{read[probe.Result](t, "single"), "Gbit/s and 15.5 µs to web-2 (10.99.1.2:4000, host)"},
		{overlay(t), "overlay costs 88.3 % of the bandwidth and adds 45.0 µs of latency"},
		{read[probe.Matrix](t, "matrix"), "node-7 receives at 40 % of the median, on the host path; 2 other outliers below"},
		{read[probe.PageLoad](t, "pageload"), "The balancer is full: throughput stops growing at 4 users"},
		{comparison(), "Worse: tcp_bw out over pod 8.80 Gbit/s → 4.80 Gbit/s (-45.5 %); better: tcp_lat over pod 92.0 µs → 64.0 µs (-30.0 %)"},
		{&probe.Result{}, "Nothing was measured"},
		{&probe.Matrix{}, "Nothing was measured between 0 agents"},
		{&probe.PageLoad{}, "Nothing was measured"},
		{&probe.Comparison{}, "Nothing can be compared"},
	} {
		first, _, _ := strings.Cut(draw(t, test.v, terminal.Options{}), "\n")
		if !strings.Contains(first, test.want) {
			t.Errorf("the first line is %q, want %q in it", first, test.want)
		}
	}
}

// A map shows who is slow where it is, and groups show their worst.
func TestTheMapShowsTheOutlier(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n    int
		line *regexp.Regexp
	}{
		{12, regexp.MustCompile(`(?m)^agent-003 +3( +50){2} +\\( +50){9}$`)},
		{60, regexp.MustCompile(`(?m)^agent-003 ▓*\\▓*$`)},
		{200, regexp.MustCompile(`(?m)^rack-00 +1( +5\d){20}$`)},
	} {
		got := draw(t, large(test.n), terminal.Options{Width: 120})
		if !test.line.MatchString(got) {
			t.Errorf("of %d agents no line matches %s:\n%s", test.n, test.line, got)
		}
	}
}

func TestNamesCannotDriveTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "evil\x1b[2J\a\r\n\u202e"
	r := overlay(t)
	r.From, r.To, r.Name, r.Path, r.Incomplete = evil, evil, evil, evil, evil
	r.Conditions.Far.Name, r.Conditions.Far.Node, r.Conditions.Notes = evil, evil, []string{evil}
	r.Tests[0].Why, r.Tests[0].Incomplete, r.Tests[0].Limits.Reason = evil, 1, evil
	m := read[probe.Matrix](t, "matrix")
	m.Agents[0].Name, m.Agents[0].Problem, m.Agents[1].Block, m.Outliers[0].Sentence, m.Incomplete = evil, evil, evil, evil, evil
	m.Cells[0].Path = evil
	l := read[probe.PageLoad](t, "pageload")
	l.Targets[0].Name, l.Targets[0].URL, l.Targets[0].Problem, l.Bottleneck.Sentence = evil, evil, evil, evil
	for i := range l.Targets[0].Steps {
		l.Targets[0].Steps[i].Served[evil] = []int64{1, 2}
	}
	c := comparison()
	c.Old.Name, c.Tests[0].Path, c.Tests[1].Test, c.Notes[0], c.New.Name = evil, evil, evil, evil, evil
	for _, v := range []any{r, m, l, c} {
		if got := draw(t, v, terminal.Options{Width: 80}); strings.ContainsAny(got, "\x1b\a\r\u202e") {
			t.Errorf("control characters came through:\n%q", got)
		}
	}
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"from": "a", "to": "b", "name": "host", "tests": [{"name": "tcp_bw", "direction": "out", "bytes_per_s": 1e9, "ci": [9e8, 1.1e9], "trials": [1e9]},
		{"name": "tcp_lat", "median_us": 5, "rtt_us": {"count": 2000, "p50": 6}, "qperf_us": 3}, {"name": "udp_bw", "lost_share": 0.1, "incomplete_trials": 2, "why": "x"}],
		"conditions": {"shaped": true, "shaping": {"bucket_bytes": 5e7}, "near_cpus": [0, 1, 5]}, "others": [{"name": "pod", "tests":
		[{"name": "tcp_bw", "direction": "out", "bytes_per_s": 5e8, "verdict": {"outcome": "worse", "ratio": 0.5, "ci": [0.4, 0.6], "trials": 9}}]}]}`), 80)
	f.Add([]byte(`{"agents": [{"name": "a", "block": "x", "price_per_hour_and_gbit_per_s": 0.1}, {"name": "b", "problem": "gone"}, {"name": "c"}],
		"cells": [{"from": "a", "to": "b", "path": "host", "bytes_per_s": 1e9, "rtt_us": {"p50": 5}}, {"from": "b", "to": "c", "path": "pod", "problem": "p"}],
		"outliers": [{"kind": "pair", "sentence": "s."}], "native": [{"path": "host", "pairs": 1}, {"path": "pod", "bandwidth": 0.5, "pairs": 1}]}`), 60)
	f.Add([]byte(`{"targets": [{"name": "n", "saturated_users": 4, "steps": [{"users": 4, "bytes_per_s": 1e6, "p50_ms": 5, "bins": [5, 6, 7], "served_bins": {"a": [1, 2], "b": [3]}}]}],
		"bottleneck": {"hop": "balancer", "sentence": "s"}}`), 40)
	f.Add([]byte(`{"old": {"name": "o", "incomplete": "i"}, "tests": [{"name": "conn", "path": "p", "old": 2, "new": 3, "verdict": {"outcome": "better", "ratio": 1.5, "ci": [1, 2]}}], "notes": ["n"]}`), 50)
	f.Add([]byte(`{"tests": [{"name": "path_mtu", "path_mtu": {"out": -5, "in": -1}, "verdict": {}, "ci": [1, -1]}], "others": [{}]}`), 1)
	f.Add([]byte(`{"agents": [{"name": "a"}, {"name": "a"}], "cells": [{"from": "a", "to": "a", "path": "x", "bytes_per_s": -1}, {"from": "?"}]}`), 9)
	f.Add([]byte(`{"targets": [{"steps": [{"users": -1, "bins": [0, -4], "served_bins": {"a": [1], "b": null}}]}]}`), -3)
	f.Fuzz(func(t *testing.T, b []byte, width int) {
		for _, v := range []any{&probe.Result{}, &probe.Matrix{}, &probe.PageLoad{}, &probe.Comparison{}} {
			if json.Unmarshal(b, v) != nil {
				continue
			}
			if m, ok := v.(*probe.Matrix); ok && len(m.Agents) > 300 {
				continue
			}
			if got := draw(t, v, terminal.Options{Width: width % 300}); !utf8.ValidString(got) {
				t.Errorf("not UTF-8: %q", got)
			}
		}
	})
}

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, v := range samples(t) {
		if err := write(failing{full}, v, terminal.Options{}); !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
