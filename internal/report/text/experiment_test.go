package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/goldentest"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden files anew")

// realistic is three arms of 15 endpoints.
func realistic(t testing.TB) *report.Experiment {
	t.Helper()
	return read[report.Experiment](t, "experiment")
}

// read is a result of the lab or the simulator, thinned out.
func read[T any](t testing.TB, name string) *T {
	t.Helper()
	data, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var result T
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatal(err)
	}
	return &result
}

// compare holds a text to a file.
func compare(t *testing.T, golden, got string) {
	t.Helper()
	goldentest.Holds(t, filepath.Join("testdata", golden+".golden"), got, *update)
}

func draw(t testing.TB, e *report.Experiment, opts terminal.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := text.Experiment(&out, e, opts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func addArm(e *report.Experiment) {
	arm := e.Arms[0]
	arm.Name, arm.Errors = "round-robin", 1234
	e.Arms = append(e.Arms, arm)
	e.Ratios["round-robin/least-request"] = report.Ratio{P50: 1.004, P99: 2.51, CPU: 1.02}
}

func oneRound(e *report.Experiment) {
	e.Settings.Rounds, e.Disturbance = 1, nil
	for i := range e.Arms {
		e.Arms[i].Rounds = e.Arms[i].Rounds[:1]
	}
}

func TestExperimentGolden(t *testing.T) {
	tests := []struct {
		golden string
		opts   terminal.Options
		change func(*report.Experiment)
	}{
		{"three-arms", terminal.Options{Width: 100}, func(*report.Experiment) {}},
		{"four-arms", terminal.Options{}, addArm},
		{"narrow", terminal.Options{Width: 80}, addArm},
		{"color", terminal.Options{Width: 100, Color: true}, addArm},
		{"one-round", terminal.Options{Width: 100}, oneRound},
		{"one-arm", terminal.Options{Width: 100}, func(e *report.Experiment) { e.Arms = e.Arms[:1]; oneRound(e) }},
		{"empty-first-arm", terminal.Options{Width: 100}, func(e *report.Experiment) { e.Arms[0] = report.Arm{Name: "least-request"} }},
		{"no-arms", terminal.Options{Width: 100}, func(e *report.Experiment) { e.Arms, e.Disturbance = nil, nil }},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			e := realistic(t)
			test.change(e)
			compare(t, test.golden, draw(t, e, test.opts))
		})
	}
}

func TestExperimentFitsTheWidth(t *testing.T) {
	for _, width := range []int{80, 100, 120} {
		e := realistic(t)
		for _, line := range strings.Split(draw(t, e, terminal.Options{Width: width}), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d columns for a width of %d: %s", n, width, line)
			}
		}
	}
}

func TestColorsMoveNothing(t *testing.T) {
	e := realistic(t)
	escape := regexp.MustCompile("\x1b\\[[0-9]*m")
	plain, colored := draw(t, e, terminal.Options{Width: 100}), draw(t, e, terminal.Options{Width: 100, Color: true})
	if strings.Contains(plain, "\x1b") {
		t.Error("there are colours without Color")
	}
	if !strings.Contains(colored, "\x1b[32m0.29\x1b[0m") {
		t.Error("a better ratio is not green")
	}
	if diff := cmp.Diff(plain, escape.ReplaceAllString(colored, "")); diff != "" {
		t.Errorf("without its colours the text differs (-plain +colored):\n%s", diff)
	}
}

func TestNamesCannotDriveTheTerminal(t *testing.T) {
	e := realistic(t)
	e.Arms[2].Name = "evil\x1b[2J\a\r\n"
	e.Arms[2].Endpoints[0].Address = "a\x1b]0;title\x07b"
	if got := draw(t, e, terminal.Options{}); strings.ContainsAny(got, "\x1b\a\r") {
		t.Errorf("control characters came through:\n%q", got)
	}
}

func TestManyEndpointsAreCut(t *testing.T) {
	e := realistic(t)
	last := &e.Arms[2]
	for len(last.Endpoints) < 1000 {
		last.Endpoints = append(last.Endpoints, last.Endpoints[0])
	}
	got := draw(t, e, terminal.Options{})
	if lines := strings.Count(got, "\n"); lines > 80 || !strings.Contains(got, "… and 960 endpoints more") {
		t.Errorf("%d lines for 1,000 endpoints:\n%s", lines, got)
	}
}

func TestOddNumbersAreMissing(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0} {
		e := realistic(t)
		poison(reflect.ValueOf(e), v)
		e.Ratios["least-latency/least-request"] = report.Ratio{P50: v, P99: v, CPU: v}
		got := draw(t, e, terminal.Options{Width: 100})
		if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") || strings.Contains(got, "-1") {
			t.Errorf("%v came through:\n%s", v, got)
		}
		if !strings.HasPrefix(got, "No verdict: ") {
			t.Errorf("a verdict from nothing but %v:\n%s", v, got)
		}
	}
}

// poison sets every floating-point number to v.
func poison(node reflect.Value, v float64) {
	switch node.Kind() {
	case reflect.Pointer:
		if !node.IsNil() {
			poison(node.Elem(), v)
		}
	case reflect.Struct:
		for i := range node.NumField() {
			poison(node.Field(i), v)
		}
	case reflect.Slice:
		for i := range node.Len() {
			poison(node.Index(i), v)
		}
	case reflect.Float64:
		node.SetFloat(v)
	}
}

func FuzzExperiment(f *testing.F) {
	data, err := os.ReadFile("../testdata/experiment.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, 100)
	f.Add([]byte(`{"arms": [{}, {"weights": [{}]}]}`), 1)
	f.Add([]byte(`{"arms": [{"requests": 1, "errors": 9, "endpoints": [{}]}], "disturbance": {}}`), -1)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		var e report.Experiment
		if json.Unmarshal(data, &e) != nil {
			t.Skip()
		}
		if got := draw(t, &e, terminal.Options{Width: width}); !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
	})
}

func TestExperimentReportsWriteErrors(t *testing.T) {
	full := errors.New("disk full")
	if err := text.Experiment(failing{full}, realistic(t), terminal.Options{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
