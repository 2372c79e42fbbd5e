package standalone

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/promql"
)

// Past is what a store remembers of a service.
type Past struct {
	Service   string
	Endpoints []model.Endpoint
	Policy    balance.Policy
	// Window is what each look's samples are the means over; looks are that far apart.
	Window time.Duration
	// Looks are the oldest first. One whose samples are empty was not answered.
	Looks []PastLook
}

// PastLook is what was measured until a time.
type PastLook struct {
	At      time.Time
	Samples model.Snapshot
}

// WrongQuestion is one that [LookBack] asks nobody: about a service that is not there, or
// over a span that makes no sense.
type WrongQuestion struct{ error }

func wrongQuestion(format string, values ...any) error {
	return WrongQuestion{fmt.Errorf(format, values...)}
}

// mostLooks bounds the questions to a store.
const mostLooks = 1000

// LookBack asks the store what it remembers of a service, over a span that ends now, in
// windows that do not overlap. The name may be empty if there is one service. Nothing is
// changed anywhere.
//
// It fails when the store does not answer about the newest window. Older ones may be beyond
// its memory, or from before the endpoints of now.
func LookBack(ctx context.Context, cfg *Config, name string, span time.Duration) (*Past, error) {
	if cfg.Source.PromQL == nil {
		return nil, wrongQuestion("source.envoy has no past: only a store has, source.promql")
	}
	services, closeSources, err := wire(cfg)
	if err != nil {
		return nil, err
	}
	defer closeSources()
	s, err := choose(services, name)
	if err != nil {
		return nil, err
	}
	past := &Past{Service: s.Name, Policy: s.Policy, Window: cfg.Source.PromQL.source(time.Duration(cfg.Interval)).Window}
	looks := int(span / past.Window)
	if looks < 1 || looks > mostLooks {
		return nil, wrongQuestion("%s is %d windows of %s: it takes 1 to %d; the window is source.promql.window", span, looks, past.Window, mostLooks)
	}
	if past.Endpoints, err = members(ctx, s); err != nil {
		return nil, fmt.Errorf("service %q: %w", s.Name, err)
	}
	now := time.Now().Truncate(time.Second)
	past.Looks = make([]PastLook, looks)
	for i := looks - 1; i >= 0; i-- {
		at := now.Add(-time.Duration(looks-1-i) * past.Window)
		samples, err := collectAt(ctx, s.Source.(*promql.Source), at, past.Endpoints)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && i == looks-1 {
			return nil, fmt.Errorf("service %q: %w", s.Name, err)
		}
		past.Looks[i] = PastLook{At: at, Samples: samples}
	}
	return past, nil
}

func choose(services []Service, name string) (Service, error) {
	known := make([]string, len(services))
	for i, s := range services {
		if s.Name == name || name == "" && len(services) == 1 {
			return s, nil
		}
		known[i] = s.Name
	}
	if name == "" {
		return Service{}, wrongQuestion("there are %d services: name one of %s", len(services), strings.Join(known, ", "))
	}
	return Service{}, wrongQuestion("unknown service %q: it is one of %s", name, strings.Join(known, ", "))
}

// members are the service's, with the capacity that a decision would give them.
func members(ctx context.Context, s Service) ([]model.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, collectWithin)
	defer cancel()
	listed, err := s.Members.List(ctx)
	list := make([]model.Endpoint, len(listed))
	for i, e := range listed {
		list[i] = e
		if e.Capacity <= 0 {
			list[i].Capacity = s.Policy.Capacity
		}
	}
	return list, err
}

func collectAt(ctx context.Context, s *promql.Source, at time.Time, endpoints []model.Endpoint) (model.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*collectWithin)
	defer cancel()
	return s.At(at).Collect(ctx, endpoints)
}
