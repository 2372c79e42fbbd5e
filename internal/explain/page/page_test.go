package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/explain/page"
)

func read(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func article(t testing.TB) *explain.Explanation {
	t.Helper()
	var e explain.Explanation
	read(t, "article", &e)
	return &e
}

func difference(t testing.TB) *explain.Difference {
	t.Helper()
	var d explain.Difference
	read(t, "difference", &d)
	return &d
}

func write(w io.Writer, v any) error {
	if d, ok := v.(*explain.Difference); ok {
		return page.Difference(w, d)
	}
	return page.Explanation(w, v.(*explain.Explanation))
}

func draw(t testing.TB, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// many is a thousand requests.
func many(t *testing.T) *explain.Explanation {
	e := article(t)
	for i := 0; len(e.Requests) < 1000; i++ {
		r := e.Requests[i]
		r.ID = uint64(len(e.Requests) + 1)
		e.Requests = append(e.Requests, r)
	}
	return e
}

// open shows the page of v in a window of the given size.
func open(t *testing.T, browser *browsertest.Browser, v any, width, height int64) *browsertest.Tab {
	t.Helper()
	return browser.File(t, draw(t, v), browsertest.View{Width: width, Height: height})
}

// TestPageInBrowser opens the pages as people do. One Chromium serves all of it.
func TestPageInBrowser(t *testing.T) {
	browser := browsertest.Start(t)

	t.Run("wide", func(t *testing.T) {
		tab := open(t, browser, article(t), 1400, 900)
		checkText(tab, article(t))
		checkRequests(tab, article(t))
		checkWaterfall(tab)
		checkFilter(tab)
		checkCurves(tab)
		checkKeyboard(tab)
		tab.Quiet()
	})
	t.Run("narrow", func(t *testing.T) {
		for _, v := range []any{article(t), difference(t)} {
			tab := open(t, browser, v, 400, 800)
			tab.Fits()
			tab.Quiet()
		}
	})
	t.Run("dark", func(t *testing.T) {
		tab := open(t, browser, article(t), 1000, 800)
		tab.Darken()
		tab.Quiet()
	})
	t.Run("thousand", func(t *testing.T) {
		tab := open(t, browser, many(t), 1200, 900)
		if took := browsertest.Evaluate[float64](tab, `performance.getEntriesByType('navigation')[0].domComplete`); took > 4000 {
			t.Errorf("it took %.0f ms to show", took)
		}
		if shown := browsertest.Evaluate[string](tab, `document.getElementById('shown').textContent`); shown != "100 of 1000 shown" {
			t.Errorf("it says %q", shown)
		}
		tab.Click("#more", 0)
		if n := browsertest.Evaluate[int](tab, `document.querySelectorAll('#list > details').length`); n != 200 {
			t.Errorf("%d requests after asking for more, want 200", n)
		}
		tab.Quiet()
	})
	t.Run("several files", func(t *testing.T) {
		// Packets are counted through all files, and shown as each file counts them.
		e := article(t)
		e.Capture.Files = []explain.File{{Name: "a.pcap", FirstPacket: 1, Packets: 334}, {Name: "b.pcap", FirstPacket: 335, Packets: 500}}
		tab := open(t, browser, e, 1000, 800)
		got := browsertest.Evaluate[string](tab, `document.querySelector('.evidence').textContent.replaceAll(/\s+/g, ' ')`)
		if want := "a.pcap: frame.number in {333} b.pcap: frame.number in {1, 3, 4}"; !strings.Contains(got, want) {
			t.Errorf("evidence %q, want %q", got, want)
		}
		tab.Quiet()
	})
	t.Run("policy", func(t *testing.T) {
		tab := open(t, browser, article(t), 1000, 800)
		tab.Confined()
	})
	t.Run("hostile", func(t *testing.T) {
		e := article(t)
		vandalise(e)
		tab := open(t, browser, e, 400, 800)
		tab.Fits()
		tab.Run(`document.querySelectorAll('#list > details').forEach(d => d.open = true)`)
		if browsertest.Evaluate[bool](tab, `Boolean(window.owned) || document.querySelector('main b.evil') !== null`) {
			t.Error("names became markup")
		}
		tab.Fits()
		tab.Quiet()
	})
	for name, v := range map[string]any{
		"empty": &explain.Explanation{}, "no routes differ": &explain.Difference{A: "a", B: "b"}, "difference": difference(t),
		"one instant": &explain.Explanation{
			Routes:   []explain.Route{{Method: "GET", Route: "/", Count: 1, Percentiles: []explain.Percentile{{Quantile: .5}}}},
			Requests: []explain.Request{{Method: "GET", Route: "/", Target: "/", Parts: []explain.Part{}, Calls: []explain.Call{}, Slices: []explain.Slice{}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, browser, v, 1000, 800)
			if text := browsertest.Evaluate[string](tab, `document.body.innerText`); strings.Contains(text, "NaN") || strings.Contains(text, "undefined") || strings.Contains(text, "null") {
				t.Errorf("the page shows what is no text:\n%s", text)
			}
			tab.Quiet()
		})
	}
}

const evil = `<b class=evil>x</b><script>window.owned = 1</script>"'--></script>`

func vandalise(e *explain.Explanation) {
	e.Capture.Files[0].Name = strings.Repeat(evil, 5)
	for i := range e.Routes {
		e.Routes[i].Route = evil
		for j := range e.Routes[i].Parts {
			e.Routes[i].Parts[j].Peer = strings.Repeat("long", 60) + evil
			e.Routes[i].Parts[j].Target = evil
		}
	}
	for i := range e.Findings {
		e.Findings[i].Title, e.Findings[i].Fix, e.Findings[i].Reference = evil, strings.Repeat("long", 60), "javascript:"+evil
	}
	for i := range e.Requests {
		r := &e.Requests[i]
		r.Target, r.Route = strings.Repeat("long", 60)+evil, evil
		for j := range r.Calls {
			r.Calls[j].Peer, r.Calls[j].Target, r.Calls[j].Cause = evil, strings.Repeat("long", 60), "odd"
		}
	}
}

func checkText(tab *browsertest.Tab, e *explain.Explanation) {
	tab.Helper()
	if got := browsertest.Evaluate[string](tab, `document.querySelector('h1').textContent.replaceAll('\u00a0', ' ')`); got != e.Answer().Headline {
		tab.Errorf("headline %q, want %q", got, e.Answer().Headline)
	}
	got := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('.routes tbody tr')].map(r => [...r.cells].slice(0, 7).map(c => c.textContent).join(' | '))`)
	want := []string{"GET /v1/{id} | 40 | 0 | 106 | 107 | 108 | 106", "GET /v1/search | 1 | 0 | 209 | 209 | 209 | 209", "GET /health | 3 | 0 | 0.20 | 0.20 | 0.20 | 0.20"}
	if diff := cmp.Diff(want, got); diff != "" {
		tab.Errorf("routes (-want +got):\n%s", diff)
	}
	bar := browsertest.Evaluate[[]string](tab, `[...document.querySelector('.routes .bar svg').children].map(r => r.getAttribute('class') + ' ' + Math.round(r.getAttribute('x')) + ' ' + Math.round(r.getAttribute('width')))`)
	if diff := cmp.Diff([]string{"fill-dns 0 4", "fill-metadata 4 814", "fill-call 817 173", "fill-client-network 990 0", "fill-self 991 9"}, bar); diff != "" {
		tab.Errorf("bar of the first route (-want +got):\n%s", diff)
	}
}

func checkRequests(tab *browsertest.Tab, e *explain.Explanation) {
	tab.Helper()
	got := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#list .what')].map(w => w.textContent)`)
	if len(got) != len(e.Requests) || got[0] != "GET /v1/search" {
		tab.Errorf("%d requests, the first %q", len(got), got[0])
	}
	tab.Run(`(o => { o.value = 'time'; o.dispatchEvent(new Event('change')); })(document.getElementById('order'))`)
	if first := browsertest.Evaluate[string](tab, `document.querySelector('#list .what').textContent`); first != "GET /v1/42" {
		tab.Errorf("as they came, the first is %q", first)
	}
}

// checkWaterfall looks into the first request's: its lanes, where their bars are, and
// what a bar tells and copies.
func checkWaterfall(tab *browsertest.Tab) {
	tab.Helper()
	tab.Frame() // toggle is told later
	lanes := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#list details[open] .lane')].map(l => l.querySelector('.chip').textContent + ' ' + l.querySelector('.name').textContent + ' ' + l.lastChild.textContent)`)
	want := []string{
		"13 dns elasticsearch.internal A 2.00", " client-network 0.04", "11 metadata GET /latest/meta-data/iam/security-credentials/ 41.0",
		"11 metadata GET /latest/meta-data/iam/security-credentials/shop-role 45.0", "12 elasticsearch.internal:9200 POST /products/_search 18.0", " self 0.93",
	}
	if diff := cmp.Diff(want, lanes); diff != "" {
		tab.Errorf("lanes (-want +got):\n%s", diff)
	}
	colours := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#list details[open] .chip')].map(c => getComputedStyle(c).backgroundColor)`)
	if colours[2] != colours[3] || colours[3] == colours[4] {
		tab.Errorf("connections have the colours %q", colours)
	}
	const tracks = `#list details[open] .track button`
	const second = `document.querySelectorAll('` + tracks + `')[2]`
	left := browsertest.Evaluate[float64](tab, `(() => { const b = `+second+`.getBoundingClientRect(), t = `+second+`.parentElement.getBoundingClientRect(); return (b.left - t.left) / t.width; })()`)
	if want := 2.44 / 106.97; left < want-.005 || left > want+.005 {
		tab.Errorf("the first call for credentials begins at %.3f of its line, want %.3f", left, want)
	}
	tab.Click(tracks, 2)
	detail := browsertest.Evaluate[string](tab, `document.querySelector('#list details[open] .detail').textContent`)
	for _, want := range []string{"41.0 ms", "from 2.44 to 43.4 ms", "http status 200", "connection 11", "certain", "frame.number in {336, 337}"} {
		if !strings.Contains(detail, want) {
			tab.Errorf("the detail %q lacks %q", detail, want)
		}
	}
	said := browsertest.Evaluate[string](tab, `new Promise(done => setTimeout(() => done(document.getElementById('said').textContent), 200))`)
	if !strings.HasSuffix(said, "frame.number in {336, 337}") {
		tab.Errorf("after a click it says %q", said)
	}
}

func checkFilter(tab *browsertest.Tab) {
	tab.Helper()
	tab.Click("button.route", 2)
	got := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('#list .what')].map(w => w.textContent)`)
	if diff := cmp.Diff([]string{"GET /health", "GET /health", "GET /health"}, got); diff != "" {
		tab.Errorf("one route's requests (-want +got):\n%s", diff)
	}
	if pressed := browsertest.Evaluate[string](tab, `document.querySelectorAll('button.route')[2].getAttribute('aria-pressed') + document.getElementById('route').value`); pressed != "true2" {
		tab.Errorf("pressed and selected: %q", pressed)
	}
	tab.Click("button.route", 2)
	if n := browsertest.Evaluate[int](tab, `document.querySelectorAll('#list .what').length`); n != 44 {
		tab.Errorf("%d requests of all routes, want 44", n)
	}
}

func checkCurves(tab *browsertest.Tab) {
	tab.Helper()
	tab.Drawn("#curves canvas", 1, 4)
	if names := browsertest.Evaluate[int](tab, `document.querySelectorAll('#curves .names span').length`); names != 3 {
		tab.Errorf("%d curves, want 3", names)
	}
}

// checkKeyboard wants everything that can be clicked to be reachable by keyboard.
func checkKeyboard(tab *browsertest.Tab) {
	tab.Helper()
	unreachable := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('button, summary, select, .scroll')].filter(e => e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80))`)
	if len(unreachable) > 0 {
		tab.Errorf("these cannot be reached: %q", unreachable)
	}
	unnamed := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('.track button, svg[role=img]')].filter(e => !e.getAttribute('aria-label')).map(e => e.outerHTML.slice(0, 80))`)
	if len(unnamed) > 0 {
		tab.Errorf("these have no name: %q", unnamed)
	}
}

func TestPagesAskNobody(t *testing.T) {
	t.Parallel()
	refers := regexp.MustCompile(`(?i)<(?:script|link|img|iframe)[^>]*\s(?:src|href)=`)
	for _, v := range []any{article(t), difference(t)} {
		if found := refers.FindAll(draw(t, v), -1); len(found) > 0 {
			t.Errorf("the page refers to others: %q", found)
		}
	}
}

func TestDifferenceHasItsFigures(t *testing.T) {
	t.Parallel()
	html := string(draw(t, difference(t)))
	for _, want := range []string{"GET /v1/{id} is 86.2\u00a0ms slower in k8s.pcap", "86.1 <small>[86.1, 86.2]</small>", string(attribution.Metadata)} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, v := range []any{article(t), difference(t)} {
		if err := write(failing{full}, v); !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
