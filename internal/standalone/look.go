package standalone

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/model"
)

// Sight is what taper sees of a service, without acting on it.
type Sight struct {
	Service   string
	At        time.Time
	Endpoints []model.Endpoint
	Samples   model.Snapshot
	// Covered tells whether enough endpoints were measured to act.
	Covered bool
}

// Measured is the number of endpoints with a valid CPU or in-flight reading.
func (s Sight) Measured() int {
	n := 0
	for _, e := range s.Endpoints {
		if sample := s.Samples[e.Address]; sample.CPU.Valid() || sample.InFlight.Valid() {
			n++
		}
	}
	return n
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
	seen.Covered = float64(seen.Measured()) >= s.Policy.Coverage*float64(len(endpoints))
	return seen, nil
}
