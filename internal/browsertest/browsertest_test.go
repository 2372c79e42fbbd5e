package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// verdict is a test that may fail without failing this one.
type verdict struct {
	testing.TB
	mu     sync.Mutex
	said   []string
	failed bool
	logged string
}

func (v *verdict) Failed() bool { return v.failed }

func (v *verdict) Logf(format string, args ...any) { v.logged = fmt.Sprintf(format, args...) }

func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

func (v *verdict) Error(args ...any) { v.Errorf("%s", fmt.Sprint(args...)) }

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

// judge has a test's verdict on a page.
func judge(t *testing.T, b *Browser, html string, test func(*Tab)) string {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tab := b.File(v, []byte("<!DOCTYPE html><html lang=en><meta charset=utf-8><title>page</title>"+html), View{Width: 400, Height: 300})
		tab.within = 300 * time.Millisecond
		test(tab)
	}()
	<-done
	return strings.Join(v.said, "\n")
}

const (
	curve = `<canvas class=ink width=50 height=50></canvas><script>
		const ink = document.querySelector('.ink').getContext('2d');
		['red', 'green', 'blue'].forEach((colour, i) => { ink.fillStyle = colour; ink.fillRect(10 * i, 0, 10, 50); });
	</script>`
	forbids = `<meta http-equiv=Content-Security-Policy content="default-src 'none'">`
	follows = `<style>body { background: white } @media (prefers-color-scheme: dark) { body { background: black } }</style><body>`
)

// TestInBrowser is one test so that one Chromium serves all of it.
func TestInBrowser(t *testing.T) {
	browser := Start(t)
	t.Run("served", func(t *testing.T) { t.Parallel(); testServed(t, browser) })
	t.Run("picture", func(t *testing.T) { t.Parallel(); testPicture(t, browser) })
	testVerdicts(t, browser)
}

// testVerdicts has every check pass on a page that is sound, and fail on one that is not.
func testVerdicts(t *testing.T, browser *Browser) {
	fits := func(tab *Tab) { tab.Fits() }
	quiet := func(tab *Tab) { tab.Quiet() }
	for name, tt := range map[string]struct {
		html string
		test func(*Tab)
		want string // part of the verdict; sound when empty
	}{
		"quiet":              {`<p>text`, quiet, ""},
		"exception":          {`<script>missing()</script>`, quiet, "missing is not defined"},
		"console":            {`<script>console.log(1)</script>`, quiet, "the page complains: console.log"},
		"policy broken":      {forbids + `<script>1</script>`, quiet, "Content Security Policy"},
		"asks":               {`<img src="other.png">`, quiet, "want the page alone"},
		"asks late":          {`<script>addEventListener('load', () => setTimeout(() => fetch('other').catch(() => {})))</script>`, quiet, "want the page alone"},
		"fits":               {`<div style="overflow-x: auto"><div style="width: 900px">wide</div></div>`, fits, ""},
		"too wide":           {`<div style="width: 900px">wide</div>`, fits, "in a window of 400"},
		"sticks out":         {`<div style="overflow: hidden"><h1 style="width: 900px">wide</h1></div>`, fits, "these stick out"},
		"drawn":              {curve, func(tab *Tab) { tab.Drawn(".ink", 1, 3) }, ""},
		"too few colours":    {curve, func(tab *Tab) { tab.Drawn(".ink", 1, 4) }, "have [3] colours; want 1 canvases of at least 4"},
		"no canvas":          {`<p>text`, func(tab *Tab) { tab.Drawn(".ink", 1, 1) }, "have [] colours"},
		"empty canvas":       {`<canvas class=ink width=0></canvas>`, func(tab *Tab) { tab.Drawn(".ink", 1, 1) }, "have [0] colours"},
		"confined":           {forbids, func(tab *Tab) { tab.Confined() }, ""},
		"not confined":       {`<p>text`, func(tab *Tab) { tab.Confined() }, "stopped by nothing"},
		"dark":               {follows, func(tab *Tab) { tab.Darken() }, ""},
		"light for ever":     {`<body style="background: white">`, func(tab *Tab) { tab.Darken() }, "rgb(255, 255, 255), light and dark"},
		"clicked":            {`<button></button><button onclick="clicked = 2"></button>`, func(tab *Tab) { tab.Click("button", 1); tab.Await(`window.clicked === 2`) }, ""},
		"nothing to click":   {`<button></button>`, func(tab *Tab) { tab.Click("button", 1) }, "clicking element 1 of button: there are 1"},
		"awaited in vain":    {`<p>what it says</p>`, func(tab *Tab) { tab.Await(`false`) }, "the page says:\nwhat it says"},
		"no such expression": {`<p>text`, func(tab *Tab) { tab.Run(`missing()`) }, "missing is not defined"},
		"typed": {`<input autofocus><script>addEventListener('keydown', e => { if (e.key === '/') document.querySelector('input').focus(); })</script>`,
			func(tab *Tab) {
				tab.Press("/")
				tab.Type("tail")
				tab.Await(`document.querySelector('input').value.endsWith('tail')`)
			}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(t, browser, tt.html, tt.test)
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the verdict is %q, want %q", got, tt.want)
			}
		})
	}
}

// testServed lets a page read what is beside it and nothing else.
func testServed(t *testing.T, browser *Browser) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><link rel=icon href="data:,"><p>page</p>`)
	}))
	t.Cleanup(server.Close)
	for request, want := range map[string]string{
		`fetch('data')`:                     "",
		`fetch('/elsewhere')`:               "want only what is below",
		`fetch('data', {method: 'DELETE'})`: "the page asked DELETE ",
	} {
		v := &verdict{TB: t}
		tab := browser.URL(v, server.URL+"/folder/#/part", View{Width: 400, Height: 300})
		if want := server.URL + "/folder/"; tab.Base() != want {
			t.Errorf("the page may ask below %s, want %s", tab.Base(), want)
		}
		Evaluate[bool](tab, request+`.then(() => true)`)
		tab.Quiet()
		if got := strings.Join(v.said, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("after %s the verdict is %q, want %q", request, got, want)
		}
	}
}

func testPicture(t *testing.T, browser *Browser) {
	v := &verdict{TB: t}
	tab := browser.File(v, []byte(`<p>page`), View{Width: 400, Height: 300, Script: `window.before = 1`})
	if got := Evaluate[int](tab, `window.before`); got != 1 {
		t.Errorf("the view's script has set %d, want 1", got)
	}
	if tab.picture(); v.logged != "" {
		t.Errorf("a test that has not failed logs %q", v.logged)
	}
	v.failed = true
	tab.picture()
	v.failed = false
	name, found := strings.CutPrefix(v.logged, "the page looked like ")
	if !found {
		t.Fatalf("a failed test logs %q", v.logged)
	}
	defer os.Remove(name)
	if content, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(content), "\x89PNG") {
		t.Errorf("no picture: %.8q, %v", content, err)
	}
}
