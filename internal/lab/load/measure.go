package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the highest latency that a histogram holds.
const longest = time.Minute

// Measurement is what came of the requests of a stretch of time.
type Measurement struct {
	// Requests counts all arrivals, the failed ones among them.
	Requests uint64
	// Errors counts transport errors, time-outs, answers with another status
	// than 200, and arrivals beyond [Plan.MaxInFlight].
	Errors uint64
	// FirstError describes one of them; empty if there is none.
	FirstError string
	// Latency has the successful requests, in microseconds from 1 µs to a minute
	// with three significant digits.
	Latency *hdrhistogram.Histogram
	// ByEndpoint has those whose answer named an endpoint, by its address.
	ByEndpoint map[string]*hdrhistogram.Histogram
}

// Measure reports the requests whose intended time lies in the next d, and
// returns when d has passed and the last of them has ended, at most
// [Plan.Timeout] later. Only one measurement can be under way.
func (g *Generator) Measure(ctx context.Context, d time.Duration) (*Measurement, error) {
	if d <= 0 {
		return nil, fmt.Errorf("load: measuring for %v: want more than 0", d)
	}
	w, err := g.open(d)
	if err != nil {
		return nil, err
	}
	defer g.close()
	// The last request may have ended before the window does.
	over := time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.settle()
	})
	defer over.Stop()
	select {
	case <-w.done:
		return &w.measurement, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("load: measuring: %w", ctx.Err())
	case <-g.ctx.Done():
		return nil, errors.New("load: measuring: the generator was stopped")
	}
}

func (g *Generator) open(d time.Duration) (*window, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.window != nil {
		return nil, errors.New("load: a measurement is under way already")
	}
	from := time.Now()
	g.window = &window{
		from:        from,
		to:          from.Add(d),
		done:        make(chan struct{}),
		measurement: Measurement{Latency: newHistogram(), ByEndpoint: map[string]*hdrhistogram.Histogram{}},
	}
	return g.window, nil
}

func (g *Generator) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.window = nil
}

// expect notes when the next arrival is due.
func (g *Generator) expect(intended time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = intended
	g.settle()
}

// settle completes the window if nothing can be added to it any more. g.mu is held.
func (g *Generator) settle() {
	w := g.window
	if w == nil || w.complete || w.pending > 0 || g.next.Before(w.to) || time.Now().Before(w.to) {
		return
	}
	w.complete = true
	close(w.done)
}

// result is what came of one request.
type result struct {
	endpoint string
	latency  time.Duration
	err      error
}

// window is a measurement under way. The generator's mutex guards it.
type window struct {
	from, to time.Time
	// pending counts its requests that have not ended yet.
	pending     int
	complete    bool
	done        chan struct{}
	measurement Measurement
}

func (w *window) covers(intended time.Time) bool {
	return !intended.Before(w.from) && intended.Before(w.to)
}

func (w *window) record(r result) {
	m := &w.measurement
	m.Requests++
	if r.err != nil {
		m.Errors++
		if m.FirstError == "" {
			m.FirstError = r.err.Error()
		}
		return
	}
	record(m.Latency, r.latency)
	if r.endpoint == "" {
		return
	}
	h := m.ByEndpoint[r.endpoint]
	if h == nil {
		h = newHistogram()
		m.ByEndpoint[r.endpoint] = h
	}
	record(h, r.latency)
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), 3)
}

// record cannot fail: the value is kept within the histogram's range.
func record(h *hdrhistogram.Histogram, latency time.Duration) {
	_ = h.RecordValue(min(max(latency, time.Microsecond), longest).Microseconds())
}
