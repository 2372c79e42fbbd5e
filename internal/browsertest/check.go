package browsertest

import "fmt"

// Quiet wants that the page has not complained, by an exception or on the console, and
// has asked for nothing that it should not ask for.
func (tab *Tab) Quiet() {
	tab.Helper()
	tab.Frame() // so that what the page did last is heard of
	tab.mu.Lock()
	defer tab.mu.Unlock()
	for _, complaint := range tab.complains {
		tab.Errorf("the page complains: %s", complaint)
	}
	for _, wrong := range tab.asked() {
		tab.Error(wrong)
	}
}

// Fits wants nothing to stick out of the page at the side. Tables may, in a box that
// scrolls.
func (tab *Tab) Fits() {
	tab.Helper()
	if got := Evaluate[int64](tab, `document.documentElement.scrollWidth`); got > tab.width {
		tab.Errorf("the page is %d wide in a window of %d", got, tab.width)
	}
	wide := Evaluate[[]string](tab, `[...document.querySelectorAll('h1, figcaption, .plot canvas')].filter(
		e => e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 80))`)
	if len(wide) > 0 {
		tab.Errorf("these stick out: %q", wide)
	}
}

// Drawn wants that a CSS selector finds that many canvases and that each has, within a
// few seconds, ink of at least so many colours: axes and a line or two make four.
func (tab *Tab) Drawn(selector string, canvases, colours int) {
	tab.Helper()
	// Read through a copy, a canvas of the page stays as fast as it was.
	counts := fmt.Sprintf(`[...document.querySelectorAll(%q)].map(canvas => {
		if (!canvas.width || !canvas.height) return 0;
		const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
		copy.drawImage(canvas, 0, 0);
		const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
		const colours = new Set();
		for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
		return colours.size;
	})`, selector)
	tab.Frame() // what was resized is drawn within a frame
	if !tab.comes(fmt.Sprintf(`(all => all.length === %d && all.every(n => n >= %d))(%s)`, canvases, colours, counts)) {
		tab.Errorf("the canvases %s have %d colours; want %d canvases of at least %d each",
			selector, Evaluate[[]int](tab, counts), canvases, colours)
	}
}

// Confined wants the content security policy to stop a request to somebody else. The
// page complains of that on the console: Quiet is to be asked before.
func (tab *Tab) Confined() {
	tab.Helper()
	tab.Run(`document.addEventListener('securitypolicyviolation', e => { window.stoppedBy = e.effectiveDirective; }),
		fetch('http://127.0.0.1:1/').catch(() => {})`)
	if !tab.comes(`window.stoppedBy`) {
		tab.Error("a request elsewhere was stopped by nothing, want the policy's connect-src")
	} else if by := Evaluate[string](tab, `window.stoppedBy`); by != "connect-src" {
		tab.Errorf("a request elsewhere was stopped by %s, want the policy's connect-src", by)
	}
}
