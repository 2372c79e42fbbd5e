package html_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/html"
)

// twelve adds arms until there are as many as a scenario is meant to have at the most.
func twelve(e *report.Experiment) *report.Experiment {
	for i := 0; len(e.Arms) < 12; i++ {
		arm := e.Arms[i]
		arm.Name = fmt.Sprintf("%s-%d", arm.Name, len(e.Arms))
		e.Arms = append(e.Arms, arm)
		e.Ratios[arm.Name+"/least-request"] = report.Ratio{P50: 1, P99: 1.5, CPU: 0.5}
	}
	return e
}

// thousands has more endpoints than are listed, and no shares but those of kinds.
func thousands(e *report.Experiment) *report.Experiment {
	e.Simulation.Endpoints = 10_005
	for i := range e.Arms {
		e.Arms[i].Endpoints = nil
		for n := range e.Arms[i].Weights {
			e.Arms[i].Weights[n].Shares = nil
		}
	}
	return e
}

func simulation(t testing.TB) *report.Experiment { return read[report.Experiment](t, "simulation") }

func drawSweep(t testing.TB, s *report.Sweep) string {
	t.Helper()
	var out bytes.Buffer
	if err := html.Sweep(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSimulationInBrowser opens pages of simulations as people do.
func TestSimulationInBrowser(t *testing.T) {
	browser := browsertest.Start(t)

	t.Run("simulation", func(t *testing.T) {
		e := simulation(t)
		tab := open(t, browser, e, 1400, 900)
		checkByArm(tab, e)
		checkLines(tab, e)
		if text, want := hover(tab, "p99"), "0 sleast-request"+report.Number(e.Arms[0].Series[0].P99)+" ms"; !strings.HasPrefix(text, want) {
			t.Errorf("the tooltip is %q, want %q", text, want)
		}
		tab.Drawn(".lines canvas", 4, 6)
		tab.Darken()
		checkLines(tab, e)
		tab.Drawn(".lines canvas", 4, 6)
		tab.Resize(400, 800)
		tab.Await(`document.documentElement.scrollWidth <= innerWidth`)
		tab.Fits()
		tab.Quiet()
	})
	t.Run("warm-up is marked", func(t *testing.T) {
		e := simulation(t)
		tab := open(t, browser, e, 1400, 900)
		// Left and right of the end of the warm-up, where no line is.
		const at = `(seconds => {
			const chart = charts.get('rate'), canvas = chart.root.querySelector('canvas');
			const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
			copy.drawImage(canvas, 0, 0);
			return copy.getImageData(chart.valToPos(seconds, 'x', true), chart.valToPos(30, 'y', true), 1, 1).data.join();
		})`
		in1, in2 := browsertest.Evaluate[string](tab, at+`(13)`), browsertest.Evaluate[string](tab, at+`(58)`)
		out1, out2 := browsertest.Evaluate[string](tab, at+`(62.5)`), browsertest.Evaluate[string](tab, at+`(131)`)
		if in1 != in2 || out1 != out2 || in1 == out1 {
			t.Errorf("before the end of the warm-up the chart is %s and %s, after it %s and %s", in1, in2, out1, out2)
		}
	})
	t.Run("twelve arms", func(t *testing.T) {
		e := twelve(simulation(t))
		tab := open(t, browser, e, 400, 800)
		tab.Fits()
		checkByArm(tab, e)
		checkLines(tab, e)
		tab.Drawn("#curves canvas", 1, 12)
		if n := browsertest.Evaluate[int](tab, `new Set(charts.get('p99').series.slice(1).map(s => s.stroke())).size`); n != 12 {
			t.Errorf("%d colours of 12 arms", n)
		}
		// What is hidden gives room to the others.
		tab.Click("#cores .legend button", 0)
		if shown := browsertest.Evaluate[int](tab, `charts.get('cores').series.slice(1).filter(s => s.show).length`); shown != 11 {
			t.Errorf("%d lines are shown, want 11", shown)
		}
		tab.Quiet()
		tab.Confined()
	})
	t.Run("thousands of endpoints", func(t *testing.T) {
		e := thousands(simulation(t))
		tab := open(t, browser, e, 1400, 900)
		tab.Drawn("#requests canvas", 1, 5)
		tab.Drawn(".weights canvas", 2, 4)
		got := browsertest.Evaluate[[]float64](tab, `[...charts.get('requests').data[1]]`)
		var want []float64
		for _, k := range e.Arms[0].Kinds {
			want = append(want, k.Requests)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("bars (-want +got):\n%s", diff)
		}
		rows := browsertest.Evaluate[string](tab, `document.querySelector('details[open] .endpoints tbody').innerText`)
		if !strings.Contains(rows, "9 × fib(27)") {
			t.Errorf("the table of endpoints has\n%s", rows)
		}
		tab.Quiet()
	})
	t.Run("sweep", func(t *testing.T) {
		s := read[report.Sweep](t, "sweep")
		tab := browser.File(t, []byte(drawSweep(t, s)), browsertest.View{Width: 1300, Height: 900, Script: recordCharts})
		checkSweep(tab, s)
		p := s.Arms[0].Points[0].P99
		if text, want := hover(tab, "p99"), fmt.Sprintf("load 0.5least-request%s ms (%s–%s)", report.Number(p.Median), report.Number(p.Low), report.Number(p.High)); !strings.HasPrefix(text, want) {
			t.Errorf("the tooltip is %q, want %q", text, want)
		}
		tab.Drawn(".plot canvas", 3, 6)
		tab.Darken()
		tab.Drawn(".plot canvas", 3, 6)
		tab.Resize(400, 800)
		tab.Await(`document.documentElement.scrollWidth <= innerWidth`)
		tab.Fits()
		tab.Quiet()
		tab.Confined()
	})
	for name, s := range oddSweeps(t) {
		t.Run("sweep: "+name, func(t *testing.T) {
			tab := browser.File(t, []byte(drawSweep(t, s)), browsertest.View{Width: 1000, Height: 800})
			if text := browsertest.Evaluate[string](tab, `document.body.innerText`); strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") {
				t.Errorf("the page shows what is no number:\n%s", text)
			}
			tab.Quiet()
		})
	}
	for name, e := range oddSimulations(t) {
		t.Run("simulation: "+name, func(t *testing.T) {
			open(t, browser, e, 1000, 800).Quiet()
		})
	}
}

func oddSweeps(t *testing.T) map[string]*report.Sweep {
	dead, ragged := read[report.Sweep](t, "sweep"), read[report.Sweep](t, "sweep")
	for i := range dead.Arms {
		for n := range dead.Arms[i].Points {
			dead.Arms[i].Points[n] = report.Point{Value: dead.Values[n], Requests: 5, Errors: 5}
		}
	}
	ragged.Values = []float64{1, 10, 100, 1000}
	ragged.Arms[1].Points, ragged.Arms[2].Points = ragged.Arms[1].Points[:1], nil
	ragged.Arms[0].Name, ragged.Parameter, ragged.Simulation.About = hostile, hostile, hostile
	one := read[report.Sweep](t, "sweep")
	one.Values = one.Values[:1]
	return map[string]*report.Sweep{"empty": {}, "nothing answered": dead, "ragged and hostile": ragged, "one value": one}
}

func oddSimulations(t *testing.T) map[string]*report.Experiment {
	silent, still := simulation(t), simulation(t)
	for i := range silent.Arms {
		silent.Arms[i].Series = make([]report.Step, 4)
		still.Arms[i].Series, still.Arms[i].Percentiles, still.Arms[i].Weights = nil, nil, nil
	}
	silent.Arms[1].Series, silent.Arms[2].Series = silent.Arms[1].Series[:3], nil
	still.Simulation.WarmUp = 0
	return map[string]*report.Experiment{"nothing happened": silent, "no series": still}
}

// checkByArm compares the table of many arms with the experiment.
func checkByArm(tab *browsertest.Tab, e *report.Experiment) {
	tab.Helper()
	columns, rows := e.ByArm()
	head := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('.figures thead th')].map(c => c.textContent)`)
	if diff := cmp.Diff(append([]string{"arm"}, columns...), head); diff != "" {
		tab.Errorf("columns (-want +got):\n%s", diff)
	}
	got := browsertest.Evaluate[[][]string](tab, `[...document.querySelectorAll('.figures tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))`)
	if diff := cmp.Diff(texts(rows), got); diff != "" {
		tab.Errorf("the comparison (-want +got):\n%s", diff)
	}
	if origin := browsertest.Evaluate[string](tab, `document.querySelector('.origin').textContent`); !strings.HasPrefix(origin, "taper simulation of article") {
		tab.Errorf("the page says that it is %q", origin)
	}
	said := browsertest.Evaluate[string](tab, `document.querySelector('.settling').textContent`)
	for _, caveat := range e.Caveats() {
		if !strings.Contains(said, caveat) {
			tab.Errorf("the page lacks %q", caveat)
		}
	}
}

// checkLines compares the charts over time with the experiment.
func checkLines(tab *browsertest.Tab, e *report.Experiment) {
	tab.Helper()
	for chart, of := range map[string]func(report.Step) float64{
		"p99":       func(s report.Step) float64 { return s.P99 },
		"cores":     func(s report.Step) float64 { return s.CPU },
		"in-flight": func(s report.Step) float64 { return s.InFlight },
		"rate":      func(s report.Step) float64 { return s.Requests },
	} {
		for i, arm := range e.Arms {
			var want []float64
			for _, s := range arm.Series {
				want = append(want, of(s))
			}
			checkSeries(tab, chart, i+1, want)
		}
	}
}

func checkSweep(tab *browsertest.Tab, s *report.Sweep) {
	tab.Helper()
	for i, arm := range s.Arms {
		var p99, cores []float64
		for _, p := range arm.Points {
			p99, cores = append(p99, p.P99.Median), append(cores, p.CPU.Median)
		}
		checkSeries(tab, "p99", i+1, p99)
		checkSeries(tab, "cores", i+1, cores)
	}
	checkSeries(tab, "p99", 0, s.Values)
	var want [][]string
	for _, q := range report.Quantities {
		want = append(want, texts(s.Rows(q))...)
	}
	got := browsertest.Evaluate[[][]string](tab, `[...document.querySelectorAll('.figures tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))`)
	if diff := cmp.Diff(want, got); diff != "" {
		tab.Errorf("tables (-want +got):\n%s", diff)
	}
	if headline := browsertest.Evaluate[string](tab, `document.querySelector('h1').textContent.replaceAll('\u00a0', ' ')`); headline != s.Verdict() {
		tab.Errorf("headline %q, want %q", headline, s.Verdict())
	}
	if text := browsertest.Evaluate[string](tab, `document.body.innerText`); !strings.Contains(text, s.Command()) || !strings.Contains(text, s.Remarks()[0]) {
		tab.Errorf("the page lacks the command or the remark:\n%s", text)
	}
}

func TestHostileSweepStaysText(t *testing.T) {
	t.Parallel()
	page := drawSweep(t, oddSweeps(t)["ragged and hostile"])
	if n := len(script.FindAllString(page, -1)); n != 3 || strings.Contains(page, "<img") {
		t.Errorf("%d scripts, want 3, and no name became markup", n)
	}
}
