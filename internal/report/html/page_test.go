package html_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/html"
)

// recordCharts keeps each chart that the page makes, for the test to look into.
const recordCharts = `
window.charts = new Map();
let library;
Object.defineProperty(window, 'uPlot', {
  get: () => library,
  set: value => {
    library = new Proxy(value, {construct(target, [options, data, root]) {
      const chart = new target(options, data, root);
      charts.set(root.closest('figure').id || 'weights-' + root.closest('figure').dataset.arm, chart);
      return chart;
    }});
  },
});`

// open shows the experiment's page in a window of the given size.
func open(t *testing.T, browser *browsertest.Browser, e *report.Experiment, width, height int64) *browsertest.Tab {
	t.Helper()
	var page bytes.Buffer
	if err := html.Experiment(&page, e); err != nil {
		t.Fatal(err)
	}
	return browser.File(t, page.Bytes(), browsertest.View{Width: width, Height: height, Script: recordCharts})
}

// TestPageInBrowser opens the page as people do. One Chromium serves all of it.
func TestPageInBrowser(t *testing.T) {
	browser := browsertest.Start(t)

	t.Run("wide", func(t *testing.T) {
		e := realistic(t)
		tab := open(t, browser, e, 1400, 900)
		checkText(tab, e)
		checkCharts(tab, e)
		checkLegend(tab)
		checkTooltip(tab, e)
		tab.Quiet()
	})
	t.Run("narrow", func(t *testing.T) {
		tab := open(t, browser, realistic(t), 400, 800)
		tab.Fits()
		checkDrawn(tab)
		tab.Quiet()
	})
	t.Run("dark", func(t *testing.T) {
		tab := open(t, browser, realistic(t), 1000, 800)
		tab.Darken()
		checkCharts(tab, realistic(t))
		tab.Quiet()
	})
	t.Run("resized", func(t *testing.T) {
		tab := open(t, browser, realistic(t), 1400, 800)
		tab.Resize(400, 800)
		// The charts follow when the browser tells them, a few frames later.
		tab.Await(`document.documentElement.scrollWidth <= innerWidth`)
		tab.Fits()
		checkDrawn(tab)
		tab.Quiet()
	})
	t.Run("policy", func(t *testing.T) {
		tab := open(t, browser, realistic(t), 1000, 800)
		tab.Confined()
	})
	t.Run("hostile", func(t *testing.T) {
		e := realistic(t)
		vandalise(e)
		tab := open(t, browser, e, 400, 800)
		checkText(tab, e)
		tab.Fits()
		checkDrawn(tab)
		tab.Quiet()
	})
	for name, e := range odd(t) {
		t.Run(name, func(t *testing.T) {
			tab := open(t, browser, e, 1000, 800)
			checkText(tab, e)
			if text := browsertest.Evaluate[string](tab, `document.body.innerText`); strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") {
				t.Errorf("the page shows what is no number:\n%s", text)
			}
			tab.Quiet()
		})
	}
}

// odd are experiments that went wrong in one way or another.
func odd(t *testing.T) map[string]*report.Experiment {
	oneArm, noRounds, lame, notNumbers, unnamed := realistic(t), realistic(t), realistic(t), realistic(t), realistic(t)
	oneArm.Arms = oneArm.Arms[:1]
	for i := range noRounds.Arms {
		noRounds.Arms[i].Rounds, noRounds.Arms[i].Percentiles = nil, nil
	}
	lame.Arms[0] = report.Arm{Name: "least-request"}
	lame.Arms[2].Weights = lame.Arms[2].Weights[:1]
	lame.Arms[2].Weights[0].Shares = nil
	poison(reflect.ValueOf(notNumbers), math.NaN())
	for i := range unnamed.Arms {
		for j := range unnamed.Arms[i].Endpoints {
			unnamed.Arms[i].Endpoints[j].Demand = ""
		}
	}
	return map[string]*report.Experiment{
		"empty": {}, "one arm": oneArm, "no rounds": noRounds, "arm without data": lame,
		"not numbers": notNumbers, "no demands": unnamed,
	}
}

// checkText compares what is to be read with the experiment.
func checkText(tab *browsertest.Tab, e *report.Experiment) {
	tab.Helper()
	if got := browsertest.Evaluate[string](tab, `document.querySelector('h1').textContent.replaceAll('\u00a0', ' ')`); got != e.Verdict() {
		tab.Errorf("headline %q, want %q", got, e.Verdict())
	}
	var want [][]string
	if len(e.Arms) > 0 {
		want = texts(e.Figures())
	}
	if len(e.Arms) > 1 {
		want = append(want, texts(e.RatioRows())...)
	}
	got := browsertest.Evaluate[[][]string](tab, `[...document.querySelectorAll('.figures tbody tr:not(.caption)')].map(
		row => [...row.cells].map(cell => cell.textContent))`)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		tab.Errorf("the comparison (-want +got):\n%s", diff)
	}
	before, after := e.Compared()
	if after == nil {
		return
	}
	endpoints := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('details[open] .endpoints tbody tr')].map(
		row => [...row.cells].map(cell => cell.textContent).join(' | '))`)
	rows := report.EndpointRows(before, after)
	if len(endpoints) != len(rows) {
		tab.Errorf("%d endpoints in the table, want %d", len(endpoints), len(rows))
		return
	}
	for i, r := range rows {
		want := fmt.Sprintf("%s | %s | %s → %s | %s → %s | %s → %s | %s | %s", r.Address, r.Demand, r.Requests.Before, r.Requests.After,
			r.CPU.Before, r.CPU.After, r.P99.Before, r.P99.After, r.Weight, r.Why)
		if endpoints[i] != want {
			tab.Errorf("endpoint\n got %s\nwant %s", endpoints[i], want)
		}
	}
}

// texts are the cells of rows as the page has them.
func texts(rows []report.Row) [][]string {
	var all [][]string
	for _, row := range rows {
		line := []string{row.Name}
		if row.Unit != "" && row.Unit != "ratio" {
			line[0] += " " + row.Unit
		}
		for _, cell := range row.Cells {
			text := cell.Value
			if cell.Spread != "" {
				text += " " + cell.Spread
			}
			line = append(line, text)
		}
		all = append(all, line)
	}
	return all
}

// checkCharts compares the charts' series with the experiment.
func checkCharts(tab *browsertest.Tab, e *report.Experiment) {
	tab.Helper()
	checkDrawn(tab)
	got := browsertest.Evaluate[map[string]int](tab, `Object.fromEntries([...charts].map(([name, chart]) => [name, chart.series.length - 1]))`)
	want := map[string]int{"curves": 3, "requests": 3, "cpu": 3, "weights-1": 15, "weights-2": 15}
	if diff := cmp.Diff(want, got); diff != "" {
		tab.Errorf("series per chart (-want +got):\n%s", diff)
	}
	for i, arm := range e.Arms {
		var requests, cores []float64
		for _, endpoint := range arm.Endpoints {
			requests, cores = append(requests, endpoint.Requests), append(cores, endpoint.CPU)
		}
		checkSeries(tab, "requests", i+1, requests)
		checkSeries(tab, "cpu", i+1, cores)
		var latencies []float64
		for _, p := range arm.Percentiles {
			latencies = append(latencies, p.Latency)
		}
		checkSeries(tab, "curves", i+1, latencies)
	}
	last := e.Arms[2]
	for i := range last.Endpoints {
		var shares []float64
		for _, w := range last.Weights {
			shares = append(shares, w.Shares[i])
		}
		// The last decision is drawn for as long as it holds.
		checkSeries(tab, "weights-2", i+1, append(shares, shares[len(shares)-1]))
	}
}

func checkSeries(tab *browsertest.Tab, chart string, series int, want []float64) {
	tab.Helper()
	got := browsertest.Evaluate[[]float64](tab, fmt.Sprintf(`[...charts.get('%s').data[%d]]`, chart, series))
	if diff := cmp.Diff(want, got); diff != "" {
		tab.Errorf("series %d of %s (-want +got):\n%s", series, chart, diff)
	}
}

// checkDrawn wants axes and series on each of the charts.
func checkDrawn(tab *browsertest.Tab) {
	tab.Helper()
	tab.Drawn(".plot canvas", 5, 4)
}

// checkLegend hides and shows what belongs to one entry of a legend.
func checkLegend(tab *browsertest.Tab) {
	tab.Helper()
	shown := func(chart string) int {
		return browsertest.Evaluate[int](tab, fmt.Sprintf(`charts.get('%s').series.slice(1).filter(s => s.show).length`, chart))
	}
	steps := []struct {
		button, chart string
		want          int
	}{
		{`#curves .legend button:nth-child(2)`, "curves", 2},
		{`#curves .legend button:nth-child(2)`, "curves", 3},
		{`#requests .legend button:nth-child(1)`, "requests", 2},
		{`.weights[data-arm="2"] .legend button:nth-child(3)`, "weights-2", 15 - 9},
	}
	for _, step := range steps {
		tab.Click(step.button, 0)
		if got := shown(step.chart); got != step.want {
			tab.Errorf("after a click on %s, %d series are shown, want %d", step.button, got, step.want)
		}
	}
	pressed := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#requests .legend button')].map(b => b.getAttribute('aria-pressed'))`)
	if diff := cmp.Diff([]string{"false", "true", "true"}, pressed); diff != "" {
		tab.Errorf("pressed (-want +got):\n%s", diff)
	}
}

// checkTooltip points at the first endpoint and reads its figures.
func checkTooltip(tab *browsertest.Tab, e *report.Experiment) {
	tab.Helper()
	text := hover(tab, "requests")
	for i, arm := range e.Arms {
		want := arm.Name + report.Number(arm.Endpoints[0].Requests) + " /s"
		if !strings.Contains(text, want) {
			tab.Errorf("the tooltip %q lacks %q of arm %d", text, want, i)
		}
	}
}

// hover points at the left of a chart, and returns what its tooltip says.
func hover(tab *browsertest.Tab, chart string) string {
	tab.Helper()
	return browsertest.Evaluate[string](tab, `(() => {
		const over = document.querySelector('#`+chart+` .u-over'), {left, top} = over.getBoundingClientRect();
		for (const type of ['mouseenter', 'mousemove']) {
			over.dispatchEvent(new MouseEvent(type, {clientX: left + 5, clientY: top + 20, bubbles: true}));
		}
		return new Promise(done => requestAnimationFrame(() => done(over.querySelector('.tip').textContent)));
	})()`)
}
