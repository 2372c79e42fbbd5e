package page_test

import (
	"os"
	"strings"
	"testing"

	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/probe"
)

// TestInBrowser opens the pages as people do. One Chromium serves all of it. With
// TAPER_TEST_PICTURES set to a folder, it leaves pictures there, to be looked at.
func TestInBrowser(t *testing.T) {
	browser := browsertest.Start(t)
	open := func(t *testing.T, v any, width, height int64) *browsertest.Tab {
		t.Helper()
		return browser.File(t, draw(t, v), browsertest.View{Width: width, Height: height})
	}
	for name, v := range samples(t) {
		t.Run(name, func(t *testing.T) {
			tab := open(t, v, 400, 800)
			tab.Fits()
			tab.Resize(1300, 1900)
			tab.Frame()
			tab.Fits()
			keep(tab, name)
			tab.Darken()
			tab.Frame()
			keep(tab, name+"-dark")
			tab.Quiet()
			if name == "single" || name == "matrix" {
				tab.Confined()
			}
		})
	}
	t.Run("charts of a test", func(t *testing.T) {
		tab := open(t, read[probe.Result](t, "compared"), 1300, 1200)
		tab.Drawn("#curves canvas", 1, 5)
		tab.Drawn("#bins canvas", 1, 5)
		if got := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#bins option')].map(o => o.text)`); strings.Join(got, ",") != "tcp_bw out,udp_bw out" {
			t.Errorf("bandwidth over time is offered for %q", got)
		}
		tab.Run(`(s => { s.value = 1; s.dispatchEvent(new Event('change')); })(document.querySelector('#bins select'))`)
		tab.Drawn("#bins canvas", 1, 5)
		tab.Click("#curves .legend button", 1)
		if got := browsertest.Evaluate[string](tab, `document.querySelectorAll('#curves .legend button')[1].ariaPressed`); got != "false" {
			t.Errorf("a line that was hidden is pressed: %s", got)
		}
		tab.Quiet()
	})
	t.Run("each trial is a dot", func(t *testing.T) {
		r := read[probe.Result](t, "compared")
		tab := open(t, r, 1300, 1200)
		want := 0
		for _, p := range []*probe.Result{r, &r.Others[0]} {
			for _, test := range p.Tests {
				want += len(test.Trials)
			}
		}
		if got := browsertest.Evaluate[int](tab, `document.querySelectorAll('.strip circle').length`); got != want {
			t.Errorf("there are %d dots of %d trials", got, want)
		}
		if heads := browsertest.Evaluate[string](tab, `[...document.querySelectorAll('.figures thead th')].map(e => e.innerText.trim()).join('|')`); !strings.HasPrefix(heads, "test|path|median|95 %|of the first|95 %|verdict|trials|lost") {
			t.Errorf("the columns are %s", heads)
		}
		outside := browsertest.Evaluate[int](tab, `[...document.querySelectorAll('.strip circle')].filter(c => !(c.cx.baseVal.value >= 0 && c.cx.baseVal.value <= 300)).length`)
		if outside > 0 {
			t.Errorf("%d dots are outside", outside)
		}
	})
	t.Run("charts of a page load", func(t *testing.T) {
		tab := open(t, read[probe.PageLoad](t, "pageload"), 1300, 1200)
		tab.Drawn("#throughput canvas", 1, 5)
		tab.Drawn("#loading canvas", 1, 5)
		tab.Drawn("#over canvas", 1, 4)
		if got := browsertest.Evaluate[string](tab, `document.querySelector('#over .legend').innerText.replace(/\s+/g, ' ')`); !strings.Contains(got, "node-b node-a all") {
			t.Errorf("who served is told as %q", got)
		}
		tab.Quiet()
	})
	t.Run("hours of trials", func(t *testing.T) {
		r := read[probe.Result](t, "compared")
		r.Tests[0].Bins = make([]int64, 300_000)
		for i := range r.Tests[0].Bins {
			r.Tests[0].Bins[i] = 100e6 + int64(i%7)*1e6
		}
		tab := open(t, r, 1300, 1200)
		tab.Drawn("#bins canvas", 1, 4)
		tab.Quiet()
	})
	t.Run("map", func(t *testing.T) { checkMap(open(t, read[probe.Matrix](t, "matrix"), 1300, 1200)) })
	t.Run("large map", func(t *testing.T) { checkLargeMap(open(t, large(200), 1300, 1200)) })
}

// keep leaves a picture, if somebody wants to look.
func keep(tab *browsertest.Tab, name string) {
	folder := os.Getenv("TAPER_TEST_PICTURES")
	if folder == "" {
		return
	}
	file, err := tab.Screenshot()
	if err == nil {
		err = os.Rename(file, folder+"/"+name+".png")
	}
	if err != nil {
		tab.Error(err)
	}
}

const told = `document.getElementById('told').textContent`

// at is the colour of the map at a place of so many, counted from its corner.
const at = `((row, column, n) => {
	const map = document.getElementById('map'), left = (map.clientWidth - 120) / n >= 11 ? 120 : 0, cell = (map.clientWidth - left) / n;
	const x = left + (column + .5) * cell, y = 1 + (row + .5) * cell, ratio = map.width / map.clientWidth;
	// Read through a copy, the map stays as fast as it was.
	const copy = new OffscreenCanvas(map.width, map.height).getContext('2d', {willReadFrequently: true});
	copy.drawImage(map, 0, 0);
	return [...copy.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data.slice(0, 3)];
})`

// point moves the pointer to a place.
const point = `((row, column, n) => {
	const map = document.getElementById('map'), box = map.getBoundingClientRect(), left = (map.clientWidth - 120) / n >= 11 ? 120 : 0, cell = (map.clientWidth - left) / n;
	map.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + left + (column + .5) * cell, clientY: box.top + 1 + (row + .5) * cell}));
	return ` + told + `;
})`

func checkMap(tab *browsertest.Tab) {
	tab.Helper()
	tab.Drawn("#map", 1, 8)
	// Worst first: node-7 receives little, so it is the first column.
	if got := browsertest.Evaluate[string](tab, point+`(1, 0, 12)`); !strings.Contains(got, "node-1 (zone-a) → node-7 (zone-a): 3.72 Gbit/s, 39.9 % of the median. node-7 receives at 40 % of the median, on the host path.") {
		tab.Errorf("pointing at the worst column tells %q", got)
	}
	if got := browsertest.Evaluate[string](tab, point+`(11, 4, 12)`); !strings.Contains(got, "node-2 (zone-b) → node-6 (zone-c): the peer is gone.") {
		tab.Errorf("pointing at a pair that failed tells %q", got)
	}
	if got := browsertest.Evaluate[string](tab, point+`(2, 2, 12)`); !strings.Contains(got, ": itself.") {
		tab.Errorf("pointing at the diagonal tells %q", got)
	}
	red := browsertest.Evaluate[[]int](tab, at+`(5, 0, 12)`)
	pale := browsertest.Evaluate[[]int](tab, at+`(5, 1, 12)`)
	if red[0]-red[1] < 100 || pale[0]-pale[1] > 60 {
		tab.Errorf("40 %% of the median is %v, all of it %v", red, pale)
	}
	// By keyboard alone.
	tab.Run(`document.getElementById('map').focus()`)
	for _, key := range []string{"Home", "ArrowDown", "ArrowDown", "ArrowRight"} {
		tab.Run(`document.getElementById('map').dispatchEvent(new KeyboardEvent('keydown', {key: '` + key + `', bubbles: true, cancelable: true}))`)
	}
	if got := browsertest.Evaluate[string](tab, told); !strings.HasPrefix(got, "node-4 (zone-a) → node-1 (zone-a): ") {
		tab.Errorf("from the corner two down and one to the right is %q", got)
	}
	for _, choice := range []struct{ id, value, want string }{
		{"path", "pod", "Gbit/s"}, {"metric", "latency", "µs"},
	} {
		tab.Run(`(s => { s.value = '` + choice.value + `'; s.dispatchEvent(new Event('change')); })(document.getElementById('` + choice.id + `'))`)
		if got := browsertest.Evaluate[string](tab, point+`(2, 1, 12)`); !strings.Contains(got, choice.want) {
			tab.Errorf("with %s %s a pair is told as %q", choice.id, choice.value, got)
		}
	}
	tab.Run(`document.getElementById('find').focus()`)
	before := browsertest.Evaluate[string](tab, `document.getElementById('map').toDataURL()`)
	tab.Type("zone-b")
	if browsertest.Evaluate[string](tab, `document.getElementById('map').toDataURL()`) == before {
		tab.Error("finding a block shows nothing")
	}
	tab.Quiet()
}

// The page of 200 agents is there at once, and follows the keys.
func checkLargeMap(tab *browsertest.Tab) {
	tab.Helper()
	tab.Drawn("#map", 1, 8)
	if rows := browsertest.Evaluate[int](tab, `document.querySelectorAll('section[aria-labelledby=agents] tbody tr').length`); rows != 200 {
		tab.Errorf("the table has %d agents", rows)
	}
	tab.Run(`document.getElementById('map').focus()`)
	took := browsertest.Evaluate[float64](tab, `(() => {
		const map = document.getElementById('map'), began = performance.now();
		for (let i = 0; i < 20; i++) map.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true, cancelable: true}));
		return (performance.now() - began) / 20;
	})()`)
	const frames = 100.0 // milliseconds: six frames, on a busy machine
	if took > frames {
		tab.Errorf("a step takes %.0f ms", took)
	}
	if scripts := browsertest.Evaluate[bool](tab, `typeof uPlot === 'undefined'`); !scripts {
		tab.Error("a page without charts carries the chart library")
	}
	tab.Quiet()
}
