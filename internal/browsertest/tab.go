package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Tab is a page that is open, and what it complained of. What cannot be done fails the
// test that opened it, at once.
type Tab struct {
	testing.TB
	ctx   context.Context
	base  string // where requests may go
	alone bool   // only the page itself may be asked for
	width int64
	// within is how long the page has for what it is to come to.
	within time.Duration

	mu        sync.Mutex
	requests  []string
	complains []string
}

// listen notes what no page may do.
func (tab *Tab) listen(event any) {
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

func (tab *Tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tab.Helper()
	if err := chromedp.Do(tab.ctx, steps...); err != nil {
		tab.Fatal(err)
	}
}

func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) {
	tab.Helper()
	if _, err := chromedp.Call(tab.ctx, command, params); err != nil {
		tab.Fatal(err)
	}
}

// Base is the address below which the page may ask.
func (tab *Tab) Base() string { return tab.base }

// Navigate goes to an address, as through the address bar.
func (tab *Tab) Navigate(address string) {
	tab.Helper()
	tab.do(chromedp.Navigate(address))
}

// Resize makes the window as large as that, in CSS pixels.
func (tab *Tab) Resize(width, height int64) {
	tab.Helper()
	tab.width = width
	tab.do(chromedp.EmulateViewport(width, height))
}

// Darken has the reader prefer dark pages, and wants the page to follow.
func (tab *Tab) Darken() {
	tab.Helper()
	const background = `getComputedStyle(document.body).backgroundColor`
	light := Evaluate[string](tab, background)
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	if dark := Evaluate[string](tab, background); dark == light {
		tab.Errorf("the page is %s, light and dark", dark)
	}
}

// Click clicks the nth of the elements that a CSS selector finds, from 0.
func (tab *Tab) Click(selector string, nth int) {
	tab.Helper()
	found := Evaluate[int](tab, fmt.Sprintf(`(all => { all[%d]?.click(); return all.length; })(document.querySelectorAll(%q))`, nth, selector))
	if nth >= found {
		tab.Fatalf("clicking element %d of %s: there are %d", nth, selector, found)
	}
}

// Press holds down a key, which has the text that it types for a name.
func (tab *Tab) Press(key string) {
	tab.Helper()
	call(tab, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key})
}

// Type types a text into what has the focus; "\r" is the enter key.
func (tab *Tab) Type(text string) {
	tab.Helper()
	tab.do(chromedp.KeyEvent(text))
}

// Evaluate returns the value of a JavaScript expression, of a promise what it comes to.
func Evaluate[V any](tab *Tab, expression string) V {
	tab.Helper()
	v, err := chromedp.Run(tab.ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.Fatalf("evaluating %s: %v", expression, err)
	}
	return v
}

// Run evaluates a JavaScript expression for what it does.
func (tab *Tab) Run(expression string) {
	tab.Helper()
	Evaluate[bool](tab, "(("+expression+"), true)")
}

// Frame waits until the page has drawn what it does now and heard of what it has done.
func (tab *Tab) Frame() {
	tab.Helper()
	Evaluate[bool](tab, `new Promise(done => requestAnimationFrame(() => setTimeout(done, 0, true)))`)
}

// Await waits until a JavaScript expression is true. The test fails if it is not within
// 20 seconds.
func (tab *Tab) Await(condition string) {
	tab.Helper()
	if !tab.comes(condition) {
		tab.Fatalf("this did not come true: %s; the page says:\n%.1500s", condition, Evaluate[string](tab, `document.body.innerText`))
	}
}

// comes tells whether a condition becomes true in time.
func (tab *Tab) comes(condition string) bool {
	tab.Helper()
	return Evaluate[bool](tab, fmt.Sprintf(`new Promise(done => {
		const end = Date.now() + %d;
		const look = () => { const met = !!(%s); met || Date.now() > end ? done(met) : setTimeout(look, 20); };
		look();
	})`, tab.within.Milliseconds(), condition))
}

// Screenshot writes a picture of what the window shows into a file that stays, and
// returns its name.
func (tab *Tab) Screenshot() (string, error) {
	picture, err := chromedp.Run(tab.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return "", fmt.Errorf("taking a picture of the page: %w", err)
	}
	file, err := os.CreateTemp("", "taper-page-*.png")
	if err != nil {
		return "", fmt.Errorf("keeping a picture of the page: %w", err)
	}
	_, err = file.Write(picture)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("keeping a picture of the page: %w", err)
	}
	return file.Name(), nil
}

// picture tells those who look into a failure what the page looked like.
func (tab *Tab) picture() {
	if !tab.Failed() {
		return
	}
	if name, err := tab.Screenshot(); err != nil {
		tab.Log(err)
	} else {
		tab.Logf("the page looked like %s", name)
	}
}

// asked says which requests were out of order: a page in a file needs nobody, and one
// that is served only reads from who serves it.
func (tab *Tab) asked() []string {
	var wrong []string
	if tab.alone && len(tab.requests) != 1 {
		wrong = append(wrong, fmt.Sprintf("requests %q, want the page alone", tab.requests))
	}
	for _, r := range tab.requests {
		if !tab.alone && !strings.HasPrefix(r, "GET "+tab.base) {
			wrong = append(wrong, fmt.Sprintf("the page asked %s, want only what is below %s", r, tab.base))
		}
	}
	return wrong
}
