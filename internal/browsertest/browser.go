// Package browsertest opens pages in a headless Chromium, for the tests of those pages.
// In comes a page, as bytes or as the URL of who serves it; out go test failures.
//
//	browser := browsertest.Start(t)                               // once for all subtests
//	tab := browser.File(t, html, browsertest.View{Width: 400, Height: 800})
//	tab.Click("button.route", 2)
//	tab.Await(`document.querySelectorAll('.what').length === 3`)
//	tab.Fits()                                                    // nothing sticks out at the side
//	tab.Quiet()                                                   // no error, no request elsewhere
//
// [Evaluate] reads from the page whatever else a test is about. When a test fails, the
// log names a picture of what its tab showed.
package browsertest

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	// lifetime is how long all tests of one browser may take.
	lifetime = 2 * time.Minute
	// patience is how long a page may take to what it is waited for: machines are busy.
	patience = 20 * time.Second
)

// Browser is a running Chromium.
type Browser struct{ ctx context.Context }

// Start starts a Chromium with an empty profile, which ends with the test. The test is
// skipped where there is none, or fails with TAPER_TEST_REQUIRE_ALL set.
func Start(t testing.TB) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
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
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
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
	return &Browser{ctx}
}

// View is how a page is looked at.
type View struct {
	// Width and Height are the window's, in CSS pixels.
	Width, Height int64
	// Script, if any, runs in the page before the page's own scripts.
	Script string
}

// File shows a page from a file, in a new tab. Such a page may ask nobody for anything.
func (b *Browser) File(t testing.TB, html []byte, v View) *Tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, html, 0o600); err != nil {
		t.Fatal(err)
	}
	file := (&url.URL{Scheme: "file", Path: path}).String()
	return b.open(&Tab{TB: t, alone: true, base: file}, file, v)
}

// URL shows a page that is served, in a new tab. Such a page may read what is beside it
// or below.
func (b *Browser) URL(t testing.TB, address string, v View) *Tab {
	t.Helper()
	base, _, _ := strings.Cut(address, "#")
	return b.open(&Tab{TB: t, base: base[:strings.LastIndex(base, "/")+1]}, address, v)
}

func (b *Browser) open(tab *Tab, address string, v View) *Tab {
	tab.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	tab.Cleanup(cancel)
	tab.Cleanup(tab.picture)
	tab.ctx, tab.within = ctx, patience
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		tab.Fatal(err)
	}
	tab.Resize(v.Width, v.Height)
	if v.Script != "" {
		call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: v.Script})
	}
	tab.Navigate(address)
	return tab
}
