// Package load is an open-loop generator: requests are sent when a Poisson
// process says so, however slow the answers are.
//
// A closed loop waits for an answer before it sends again, and so hardly asks
// while the service is slow: the worst moments are missing from what it reports
// (coordinated omission). Here an arrival has an intended time, which depends on
// the seed alone. Latency runs from that time to the last byte of the body, and
// whatever delays the sending counts as latency too.
//
// [Start] begins to send to the targets of a [Plan]. [Generator.Measure] reports
// a stretch of time as a [Measurement]; between measurements the load goes on
// unrecorded. [Generator.Stop] ends it.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"taper.dev/taper/internal/lab/alarm"
)

// Plan says what to send.
type Plan struct {
	// Targets are the host:port of the proxies. Each request goes to one of them
	// at random.
	Targets []string
	// Host is the Host header, by which a proxy chooses where to forward; the
	// target's address if it is empty.
	Host string
	// Path is the path of the URL, such as "/".
	Path string
	// Rate is the mean number of requests per second, over all targets.
	Rate float64
	// Seed determines the intended times and the targets.
	Seed uint64
	// Timeout is how long after its intended time a request has failed; at most
	// a minute, where the histograms end.
	Timeout time.Duration
	// MaxInFlight bounds the requests under way, and with them the connections.
	// Each arrival beyond it is an error.
	MaxInFlight int
}

// check returns what is wrong with the plan.
func (p Plan) check() error {
	if len(p.Targets) == 0 {
		return errors.New("load: no targets: want at least one host:port")
	}
	for _, target := range p.Targets {
		if _, _, err := net.SplitHostPort(target); err != nil {
			return fmt.Errorf("load: target %q: want host:port: %w", target, err)
		}
	}
	if u, err := url.Parse(p.Path); err != nil || u.Path != p.Path || !strings.HasPrefix(p.Path, "/") {
		return fmt.Errorf("load: path %q: want one such as /", p.Path)
	}
	if !(p.Rate > 0) || math.IsInf(p.Rate, 1) {
		return fmt.Errorf("load: rate %v: want a finite number of requests per second above 0", p.Rate)
	}
	if p.Timeout <= 0 || p.Timeout > longest {
		return fmt.Errorf("load: timeout %v: want more than 0 and at most %v", p.Timeout, longest)
	}
	if p.MaxInFlight < 1 {
		return fmt.Errorf("load: at most %d requests in flight: want at least 1", p.MaxInFlight)
	}
	return nil
}

// Progress is a glance at a generator.
type Progress struct {
	// Sent and Errors count from the start. Errors includes the arrivals that
	// were not sent because too many requests were in flight.
	Sent, Errors uint64
	InFlight     int
}

// Generator sends requests until it is stopped.
type Generator struct {
	plan    Plan
	client  *client
	alarm   *alarm.Alarm
	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	progress Progress
	// next is the intended time of the first arrival that was not dispatched yet.
	next time.Time
	// window is what is being measured; nil between measurements.
	window *window
}

// Start begins to send. The load ends with ctx or Stop; what it holds is freed
// by Stop.
func Start(ctx context.Context, plan Plan) (*Generator, error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	a, err := alarm.New()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	g := &Generator{plan: plan, client: newClient(plan), alarm: a}
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.running.Go(func() {
		<-g.ctx.Done()
		g.alarm.Close()
		g.client.close()
	})
	g.running.Go(g.dispatch)
	return g, nil
}

// Stop ends the load: requests under way are cut off and counted nowhere. It
// returns when all has ended, and may be called more than once.
func (g *Generator) Stop() {
	g.cancel()
	g.running.Wait()
}

// Progress is cheap enough to be asked for several times a second.
func (g *Generator) Progress() Progress {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.progress
}

// dispatch sends each request at its intended time, or at once if that has passed.
func (g *Generator) dispatch() {
	arrivals := newArrivals(g.plan.Seed, g.plan.Rate, len(g.plan.Targets))
	origin := time.Now()
	for {
		offset, target := arrivals.next()
		intended := origin.Add(offset)
		g.expect(intended)
		if !g.sleepUntil(intended) {
			return
		}
		g.send(intended, target)
	}
}

// sleepUntil returns false if the generator was stopped.
func (g *Generator) sleepUntil(t time.Time) bool {
	for time.Now().Before(t) {
		if g.alarm.Set(t) != nil || g.alarm.Wait() != nil {
			return false
		}
	}
	return g.ctx.Err() == nil
}

// send lets one request go its way, unless too many are under way.
func (g *Generator) send(intended time.Time, target int) {
	w, admitted := g.admit(intended)
	if !admitted {
		return
	}
	g.running.Go(func() {
		// Reckoned from the intended time, so that every request of a window has
		// ended one time-out after the window.
		endpoint, err := g.client.get(target, intended.Add(g.plan.Timeout))
		g.finish(w, result{endpoint: endpoint, latency: time.Since(intended), err: err})
	})
}

// admit counts an arrival and returns the window that it belongs to, if any.
func (g *Generator) admit(intended time.Time) (*window, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.window
	if w != nil && !w.covers(intended) {
		w = nil
	}
	if g.progress.InFlight >= g.plan.MaxInFlight {
		g.progress.Errors++
		if w != nil {
			w.record(result{err: fmt.Errorf("not sent: %d requests are in flight already", g.plan.MaxInFlight)})
		}
		return nil, false
	}
	g.progress.Sent++
	g.progress.InFlight++
	if w != nil {
		w.pending++
	}
	return w, true
}

// finish counts what came of a request.
func (g *Generator) finish(w *window, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.progress.InFlight--
	if g.ctx.Err() != nil {
		return // cut off by Stop
	}
	if r.err != nil {
		g.progress.Errors++
	}
	if w != nil {
		w.pending--
		w.record(r)
		g.settle()
	}
}
