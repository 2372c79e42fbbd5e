package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/terminal"
)

// predicted is a service of 15 endpoints, fitted to today's latency.
func predicted(t testing.TB) *report.Prediction {
	t.Helper()
	data, err := os.ReadFile("../testdata/prediction.json")
	if err != nil {
		t.Fatal(err)
	}
	var p report.Prediction
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func relative(p *report.Prediction) {
	for i := range p.Arms {
		p.Arms[i].P50, p.Arms[i].P99 = nil, nil
	}
	for i := range p.Endpoints {
		p.Endpoints[i].DemandMS, p.Endpoints[i].Requests = nil, nil
	}
	p.Endpoints[3].Utilization, p.Endpoints[3].Note = nil, "what a request costs here is not known; it is taken for like the others"
	p.Calibration, p.Observed.RatePerS, p.Assumed.ProxiesKnown = nil, nil, false
	p.Warnings = []string{"no request rates were measured: how long requests take is not known, only ratios are"}
}

func TestPredictionGolden(t *testing.T) {
	for _, test := range []struct {
		golden string
		opts   terminal.Options
		change func(*report.Prediction)
	}{
		{"prediction", terminal.Options{Width: 100}, func(*report.Prediction) {}},
		{"prediction-narrow", terminal.Options{Width: 80, Color: true}, func(*report.Prediction) {}},
		{"prediction-relative", terminal.Options{Width: 100}, relative},
		{"prediction-nothing", terminal.Options{}, func(p *report.Prediction) { *p = report.Prediction{} }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			p := predicted(t)
			test.change(p)
			golden(t, test.golden, func(out *bytes.Buffer) error { return text.Prediction(out, p, test.opts) })
		})
	}
}

// golden compares what is drawn with a file.
func golden(t *testing.T, name string, draw func(*bytes.Buffer) error) {
	t.Helper()
	var out bytes.Buffer
	if err := draw(&out); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("-want +got (-update accepts it):\n%s", diff)
	}
}

func TestPredictionIsSafeToPrint(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), -1} {
		p := predicted(t)
		poison(reflect.ValueOf(p), v)
		p.Service, p.Endpoints[0].Address, p.Warnings = "evil\x1b[2J", "a\x1b]0;t\x07", []string{"b\r\a"}
		var out bytes.Buffer
		if err := text.Prediction(&out, p, terminal.Options{Width: 100}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.ContainsAny(got, "\x1b\a\r") || !utf8.ValidString(got) {
			t.Errorf("control characters came through:\n%q", got)
		}
		if first, _, _ := strings.Cut(out.String(), "\n"); strings.Contains(first, "cut") || strings.Contains(first, "raise") {
			t.Errorf("a verdict from nothing but %v: %s", v, first)
		}
	}
	full := errors.New("disk full")
	if err := text.Prediction(failing{full}, predicted(t), terminal.Options{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

func agreement() *report.Agreement {
	return &report.Agreement{
		Scenario: "fibonacci", Conditions: []string{"1,500 requests/s, 16 proxies", "simulated with 0.40 ms added"}, OverheadMS: 0.4,
		WithinPercent: 15, Runs: 15,
		Arms: []report.AgreementOf{
			{Name: "least-request", Figures: []report.AgreementFigure{
				{Name: "p50", Unit: "ms", Measured: 5, Low: 4.9, High: 5.2, Simulated: 4.8, Ratio: 0.96, Within: true},
				{Name: "p99", Unit: "ms", Measured: 80, Low: 70, High: 95, Simulated: 60, Ratio: 0.75},
			}},
			{Name: "least-latency", Figures: []report.AgreementFigure{
				{Name: "CPU", Unit: "cores", Measured: 4.9, Low: 4.8, High: 5, Simulated: 4.9, Ratio: 1, Within: true},
			}},
		},
	}
}

func TestAgreementGolden(t *testing.T) {
	a := agreement()
	golden(t, "agreement-apart", func(out *bytes.Buffer) error { return text.Agreement(out, a, terminal.Options{Width: 100}) })
	if a.Holds() {
		t.Error("figures that are apart hold")
	}
	a.Arms[0].Figures[1].Within, a.Arms[0].Figures[1].Ratio = true, 0.9
	golden(t, "agreement", func(out *bytes.Buffer) error {
		return text.Agreement(out, a, terminal.Options{Width: 100, Color: true})
	})
	if !a.Holds() || (&report.Agreement{}).Holds() {
		t.Error("what is within does not hold, or nothing does")
	}
}
