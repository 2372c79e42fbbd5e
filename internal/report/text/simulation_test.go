package text_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/terminal"
)

// twelve adds arms until there are as many as a scenario is meant to have at the most.
func twelve(e *report.Experiment) {
	for i := 0; len(e.Arms) < 12; i++ {
		arm := e.Arms[i]
		arm.Name = fmt.Sprintf("%s-%d", arm.Name, len(e.Arms))
		e.Arms = append(e.Arms, arm)
		e.Ratios[arm.Name+"/least-request"] = report.Ratio{P50: 1, P99: 1.5, CPU: 0.5}
	}
}

// thousands is a service of more endpoints than are listed.
func thousands(e *report.Experiment) {
	e.Simulation.Endpoints = 10_005
	for i := range e.Arms {
		e.Arms[i].Endpoints = nil
		e.Arms[i].Grows, e.Arms[i].Saturated, e.Arms[i].Unfinished = i == 0, 12*i+5, 1200
	}
}

func TestSimulationGolden(t *testing.T) {
	t.Parallel()
	for golden, tt := range map[string]struct {
		opts   terminal.Options
		change func(*report.Experiment)
	}{
		"simulation":           {terminal.Options{}, func(*report.Experiment) {}},
		"simulation-narrow":    {terminal.Options{Width: 80}, func(*report.Experiment) {}},
		"simulation-twelve":    {terminal.Options{Width: 100, Color: true}, twelve},
		"simulation-thousands": {terminal.Options{Width: 100}, thousands},
	} {
		t.Run(golden, func(t *testing.T) {
			t.Parallel()
			e := read[report.Experiment](t, "simulation")
			tt.change(e)
			compare(t, golden, draw(t, e, tt.opts))
		})
	}
}

func TestSweepGolden(t *testing.T) {
	t.Parallel()
	many := func(s *report.Sweep) {
		for i := range s.Arms {
			for n := 0; len(s.Arms[i].Points) < 14; n++ {
				s.Arms[i].Points = append(s.Arms[i].Points, s.Arms[i].Points[n])
			}
		}
		for len(s.Values) < 14 {
			s.Values = append(s.Values, float64(len(s.Values)))
		}
		s.Arms[1].Points[3].Errors = 12
	}
	for golden, tt := range map[string]struct {
		width  int
		change func(*report.Sweep)
	}{
		"sweep":      {0, func(*report.Sweep) {}},
		"sweep-80":   {80, func(*report.Sweep) {}},
		"sweep-many": {80, many},
	} {
		t.Run(golden, func(t *testing.T) {
			t.Parallel()
			s := read[report.Sweep](t, "sweep")
			tt.change(s)
			var out bytes.Buffer
			if err := text.Sweep(&out, s, terminal.Options{Width: tt.width}); err != nil {
				t.Fatal(err)
			}
			compare(t, golden, out.String())
		})
	}
}

func TestTwelveArmsFit(t *testing.T) {
	t.Parallel()
	e := read[report.Experiment](t, "simulation")
	twelve(e)
	for _, width := range []int{80, 100, 120} {
		for _, line := range strings.Split(draw(t, e, terminal.Options{Width: width}), "\n") {
			// A list of arms in a command line has no place to break.
			if n := utf8.RuneCountInString(line); n > width && !strings.Contains(line, ",") {
				t.Errorf("%d columns for a width of %d: %s", n, width, line)
			}
		}
	}
}

func TestSweepReportsWriteErrors(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	if err := text.Sweep(failing{full}, read[report.Sweep](t, "sweep"), terminal.Options{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	var out bytes.Buffer
	if err := text.Sweep(&out, &report.Sweep{}, terminal.Options{Width: 80}); err != nil || !strings.Contains(out.String(), "no verdict") {
		t.Errorf("%v, of nothing it says:\n%s", err, out.String())
	}
}
