package page_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/operator/journal"
)

// TestPageInBrowser uses the page as people do. One Chromium serves all of it.
func TestPageInBrowser(t *testing.T) {
	browser := browsertest.Start(t)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser){
		"list": testList, "follows": testFollows, "policy": testPolicy, "chart": testChart, "large": testLarge,
		"unreachable": testUnreachable, "standby": testStandby, "hostile": testHostile, "looks": testLooks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, browser)
		})
	}
}

const (
	rows    = `[...document.querySelectorAll('tbody tr:not([hidden])')]`
	trouble = `(document.querySelector('#trouble:not([hidden])')?.textContent ?? '')`
)

// cells are the texts of the visible rows.
func cells(tab *browsertest.Tab) [][]string {
	tab.Helper()
	return browsertest.Evaluate[[][]string](tab, rows+`.map(row => [...row.cells].map(cell => cell.innerText.trim().replaceAll('\u00a0', ' ')))`)
}

// search presses the key that leads to the filter, and types into it.
func search(tab *browsertest.Tab, text string) {
	tab.Helper()
	tab.Press("/")
	tab.Type(text)
}

// testList finds a policy among many, with the keyboard alone.
func testList(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	f.fleet(1000)
	tab := open(t, browser, serve(t, f.handler), "", 1300, 900, 1)
	tab.Await(rows + `.length === 1000`)
	first := cells(tab)[0]
	if first[3] != "not applied" || !strings.HasPrefix(first[7], "ForeignServiceEntry: ") {
		t.Errorf("the first policy is %q, want one that needs somebody", first)
	}
	if charts := browsertest.Evaluate[int](tab, `document.querySelectorAll('canvas').length`); charts > 0 {
		t.Errorf("the list has %d charts", charts)
	}

	search(tab, "team-24 CART-53")
	want := [][]string{{"team-24/cart-53", "cart-53", "Enforce", "balancing", "39", "LeastLatency", "4 s ago", "the last decision moved weights"}}
	tab.Await(rows + `.length === 1`)
	got := cells(tab)
	got[0][6] = want[0][6] // time goes on
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after the filter (-want +got):\n%s", diff)
	}
	if got := browsertest.Evaluate[string](tab, `document.querySelector('.tools .end').textContent`); got != "1 of 1,000" {
		t.Errorf("the count is %q", got)
	}
	tab.Run(`document.querySelector('tbody tr:not([hidden]) a').focus()`)
	tab.Type("\r")
	tab.Await(`document.querySelector('h1')?.textContent.startsWith('team-24/cart-53')`)
	tab.Navigate(tab.Base() + "#/")
	tab.Await(rows + `.length === 1000`)

	tab.Click(".chip[data-word=refused]", 0)
	for _, row := range cells(tab) {
		if row[3] != "refused" || !strings.HasPrefix(row[7], "Headless: service ") || row[4] != "–" || row[6] != "never" {
			t.Errorf("among the refused there is %q", row)
		}
	}
	tab.Click(".chip[data-word=refused]", 0)
	tab.Click("thead button", 4)
	if got := cells(tab)[0][4]; got != "99" {
		t.Errorf("the largest service has %s endpoints, want 99", got)
	}
	if got := browsertest.Evaluate[string](tab, `document.querySelectorAll('thead th')[4].getAttribute('aria-sort')`); got != "descending" {
		t.Errorf("the column is sorted %q", got)
	}
	tab.Quiet()
}

// testFollows looks on while policies change, appear and go.
func testFollows(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	tab := open(t, browser, serve(t, f.handler), "", 1300, 900, 8)
	tab.Await(`document.querySelector('.empty')?.textContent === 'There is no BalancePolicy here yet.'`)
	f.journal.Record(entry("shop", "cart", 3, 10*time.Second))
	tab.Await(rows + `.length === 1 && document.querySelector('.badge').textContent === 'balancing'`)
	tab.Run(`window.before = document.querySelector('tbody tr'), before.querySelector('a').focus()`)
	held := entry("shop", "cart", 4, 0)
	held.Hold = balance.Hold{Reason: balance.Stale, Message: "no endpoint has a sample younger than 1m30s"}
	f.journal.Record(held)
	f.journal.Record(entry("a", "b", 3, 0))
	tab.Await(rows + `.length === 2 && document.querySelector('tbody tr .badge').textContent === 'held'`)
	if !browsertest.Evaluate[bool](tab, `document.querySelector('tbody tr') === before && document.activeElement === before.querySelector('a')`) {
		t.Error("the row was made anew and has lost the focus")
	}
	f.journal.Forget(held.Policy)
	tab.Await(rows + `.length === 1 && document.querySelector('tbody a').textContent === 'b'`)
	tab.Quiet()
}

func testPolicy(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	e := mixed(12)
	e.Hold = balance.Hold{Reason: balance.LowCoverage, Message: "5 of 12 endpoints have a fresh sample: 8 are needed"}
	f.journal.Record(e)
	tab := open(t, browser, serve(t, f.handler), "#/shop/cart", 1500, 900, 8)
	tab.Await(rows + `.length === 12`)
	if got, want := browsertest.Evaluate[string](tab, `document.querySelector('h1').textContent + ' ' + document.querySelector('.lead').textContent`),
		"shop/cartheld LowCoverage: 5 of 12 endpoints have a fresh sample: 8 are needed"; got != want {
		t.Errorf("headline %q, want %q", got, want)
	}
	got := cells(tab)
	for i, age := range map[int]int{5: 8, 0: 8} { // these go on with time
		got[i][age] = strings.TrimLeft(got[i][age], "0123456789")
	}
	for i, want := range map[int][]string{
		0: {"cart-7d9f6c5b8-00000", "10.8.0.1", "30", "30", "12.5 %", "12.5 %", "30 %", "2.10 ms", " s ago", "Balanced"},
		3: {"cart-7d9f6c5b8-00003", "10.8.0.4", "8", "12", "12.5 %", "8.00 %", "45 %", "2.10 ms", got[3][8], "Warming"},
		5: {"cart-7d9f6c5b8-00005", "10.8.0.6", "11", "11", "4.58 %", "4.58 %", "55 %", "8.80 ms", " min ago", "StaleSample"},
		7: {"cart-7d9f6c5b8-00007", "10.8.0.8", "–", "19", "7.92 %", "–", "–", "–", "never", "Missing"},
	} {
		if diff := cmp.Diff(append(want, e.Endpoints[i].Verdict.Why()), got[i]); diff != "" {
			t.Errorf("endpoint %d (-want +got):\n%s", i, diff)
		}
	}
	if late := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('td.late')].map(c => c.parentNode.cells[0].textContent)`); !cmp.Equal(late, []string{"cart-7d9f6c5b8-00005"}) {
		t.Errorf("marked as too old are %q", late)
	}
	// Samples of now grow too old before our eyes when none follow.
	f.ahead.Store(int64(2 * time.Minute))
	tab.Await(`document.querySelectorAll('td.late').length === 11`)
	tab.Await(`document.querySelector('h1 .badge').textContent === 'overdue'`)
	f.journal.Forget(e.Policy)
	tab.Await(`document.querySelector('.empty:not([hidden])')?.textContent === 'no BalancePolicy shop/cart is known here'`)
	if browsertest.Evaluate[bool](tab, `document.querySelector('table').checkVisibility()`) {
		t.Error("the endpoints of a deleted policy are still shown")
	}
}

func testChart(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	last := mixed(6)
	f.past(last)
	tab := open(t, browser, serve(t, f.handler), "#/shop/cart", 1300, 1000, 8)
	tab.Await(`window.chart`)
	h := f.journal.History(last.Policy)
	check := func(scale func(journal.Point) float64) {
		t.Helper()
		for i, l := range h.Lines {
			var want []any
			for k, w := range l.Weights {
				if w == 0 {
					want = append(want, nil)
				} else {
					want = append(want, float64(w)/scale(h.Points[k]))
				}
			}
			want = append(want, want[len(want)-1])
			if diff := cmp.Diff(want, browsertest.Evaluate[[]any](tab, fmt.Sprintf(`chart.data[%d]`, i+1))); diff != "" {
				t.Errorf("line %d (-want +got):\n%s", i, diff)
			}
		}
	}
	check(func(p journal.Point) float64 { return float64(p.Total) })
	tab.Run(`[...document.querySelectorAll('figure .chip')].find(c => c.textContent === 'weight').click()`)
	check(func(journal.Point) float64 { return 1 })
	checkDrawn(tab)

	tab.Click(".pin", 1)
	if got := browsertest.Evaluate[[]string](tab, `[...document.querySelectorAll('.pin')].map(p => p.getAttribute('aria-pressed'))`); got[1] != "true" || got[0] != "false" {
		t.Errorf("pressed are %q", got)
	}
	tip := browsertest.Evaluate[string](tab, `(() => {
		const over = document.querySelector('.u-over'), {left, top} = over.getBoundingClientRect();
		const y = chart.valToPos(chart.data[1][0], 'y');
		for (const type of ['mouseenter', 'mousemove']) over.dispatchEvent(new MouseEvent(type, {clientX: left + 1, clientY: top + y, bubbles: true}));
		return new Promise(done => requestAnimationFrame(() => done(over.querySelector('.tip').innerText)));
	})()`)
	if !strings.Contains(tip, "recommended") || !strings.Contains(tip, "weight") {
		t.Errorf("the tooltip is %q", tip)
	}

	next := last
	next.At = now.Add(20 * time.Second)
	next.Endpoints = append([]journal.Endpoint{}, last.Endpoints[1:]...)
	f.ahead.Store(int64(25 * time.Second))
	f.journal.Record(next)
	tab.Await(fmt.Sprintf(`chart.data[0].length === %d && chart.data[1].at(-1) === null`, len(h.Points)+2))
	tab.Quiet()
}

// checkDrawn wants the chart's axes and lines.
func checkDrawn(tab *browsertest.Tab) {
	tab.Helper()
	tab.Drawn(".plot canvas", 1, 7)
}

// testLarge has as many endpoints as are remembered.
func testLarge(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	f.past(mixed(journal.HistoryEndpoints))
	tab := open(t, browser, serve(t, f.handler), "#/shop/cart", 1300, 1000, 1)
	tab.Await(rows + `.length === 500 && window.chart?.series.length === 501`)
	search(tab, "missing")
	tab.Await(rows + `.length === 29`)
	tab.Run(rows + `.forEach(r => r.querySelector('.pin').click())`)
	if got := browsertest.Evaluate[int](tab, `document.querySelectorAll('.pin[aria-pressed=true]').length`); got != 8 {
		t.Errorf("%d are marked, want as many as there are colours", got)
	}
	if got := browsertest.Evaluate[int](tab, `new Set([...document.querySelectorAll('.pin[aria-pressed=true]')].map(p => p.style.getPropertyValue('--swatch'))).size`); got != 8 {
		t.Errorf("they have %d colours, want 8", got)
	}
	tab.Quiet()
}

// testUnreachable takes the operator away and gives it back.
func testUnreachable(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	f.journal.Record(entry("shop", "cart", 3, 10*time.Second))
	var mode atomic.Pointer[string]
	up, broken, login, hanging := "up", "broken", "login", "hanging"
	mode.Store(&up)
	released := make(chan struct{})
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch *mode.Load() {
		case up:
			f.handler.ServeHTTP(w, r)
		case broken:
			http.Error(w, "no endpoints available", http.StatusServiceUnavailable)
		case login:
			_, _ = w.Write([]byte("<html>log in</html>"))
		case hanging:
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(func() { close(released) })
	tab := open(t, browser, server, "", 1300, 900, 8)
	tab.Await(`document.querySelector('#pulse').dataset.level === 'good'`)
	for how, says := range map[*string]string{
		&broken: "it answers 503 Service Unavailable", &login: "what answers is not the operator", &hanging: "no answer within 4 s",
	} {
		mode.Store(how)
		tab.Await(trouble + `.includes('No news from the operator: ` + says + `. What you see is from 03:04:05')`)
		if !browsertest.Evaluate[bool](tab, `document.querySelector('main').matches('.old') && document.title.startsWith('⚠') && document.querySelector('#pulse').dataset.level === 'bad'`) {
			t.Errorf("%s: what is old looks like news", *how)
		}
		mode.Store(&up)
		tab.Await(trouble + ` === '' && !document.querySelector('main.old') && !document.title.startsWith('⚠')`)
	}
	server.CloseClientConnections()
	server.Close()
	tab.Await(trouble + `.includes('No news from the operator: no connection. What you see is from')`)
}

// testStandby meets replicas that do not lead: alone, and in turn with the leader.
func testStandby(t *testing.T, browser *browsertest.Browser) {
	f, other := newFixture(), newFixture()
	f.leading.Store(false)
	other.journal.Record(entry("shop", "cart", 3, 10*time.Second))
	var turn atomic.Int64
	turns := func(n int64) http.Handler { // every n-th API answer is the leader's
		if turn.Add(1); n > 0 && turn.Load()%n == 0 {
			return other.handler
		}
		return f.handler
	}
	var every atomic.Int64
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := f.handler
		if strings.HasPrefix(r.URL.Path, "/api/") {
			h = turns(every.Load())
		}
		h.ServeHTTP(w, r)
	}))
	tab := open(t, browser, server, "", 1300, 900, 8)
	tab.Await(trouble + `.startsWith('This replica stands by')`)
	if text := browsertest.Evaluate[string](tab, trouble); !strings.Contains(text, "kubectl -n taper-system get lease taper-operator") {
		t.Errorf("it does not tell how to find the leader: %q", text)
	}
	every.Store(2)
	tab.Await(rows + `.length === 1 && ` + trouble + ` === ''`)
	tab.Run(`window.least = 1, new MutationObserver(() => { least = Math.min(least, ` + rows + `.length) }).observe(document.querySelector('tbody'), {childList: true})`)
	seen := turn.Load()
	tab.Await(`document.querySelector('#pulse').textContent.includes('which stands by')`)
	tab.Await(`document.querySelector('#pulse').dataset.level === 'good'`)
	if browsertest.Evaluate[int](tab, `least`) != 1 {
		t.Errorf("the leader's policy went away while replicas answered in turn (%d answers)", turn.Load()-seen)
	}
	every.Store(0)
	tab.Await(trouble + `.includes('answers, which stands by. What you see is from')`)
	tab.Quiet()
}

const hostile = `</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>` + "\u2028'\"`${1}<!--"

// testHostile has markup where names are expected.
func testHostile(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	e := entry("shop", "cart", 2, 0)
	e.Policy = types.NamespacedName{Namespace: "shop", Name: hostile}
	e.Service, e.Strategy, e.Hold = hostile, hostile, balance.Hold{Reason: hostile, Message: hostile}
	e.Conditions = map[string]journal.Condition{hostile: {Status: hostile, Reason: hostile, Message: hostile}}
	for i := range e.Endpoints {
		e.Endpoints[i].Pod += hostile
		e.Endpoints[i].Verdict.Address += hostile
		e.Endpoints[i].Verdict.Reason = hostile
	}
	f.journal.Record(e)
	tab := open(t, browser, serve(t, f.handler), "", 400, 800, 8)
	tab.Await(rows + `.length === 1`)
	tab.Fits()
	if got := browsertest.Evaluate[string](tab, `document.querySelector('tbody a').textContent`); got != hostile {
		t.Errorf("the name is shown as %q", got)
	}
	tab.Click("tbody a", 0)
	tab.Await(`document.querySelectorAll('.endpoints tbody tr').length === 2`)
	tab.Fits()
	if got := browsertest.Evaluate[string](tab, `document.querySelector('tbody .pin').textContent`); got != e.Endpoints[0].Pod {
		t.Errorf("the pod is shown as %q", got)
	}
	if browsertest.Evaluate[bool](tab, `!!window.pwned || document.images.length > 0 || document.scripts.length !== 2`) {
		t.Error("a name became markup")
	}
	tab.Confined()
}

func testLooks(t *testing.T, browser *browsertest.Browser) {
	f := newFixture()
	f.past(mixed(6))
	tab := open(t, browser, serve(t, f.handler), "#/shop/cart", 1300, 900, 8)
	tab.Await(`window.chart`)
	tab.Darken()
	checkDrawn(tab)
	tab.Resize(400, 800)
	tab.Await(`document.documentElement.scrollWidth <= innerWidth && chart.width < 400`)
	checkDrawn(tab)
	tab.Quiet()
}
