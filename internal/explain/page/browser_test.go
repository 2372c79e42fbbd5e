package page_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab is a page in a headless Chromium, and what it complained of.
type tab struct {
	*testing.T
	ctx context.Context

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

// open shows the page of v in a new tab of the given size.
func open(t *testing.T, browser context.Context, v any, width, height int64) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, draw(t, v), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	tab := &tab{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		t.Fatal(err)
	}
	tab.do(chromedp.EmulateViewport(width, height))
	tab.do(chromedp.Navigate("file://" + path))
	return tab
}

// listen notes what no page of ours may do.
func (tab *tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.URL)
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

// quiet fails the test if the page complained or asked the network for anything.
func (tab *tab) quiet() {
	tab.Helper()
	// One more frame, so that what the page did last is heard of.
	evaluate[bool](tab, `new Promise(done => requestAnimationFrame(() => setTimeout(done, 0, true)))`)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, complaint := range tab.complains {
		tab.Errorf("the page complains: %s", complaint)
	}
	if len(tab.requests) != 1 {
		tab.Errorf("requests %q, want the page alone", tab.requests)
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
