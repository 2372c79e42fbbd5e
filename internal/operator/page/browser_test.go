package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"taper.dev/taper/internal/browsertest"
)

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

// open shows the page at a fragment in a window of the given size, in which time goes
// faster than ours.
func open(t *testing.T, browser *browsertest.Browser, server *httptest.Server, fragment string, width, height int64, speed int) *browsertest.Tab {
	t.Helper()
	return browser.URL(t, server.URL+prefix+"/"+fragment, browsertest.View{Width: width, Height: height, Script: fmt.Sprintf(inject, speed)})
}
