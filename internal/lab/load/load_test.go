package load

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"taper.dev/taper/internal/lab/fleet"
)

// serve starts a server and returns its host:port.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func answer(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "75025") }

func start(t *testing.T, plan Plan) *Generator {
	t.Helper()
	g, err := Start(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g
}

// planFor fills in what most tests do not care about.
func planFor(targets ...string) Plan {
	return Plan{Targets: targets, Path: "/", Rate: 500, Seed: 1, Timeout: 5 * time.Second, MaxInFlight: 1000}
}

func measure(t *testing.T, g *Generator, d time.Duration) *Measurement {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := g.Measure(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// slower counts the requests of a histogram that took longer than d.
func slower(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From > d.Microseconds() {
			n += bar.Count
		}
	}
	return n
}

// within fails the test unless a Poisson count of the given mean may well have
// come out as got: six standard deviations.
func within(t *testing.T, what string, got, mean float64) {
	t.Helper()
	if math.Abs(got-mean) > 6*math.Sqrt(mean) {
		t.Errorf("%s: %v, want about %v", what, got, mean)
	}
}

func TestMeasure(t *testing.T) {
	named := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "least-request" || r.URL.Path != "/fib" || r.Header.Get("Accept-Encoding") != "" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set(fleet.EndpointHeader, name)
			answer(w, r)
		}
	}
	plan := planFor(serve(t, named("a:1")), serve(t, named("b:2")))
	plan.Host, plan.Path = "least-request", "/fib"
	g := start(t, plan)

	began := time.Now()
	m := measure(t, g, 600*time.Millisecond)
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("measured for %v, want 600 ms", took)
	}
	if m.Errors != 0 || m.FirstError != "" {
		t.Errorf("%d errors, first: %q", m.Errors, m.FirstError)
	}
	within(t, "requests in 0.6 s at 500/s", float64(m.Requests), 300)
	if got := m.Latency.TotalCount(); got != int64(m.Requests) {
		t.Errorf("%d latencies of %d requests", got, m.Requests)
	}
	if len(m.ByEndpoint) != 2 {
		t.Fatalf("%d endpoints, want a:1 and b:2", len(m.ByEndpoint))
	}
	for _, name := range []string{"a:1", "b:2"} {
		within(t, "requests to "+name, float64(m.ByEndpoint[name].TotalCount()), 150)
	}
}

func TestUnnamedEndpoints(t *testing.T) {
	m := measure(t, start(t, planFor(serve(t, answer))), 50*time.Millisecond)
	if m.Requests == 0 || len(m.ByEndpoint) != 0 {
		t.Errorf("%d requests by %d endpoints, want some by none", m.Requests, len(m.ByEndpoint))
	}
}

// TestStalledServer is the test for coordinated omission: while the server
// stands still for 200 ms, 100 requests are due, and their waits spread evenly.
// A closed loop on one connection would report a single slow request.
func TestStalledServer(t *testing.T) {
	const stall = 200 * time.Millisecond
	var door sync.RWMutex
	g := start(t, planFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		door.RLock()
		defer door.RUnlock()
		answer(w, r)
	})))
	time.AfterFunc(300*time.Millisecond, func() {
		door.Lock()
		defer door.Unlock()
		time.Sleep(stall)
	})

	assertStall(t, measure(t, g, time.Second), stall)
}

// TestStalledDispatcher holds up the generator itself: requests that were sent
// late count from when they were due.
func TestStalledDispatcher(t *testing.T) {
	const stall = 200 * time.Millisecond
	g := start(t, planFor(serve(t, answer)))
	time.AfterFunc(300*time.Millisecond, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		time.Sleep(stall)
	})

	assertStall(t, measure(t, g, time.Second), stall)
}

// assertStall wants the requests that were due in a stall among the slow ones.
// A busy machine adds more of them, hence no upper bound below all.
func assertStall(t *testing.T, m *Measurement, stall time.Duration) {
	t.Helper()
	if m.Errors != 0 {
		t.Fatalf("%d errors, first: %s", m.Errors, m.FirstError)
	}
	within(t, "requests in 1 s at 500/s", float64(m.Requests), 500)
	if longest := m.Latency.Max(); longest < (stall * 9 / 10).Microseconds() {
		t.Errorf("longest latency %d µs, want about %v", longest, stall)
	}
	for _, share := range []float64{0.25, 0.5, 0.75} {
		threshold := time.Duration(share * float64(stall))
		due := 500 * (stall - threshold).Seconds()
		if got := slower(m.Latency, threshold); float64(got) < due/2 {
			t.Errorf("%d requests took longer than %v, want about %.0f", got, threshold, due)
		}
	}
}

func TestErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := []struct {
		name   string
		target string
		want   string
	}{
		{"status", serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), "status 503, want 200"},
		{"redirect", serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }), "status 302, want 200"},
		{"refused", closed.Addr().String(), "connection refused"},
		{"time-out", serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "no answer within 100ms"},
		{"cut off", serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			answer(w, r)
		}), "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := planFor(tt.target)
			plan.Timeout = 100 * time.Millisecond
			g := start(t, plan)
			m := measure(t, g, 200*time.Millisecond)
			if m.Requests == 0 || m.Errors != m.Requests || m.Latency.TotalCount() != 0 {
				t.Errorf("%d errors and %d latencies of %d requests, want all to fail", m.Errors, m.Latency.TotalCount(), m.Requests)
			}
			if !strings.Contains(m.FirstError, tt.want) || !strings.Contains(m.FirstError, tt.target) {
				t.Errorf("first error %q, want %q at %s", m.FirstError, tt.want, tt.target)
			}
			if p := g.Progress(); p.Errors < m.Errors {
				t.Errorf("progress has %d errors, the measurement %d", p.Errors, m.Errors)
			}
		})
	}
}

func TestMaxInFlight(t *testing.T) {
	held := make(chan struct{})
	plan := planFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-held
		answer(w, r)
	}))
	plan.MaxInFlight = 5
	g := start(t, plan)
	time.AfterFunc(300*time.Millisecond, func() {
		if p := g.Progress(); p.Sent != 5 || p.InFlight != 5 {
			t.Errorf("progress %+v, want 5 sent and in flight", p)
		}
		close(held)
	})

	m := measure(t, g, 250*time.Millisecond)
	within(t, "requests in 0.25 s at 500/s", float64(m.Requests), 125)
	if m.Requests-m.Errors != uint64(m.Latency.TotalCount()) || m.Latency.TotalCount() > 5 {
		t.Errorf("%d requests, %d errors, %d latencies: want at most 5 answered", m.Requests, m.Errors, m.Latency.TotalCount())
	}
	if want := "5 requests are in flight already"; !strings.Contains(m.FirstError, want) {
		t.Errorf("first error %q, want %q", m.FirstError, want)
	}
}

// TestMeasureWaitsForTheLast has answers that come after the window has closed.
func TestMeasureWaitsForTheLast(t *testing.T) {
	g := start(t, planFor(serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(150 * time.Millisecond)
		answer(w, r)
	})))
	m := measure(t, g, 100*time.Millisecond)
	if m.Errors != 0 || m.Requests == 0 || m.Latency.Min() < (149*time.Millisecond).Microseconds() {
		t.Errorf("%d requests, %d errors, shortest %d µs; want all to take 150 ms", m.Requests, m.Errors, m.Latency.Min())
	}
}

func TestMeasureWithoutArrivals(t *testing.T) {
	plan := planFor(serve(t, answer))
	plan.Rate = 0.001
	if m := measure(t, start(t, plan), 20*time.Millisecond); m.Requests != 0 {
		t.Errorf("%d requests at one in 1,000 s", m.Requests)
	}
}

func TestMeasureEndsEarly(t *testing.T) {
	g := start(t, planFor(serve(t, answer)))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := g.Measure(ctx, time.Hour)
		first <- err
	}()
	for !g.measuring() {
		time.Sleep(time.Millisecond)
	}
	if _, err := g.Measure(t.Context(), time.Second); err == nil {
		t.Error("two measurements at once")
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("a cancelled measurement succeeded")
	}
	measure(t, g, 10*time.Millisecond)

	time.AfterFunc(10*time.Millisecond, g.Stop)
	if _, err := g.Measure(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("measuring while it stops: %v", err)
	}
	if _, err := g.Measure(t.Context(), 0); err == nil {
		t.Error("measured for no time at all")
	}
}

func (g *Generator) measuring() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.window != nil
}

func TestStopLeavesNothing(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, byContext := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g, err := Start(ctx, planFor(serve(t, answer), serve(t, hang)))
		if err != nil {
			t.Fatal(err)
		}
		for g.Progress().InFlight < 5 || g.Progress().Sent < 20 {
			time.Sleep(time.Millisecond)
		}
		if byContext {
			cancel()
		}
		g.Stop()
		g.Stop()

		stopped := g.Progress()
		if stopped.InFlight != 0 || stopped.Errors != 0 {
			t.Errorf("after Stop: %+v, want none in flight and no error", stopped)
		}
		assertNoGoroutines(t, "load.(*Generator)", "load.(*client)", "http.(*persistConn)")
		if now := g.Progress(); now != stopped {
			t.Errorf("load goes on after Stop: %+v, then %+v", stopped, now)
		}
	}
}

// assertNoGoroutines polls: a connection's goroutines end just after it is closed.
func assertNoGoroutines(t *testing.T, functions ...string) {
	t.Helper()
	var running string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		running = string(stacks[:runtime.Stack(stacks, true)])
		left := false
		for _, f := range functions {
			left = left || strings.Contains(running, f)
		}
		if !left {
			return
		}
	}
	t.Errorf("goroutines left:\n%s", running)
}

func TestStartRejects(t *testing.T) {
	tests := []struct {
		name  string
		wrong func(*Plan)
		want  string
	}{
		{"no targets", func(p *Plan) { p.Targets = nil }, "no targets"},
		{"no port", func(p *Plan) { p.Targets = []string{"127.0.0.1"} }, `"127.0.0.1"`},
		{"bad path", func(p *Plan) { p.Path = "%zz" }, `"%zz"`},
		{"no rate", func(p *Plan) { p.Rate = 0 }, "rate 0"},
		{"negative rate", func(p *Plan) { p.Rate = -1 }, "rate -1"},
		{"no number", func(p *Plan) { p.Rate = math.NaN() }, "rate NaN"},
		{"no timeout", func(p *Plan) { p.Timeout = 0 }, "timeout 0s"},
		{"too long", func(p *Plan) { p.Timeout = 2 * time.Minute }, "timeout 2m0s"},
		{"none in flight", func(p *Plan) { p.MaxInFlight = 0 }, "at most 0 requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := planFor("127.0.0.1:1")
			tt.wrong(&plan)
			g, err := Start(t.Context(), plan)
			if err == nil {
				g.Stop()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want it to mention %q", err, tt.want)
			}
		})
	}
}
