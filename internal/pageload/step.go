package pageload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
)

const (
	// settleShare of a step goes by before it is measured, so that all users are at work.
	settleShare = 5
	// mostServers bounds how many are told apart; the rest count together.
	mostServers = 256
	otherServer = "others"
)

// step is one number of users, as it is measured.
type step struct {
	begins, ends time.Time

	mu       sync.Mutex
	servers  map[string]*served
	pages    *probe.Distribution
	whole    int64
	errors   int64
	firstWhy string
}

func newStep(begins time.Time, length time.Duration) *step {
	return &step{begins: begins, ends: begins.Add(length), servers: map[string]*served{}, pages: probe.NewDistribution()}
}

// served counts the bytes of one server. It implements io.Writer.
type served struct {
	begins time.Time
	bins   []atomic.Int64
}

// Write counts what came now.
func (s *served) Write(b []byte) (int, error) {
	if after := time.Since(s.begins); after >= 0 {
		if i := int(after / probe.BinWidth); i < len(s.bins) {
			s.bins[i].Add(int64(len(b)))
		}
	}
	return len(b), nil
}

// sink implements the type of that name.
func (s *step) sink(name string, _ *http.Response) io.Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[name] == nil && len(s.servers) >= mostServers {
		name = otherServer
	}
	if s.servers[name] == nil {
		s.servers[name] = &served{begins: s.begins, bins: make([]atomic.Int64, s.ends.Sub(s.begins)/probe.BinWidth)}
	}
	return s.servers[name]
}

// loaded counts a page that was there whole.
func (s *step) loaded(started, ended time.Time) {
	if ended.Before(s.begins) || ended.After(s.ends) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole++
	s.pages.Record(ended.Sub(started))
}

// failed counts an error.
func (s *step) failed(err error) {
	if now := time.Now(); now.Before(s.begins) || now.After(s.ends) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
	if s.firstWhy == "" {
		s.firstWhy = err.Error()
	}
}

// abandoned is a page that was under way when the step ended. One that began before it was
// measured took longer than all of it: without that, the slowest would not count.
func (s *step) abandoned(started time.Time) {
	if started.After(s.begins) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
	if s.firstWhy == "" {
		s.firstWhy = fmt.Sprintf("a page took longer than the step, %v", s.ends.Sub(s.begins))
	}
}

// summary is what the step gave.
func (s *step) summary(users int) probe.PageStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	length := s.ends.Sub(s.begins)
	p := probe.PageStep{
		Users: users, PagesPerS: float64(s.whole) / length.Seconds(), Pages: s.whole, Errors: s.errors, Why: s.firstWhy,
		P50: milliseconds(s.pages, 50), P90: milliseconds(s.pages, 90), P99: milliseconds(s.pages, 99),
		Bins: make([]int64, length/probe.BinWidth), Served: map[string][]int64{},
	}
	var sum int64
	for name, server := range s.servers {
		bins := make([]int64, len(p.Bins))
		for i := range bins {
			bins[i] = server.bins[i].Load()
			p.Bins[i] += bins[i]
			sum += bins[i]
		}
		p.Served[name] = bins
	}
	p.BytesPerS = float64(sum) / length.Seconds()
	return p
}

func milliseconds(d *probe.Distribution, percent float64) *float64 {
	v, ok := d.Percentile(percent)
	if !ok {
		return nil
	}
	ms := float64(v) / float64(time.Millisecond)
	return &ms
}

// errOver ends users when their step does.
var errOver = errors.New("the step is over")

// run measures so many users on one target. The share is how busy this machine was; see
// [busy]. It is an error if the context ends first.
func (t *target) run(ctx context.Context, p *plan, users int, o *Options) (probe.PageStep, float64, error) {
	length := o.Step.Truncate(probe.BinWidth)
	s := newStep(time.Now().Add(length/settleShare), length)
	ctx, cancel := context.WithDeadlineCause(ctx, s.ends, errOver)
	defer cancel()
	var all sync.WaitGroup
	for range users {
		all.Go(func() { user(ctx, t, p, o, s) })
	}
	share := busy(ctx, s.begins, t.device)
	<-ctx.Done()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errOver) {
		return probe.PageStep{}, 0, err
	}
	return s.summary(users), share, nil
}
