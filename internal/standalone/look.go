package standalone

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// Sight is what taper sees of a service, without acting on it.
type Sight struct {
	Service   string
	At        time.Time
	Endpoints []model.Endpoint
	Samples   model.Snapshot
	// Measured is the number of endpoints with a sample that a decision can use.
	Measured int
	// Covered tells whether they are enough to act.
	Covered bool
}

// Look asks each service's source once. Unlike the loop, it fails when a name
// does not resolve or a source does not answer.
func Look(ctx context.Context, cfg *Config) ([]Sight, error) {
	services, closeSources, err := wire(cfg)
	if err != nil {
		return nil, err
	}
	defer closeSources()
	if cfg.Source.Envoy != nil {
		// Envoy's statistics are counters since its start: a rate needs a while.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
	var seen []Sight
	for _, s := range services {
		sight, err := look(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("service %q: %w", s.Name, err)
		}
		seen = append(seen, sight)
	}
	return seen, nil
}

func look(ctx context.Context, s Service) (Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	endpoints, err := s.Members.List(ctx)
	if err != nil {
		return Sight{}, err
	}
	samples, err := s.Source.Collect(ctx, endpoints)
	if err != nil {
		return Sight{}, err
	}
	seen := Sight{Service: s.Name, At: time.Now(), Endpoints: endpoints, Samples: samples}
	d := balance.Decide(balance.Input{Now: seen.At, Endpoints: endpoints, Snapshot: samples, Policy: s.Policy})
	for _, v := range d.Verdicts {
		if v.Age >= 0 && v.Age <= s.Policy.MaxAge {
			seen.Measured++
		}
	}
	seen.Covered = float64(seen.Measured) >= s.Policy.Coverage*float64(len(endpoints))
	return seen, nil
}
