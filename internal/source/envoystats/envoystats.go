// Package envoystats measures endpoints where their requests come from: it reads
// the statistics that each Envoy keeps of each host of a cluster, over Envoy's
// admin interface. It needs no metrics store; it knows no CPU, so that reading
// is missing.
//
// Admin addresses come in ([Config]); out come, per endpoint and summed over all
// Envoys, the rate of requests and the mean number in flight since the last
// [Source.Collect]. A number in flight changes within milliseconds and is worth
// little when asked for once, so the Envoys are polled in between: poller.go
// follows one of them, clusters.go reads its answers.
//
// What is not known of an Envoy is not made up:
//
//   - It missed polls: its counters are cumulative, nothing is lost.
//   - It has answered, but not in the second half of the interval: what it sent
//     since is unknown, and Collect is an error that names it.
//   - It has not answered in the whole interval, or for the first time: it is left
//     out. A dead Envoy sends nothing; of a live one that cannot be reached, all
//     endpoints lack the same share, because all Envoys balance by the same weights.
//   - It has restarted: its counters are counted from zero again.
package envoystats

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"taper.dev/taper/internal/model"
)

// DefaultPollEvery is short against a control interval of seconds and long
// against what an answer costs Envoy's main thread.
const DefaultPollEvery = 200 * time.Millisecond

// Config says which Envoys are asked, and about what.
type Config struct {
	// Admins are the bases of the Envoys' admin interfaces, such as
	// http://127.0.0.1:9901.
	Admins []string
	// Cluster is the name that the Envoys give the service.
	Cluster string
	// PollEvery is [DefaultPollEvery] if 0.
	PollEvery time.Duration
}

// Source polls Envoys until it is closed.
type Source struct {
	pollers []*poller
	client  *http.Client
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	last time.Time // the start of the interval
}

// Start checks the configuration and begins to poll. It does not wait for an
// answer: an Envoy may come later.
func Start(cfg Config) (*Source, error) {
	if cfg.PollEvery == 0 {
		cfg.PollEvery = DefaultPollEvery
	}
	if cfg.PollEvery < 0 {
		return nil, fmt.Errorf("polling Envoy every %s is not possible; want an interval above 0, such as %s", cfg.PollEvery, DefaultPollEvery)
	}
	if cfg.Cluster == "" {
		return nil, errors.New("there is no cluster to read in Envoy's statistics; want its name as in Envoy's configuration")
	}
	if len(cfg.Admins) == 0 {
		return nil, errors.New("there is no Envoy to ask; want the address of an admin interface such as http://127.0.0.1:9901")
	}
	s := &Source{client: newClient(), last: time.Now()}
	for _, admin := range cfg.Admins {
		p, err := newPoller(admin, cfg.Cluster, s.client)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.pollers, func(other *poller) bool { return other.url == p.url }) {
			return nil, fmt.Errorf("the Envoy at %s is listed twice; want each once, or its requests count double", p.name)
		}
		s.pollers = append(s.pollers, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for i, p := range s.pollers {
		// Spread over the interval, the polls do not all cost CPU at one moment.
		offset := cfg.PollEvery * time.Duration(i) / time.Duration(len(s.pollers))
		s.running.Go(func() { p.run(ctx, offset, cfg.PollEvery) })
	}
	return s, nil
}

// Close ends polling and returns when it has ended. It may be called more than once.
func (s *Source) Close() error {
	s.cancel()
	s.running.Wait()
	s.client.CloseIdleConnections()
	return nil
}

// Collect implements [taper.dev/taper/internal/source.Source]. It belongs to one
// caller: each call starts a new interval, which should hold several polls. An
// endpoint that no Envoy knows is missing; one that only some know gets no
// requests from the others. A reading's time is that of the oldest of the Envoys'
// newest answers.
func (s *Source) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	middle := now.Add(-now.Sub(s.last) / 2)
	s.last = now

	sum := totals{byAddress: map[string]total{}}
	var lost, away []error
	for _, p := range s.pollers {
		switch seen := p.take(); {
		case seen.covered == 0:
			away = append(away, p.silence(now, seen))
		case seen.newest.Before(middle):
			lost = append(lost, p.silence(now, seen))
		default:
			sum.add(seen)
		}
	}
	switch {
	case len(lost) > 0:
		return nil, errors.Join(lost...)
	case len(away) == len(s.pollers):
		return nil, fmt.Errorf("nothing is known of any Envoy: %w", away[0])
	}
	return sum.snapshot(endpoints), nil
}

// totals sums what was seen over Envoys.
type totals struct {
	byAddress map[string]total
	at        time.Time
}

type total struct {
	rate     float64 // requests per second
	inFlight float64
}

func (t *totals) add(seen interval) {
	if t.at.IsZero() || seen.newest.Before(t.at) {
		t.at = seen.newest
	}
	for address, h := range seen.hosts {
		sum := t.byAddress[address]
		sum.inFlight += float64(h.active) / float64(seen.polls)
		sum.rate += float64(h.requests) / seen.covered.Seconds()
		t.byAddress[address] = sum
	}
}

func (t *totals) snapshot(endpoints []model.Endpoint) model.Snapshot {
	snapshot := make(model.Snapshot, len(endpoints))
	for _, e := range endpoints {
		if sum, ok := t.byAddress[e.Address]; ok {
			snapshot[e.Address] = model.Sample{
				Requests: model.Reading{Value: sum.rate, At: t.at},
				InFlight: model.Reading{Value: sum.inFlight, At: t.at},
			}
		}
	}
	return snapshot
}
