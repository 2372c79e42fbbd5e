package pageload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// brief are options for a run of little more than half a second for each number of users.
func brief(targets ...Target) Options {
	return Options{Targets: targets, MaxUsers: 1, Step: leastStep, Timeout: 5 * time.Second}
}

// serve serves until the test is over.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// pages serves a small page by that name.
func pages(t *testing.T, name string) http.Handler {
	t.Helper()
	page, err := Page(PageOptions{Name: name, ScriptBytes: 20_000, StyleBytes: 2_000, ImageBytes: 2_000})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func run(t *testing.T, o Options) *probe.PageLoad {
	t.Helper()
	load, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return load
}

// counted counts requests by protocol and path, and by connection.
type counted struct {
	http.Handler
	mu          sync.Mutex
	paths       map[string]int
	connections map[net.Conn]int
}

// connection is a key of contexts.
type connection struct{}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.paths[r.Proto+" "+r.URL.Path]++
	c.connections[r.Context().Value(connection{}).(net.Conn)]++
	c.mu.Unlock()
	c.Handler.ServeHTTP(w, r)
}

// count makes a server, not yet started, that counts.
func count(t *testing.T, h http.Handler) (*counted, *httptest.Server) {
	t.Helper()
	c := &counted{Handler: h, paths: map[string]int{}, connections: map[net.Conn]int{}}
	s := httptest.NewUnstartedServer(c)
	s.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, conn)
	}
	t.Cleanup(s.Close)
	return c, s
}

func TestUsersLoadAllOfAPage(t *testing.T) {
	t.Parallel()
	c, s := count(t, pages(t, "web-1"))
	s.Start()
	o := brief(Target{Name: "page", URL: s.URL})
	o.MaxUsers = 2
	load := run(t, o)
	found := load.Targets[0]
	if found.Objects != 4 || found.PageBytes < 22_000 || found.PageBytes > 26_000 || len(found.Steps) != 2 || found.Problem != "" {
		t.Fatalf("%+v", found)
	}
	for _, p := range found.Steps {
		if p.Pages == 0 || p.Errors != 0 || p.P50 == nil || *p.P50 <= 0 {
			t.Errorf("with %d users: %+v", p.Users, p)
		}
		// Pages that began before, or ended after, are in the bytes and not in the pages.
		if pages := p.BytesPerS / float64(found.PageBytes); pages < p.PagesPerS*0.8-10 || pages > p.PagesPerS*1.2+10 {
			t.Errorf("with %d users, %.0f pages/s are %.0f bytes/s", p.Users, p.PagesPerS, p.BytesPerS)
		}
		if len(p.Bins) != 5 || !slices.Equal(p.Bins, p.Served["web-1"]) || len(p.Served) != 1 {
			t.Errorf("with %d users, bins are %v and %v", p.Users, p.Bins, p.Served)
		}
		if p.ClientBusy == nil || *p.ClientBusy <= 0 || *p.ClientBusy > 1 {
			t.Errorf("with %d users, the machine is busy %v", p.Users, p.ClientBusy)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Each user loads each object once; some did not come to the end.
	least, most := slices.Min(slices.Collect(maps.Values(c.paths))), slices.Max(slices.Collect(maps.Values(c.paths)))
	if len(c.paths) != 4 || most-least > 10 {
		t.Errorf("requests are %v", c.paths)
	}
	// A page of four objects takes three connections at most, and none is used for two.
	if n := len(c.connections); n < least || n > 3*most {
		t.Errorf("%d connections for %d pages", n, most)
	}
	for _, n := range c.connections {
		if n > 4 {
			t.Fatalf("%d requests came over one connection: a user has four", n)
		}
	}
}

func TestHTTP2IsSpokenWhereTheServerDoes(t *testing.T) {
	t.Parallel()
	c, s := count(t, pages(t, "web-1"))
	s.EnableHTTP2 = true
	s.StartTLS()
	o := brief(Target{Name: "page", URL: s.URL})
	if _, err := Run(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("without its certificate: %v", err)
	}
	o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	load := run(t, o)
	if p := load.Targets[0].Steps[0]; p.Pages == 0 || p.Errors != 0 {
		t.Errorf("%+v", p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths["HTTP/2.0 /app.js"] == 0 || c.paths["HTTP/1.1 /app.js"] != 0 {
		t.Errorf("requests are %v", c.paths)
	}
	if n, visits := len(c.connections), c.paths["HTTP/2.0 /"]; n > visits {
		t.Errorf("%d connections for %d visits", n, visits)
	}
}

// A server behind a balancer shows the certificate of the page's name.
func TestServersBehindABalancerSpeakTLSByItsName(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(pages(t, "web-1"))
	t.Cleanup(s.Close)
	for name, works := range map[string]bool{"Example.com": true, "other.invalid": false} {
		o := brief(Target{Name: "web-1", URL: "https://" + name, Connect: s.Listener.Addr().String()})
		o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
		if _, err := Run(t.Context(), o, nil); (err == nil) != works || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOtherOriginsAreLoadedIfAskedFor(t *testing.T) {
	t.Parallel()
	other := serve(t, http.HandlerFunc(text("x")))
	s := serve(t, site(`<script src=/moved.js></script><img src=`+other.URL+`/a.png>`, map[string]http.HandlerFunc{
		"/moved.js": http.RedirectHandler(other.URL+"/b.js", http.StatusTemporaryRedirect).ServeHTTP,
	}))
	for others, objects := range map[bool]int{false: 1, true: 3} {
		o := brief(Target{Name: "page", URL: s.URL})
		o.OtherOrigins = others
		load := run(t, o)
		if found := load.Targets[0]; found.Objects != objects || found.Steps[0].Pages == 0 || found.Steps[0].Errors > 0 {
			t.Errorf("others %v: %+v", others, found)
		}
		if (len(load.Notes) == 0) != others {
			t.Errorf("others %v: %q", others, load.Notes)
		}
	}
}

func TestAtMostSixConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			for i := range 40 {
				fmt.Fprintf(w, "<img src=%d.png>", i)
			}
			return
		}
		fmt.Fprint(w, "x")
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n := open.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	target, err := newTarget(Target{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := brief().withDefaults()
	b := newBrowser(target, &o)
	p, err := look(t.Context(), b, target.url, &o)
	b.Close()
	if err != nil || p.objects != 41 || p.parallel != perHost {
		t.Fatalf("%+v, %v", p, err)
	}
	most.Store(0)
	if !visit(t.Context(), target, p, &o, newStep(time.Now(), time.Minute)) {
		t.Fatal("the page did not load")
	}
	// The connection of looking may not be gone yet.
	if n := most.Load(); n < 2 || n > perHost+1 {
		t.Errorf("%d connections at once, want up to %d", n, perHost)
	}
}

func TestServersBehindABalancerAreAskedForItsPage(t *testing.T) {
	t.Parallel()
	var host atomic.Value
	inner := pages(t, "")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		inner.ServeHTTP(w, r)
	}))
	direct := s.Listener.Addr().String()
	load := run(t, brief(Target{Name: "web-1", URL: "http://shop.example.invalid/", Connect: direct}))
	if got := host.Load(); got != "shop.example.invalid" {
		t.Errorf("the server was asked for the page of %v", got)
	}
	// Without a name of its own, the server is where it was reached.
	if p := load.Targets[0].Steps[0]; p.Pages == 0 || len(p.Served) != 1 || p.Served[direct] == nil {
		t.Errorf("%+v", p)
	}
}

func TestWhatWasMeasuredIsKept(t *testing.T) {
	t.Parallel()
	good, gone := serve(t, pages(t, "web-1")), httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := brief(Target{Name: "balancer", URL: good.URL}, Target{Name: "gone", URL: gone.URL}, Target{Name: "web-1", URL: good.URL})
	o.MaxUsers = 1 << 10
	load, err := Run(ctx, o, func(text string) {
		if strings.HasSuffix(text, "users: 2") {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if load.Incomplete != "interrupted" || len(load.Targets) != 3 {
		t.Fatalf("%+v", load)
	}
	for i, steps := range []int{1, 0, 1} {
		found := load.Targets[i]
		if len(found.Steps) != steps || found.Users != 0 || (found.Problem == "") != (steps == 1) {
			t.Errorf("%s has %d steps, want %d: %q", found.Name, len(found.Steps), steps, found.Problem)
		}
	}
	if !strings.Contains(load.Targets[1].Problem, "connection refused") {
		t.Errorf("the problem is %q", load.Targets[1].Problem)
	}
}

func TestNothingMeasuredIsAnError(t *testing.T) {
	t.Parallel()
	s := serve(t, http.NotFoundHandler())
	if _, err := Run(t.Context(), brief(Target{Name: "page", URL: s.URL}), nil); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, brief(Target{Name: "page", URL: s.URL}), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := Target{Name: "page", URL: "http://10.0.0.1/"}
	for want, change := range map[string]func(*Options){
		"there is no page":                   func(o *Options) { o.Targets = nil },
		`are called "page"`:                  func(o *Options) { o.Targets = append(o.Targets, good) },
		`"ftp://x" is no page`:               func(o *Options) { o.Targets[0].URL = "ftp://x" },
		"cannot be read":                     func(o *Options) { o.Targets[0].URL = "http://secret@[::1" },
		"has a password in it":               func(o *Options) { o.Targets[0].URL = "http://u:secret@x/" },
		"not an address to connect to":       func(o *Options) { o.Targets[0].Connect = "10.0.0.2" },
		"-1 users are not possible":          func(o *Options) { o.MaxUsers = -1 },
		"steps of 1ms are not possible":      func(o *Options) { o.Step = time.Millisecond },
		"waiting -1s for a page":             func(o *Options) { o.Timeout = -time.Second },
		"20000 objects":                      func(o *Options) { o.MaxObjects = 20000 },
		"objects of -1 bytes are not possib": func(o *Options) { o.MaxObjectBytes = -1 },
	} {
		o := Options{Targets: []Target{good}}
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		err := o.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells a secret", err)
		}
	}
}

// What closes a connection must not keep its port.
func TestConnectionsAreReset(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target, err := newTarget(Target{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	near, err := target.dial(t.Context(), "tcp", target.address)
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near.Close()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server sees %v", err)
	}
}

// Users are gone with their step, and connections with their user.
func TestNothingIsLeftRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	var open atomic.Int64
	s := httptest.NewUnstartedServer(pages(t, "web-1"))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	o := brief(Target{Name: "page", URL: s.URL})
	o.MaxUsers = 16
	run(t, o)
	within(t, "connections are left", func() bool { return open.Load() == 0 })
	s.Close()
	within(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// within waits for what other goroutines are about to do.
func within(t *testing.T, otherwise string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !so(); {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestNumbersOfUsers(t *testing.T) {
	t.Parallel()
	for most, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := numbersOfUsers(most); !slices.Equal(got, want) {
			t.Errorf("up to %d: %v", most, got)
		}
	}
}
