package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab is a page in a headless Chromium, and what it complained of.
type tab struct {
	*testing.T
	ctx  context.Context
	base string // where the page is served

	mu        sync.Mutex
	requests  []string
	complains []string
}

// newBrowser starts a Chromium with an empty profile, which ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatalf("chromium is required: %v", err)
		}
		t.Skip("install chromium to test the page in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("ending chromium: %v", err)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	return ctx
}

// prefix is where the API server's proxy has a service.
const prefix = "/api/v1/namespaces/taper-system/services/taper-operator:metrics/proxy"

// serve mounts the handler behind a prefix, as a proxy does.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(prefix, h))
	t.Cleanup(server.Close)
	return server
}

// inject has the page's time go faster, so that tests need not wait, and keeps the
// chart that it made last for the test to look into.
const inject = `
const speed = %d, real = performance.now.bind(performance), wait = setTimeout, every = setInterval;
performance.now = () => real() * speed;
const abort = AbortSignal.timeout;
AbortSignal.timeout = ms => abort.call(AbortSignal, ms / 4);
window.setTimeout = (f, ms, ...more) => wait(f, ms / speed, ...more);
window.setInterval = (f, ms, ...more) => every(f, ms / speed, ...more);
let library;
Object.defineProperty(window, 'uPlot', {
  get: () => library,
  set: value => { library = new Proxy(value, {construct: (target, [options, data, root]) => window.chart = new target(options, data, root)}); },
});`

// open shows the page at a fragment in a new tab of the given size, in which time goes
// faster than ours.
func open(t *testing.T, browser context.Context, server *httptest.Server, fragment string, width, height int64, speed int) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	tab := &tab{T: t, ctx: ctx, base: server.URL + prefix + "/"}
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		t.Fatal(err)
	}
	tab.do(chromedp.EmulateViewport(width, height))
	script := fmt.Sprintf(inject, speed)
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		t.Fatal(err)
	}
	tab.do(chromedp.Navigate(tab.base + fragment))
	return tab
}

// listen notes what no page of ours may do.
func (tab *tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.Method+" "+e.Request.URL)
	case *runtime.EventExceptionThrown:
		tab.complains = append(tab.complains, fmt.Sprintf("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description))
	case *runtime.EventConsoleAPICalled:
		tab.complains = append(tab.complains, fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded:
		tab.complains = append(tab.complains, e.Entry.Text)
	}
}

func (tab *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tab.Helper()
	if err := chromedp.Do(tab.ctx, steps...); err != nil {
		tab.Fatal(err)
	}
}

// quiet fails the test if the page complained, or asked anybody but the operator,
// or asked for more than to read.
func (tab *tab) quiet() {
	tab.Helper()
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, complaint := range tab.complains {
		tab.Errorf("the page complains: %s", complaint)
	}
	for _, r := range tab.requests {
		if !strings.HasPrefix(r, "GET "+tab.base) {
			tab.Errorf("the page asked %s, want only what is below %s", r, tab.base)
		}
	}
}

func evaluate[V any](tab *tab, script string) V {
	tab.Helper()
	v, err := chromedp.Run(tab.ctx, chromedp.Evaluate[V](script, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.Fatalf("evaluating %s: %v", script, err)
	}
	return v
}

// await waits until a condition of the page is true.
func (tab *tab) await(condition string) {
	tab.Helper()
	met := evaluate[bool](tab, fmt.Sprintf(`new Promise(done => {
		const end = Date.now() + 20000;
		const look = () => { const met = !!(%s); met || Date.now() > end ? done(met) : setTimeout(look, 20); };
		look();
	})`, condition))
	if !met {
		tab.Fatalf("this did not come true: %s; the page says:\n%.1500s", condition, evaluate[string](tab, `document.body.innerText`))
	}
}
