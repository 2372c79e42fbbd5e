package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/apply/eds"
	"taper.dev/taper/internal/source"
	"taper.dev/taper/internal/source/envoystats"
	"taper.dev/taper/internal/source/promql"
)

// membersEvery is how often names are looked up: a removed endpoint must not get
// requests for a whole control interval.
const membersEvery = 5 * time.Second

// Run wires what the configuration says and runs it until the context ends. What
// cannot work at all, such as an address in use, is an error at once; a store
// that does not answer is waited for.
func Run(ctx context.Context, cfg *Config, logger *slog.Logger) error {
	services, closeSources, err := wire(cfg)
	if err != nil {
		return err
	}
	defer closeSources()
	controller := &Controller{
		Services: services, Interval: time.Duration(cfg.Interval), MembersEvery: membersEvery, Logger: logger,
	}
	if cfg.StateFile != "" {
		states, err := readState(cfg.StateFile)
		if err != nil {
			return err
		}
		if err := writeState(cfg.StateFile, states); err != nil {
			return fmt.Errorf("the state cannot be stored: %w", err)
		}
		controller.Restore(states)
		controller.Store = func(states map[string]State) error { return writeState(cfg.StateFile, states) }
	}
	server, err := eds.Listen(cfg.Listen, logger)
	if err != nil {
		return err
	}
	controller.Applier = server
	logger.Info("serving endpoints to Envoy", "address", server.Addr(), "services", len(services), "interval", controller.Interval)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error { return controller.Run(ctx) })
	err = group.Wait()
	logger.Info("stopped: Envoy keeps the last weights")
	return err
}

// wire turns the configuration into services with their sources.
func wire(cfg *Config) (services []Service, closeSources func(), err error) {
	var shared source.Source
	var open []*envoystats.Source
	closeSources = func() {
		for _, s := range open {
			s.Close()
		}
	}
	if cfg.Source.PromQL != nil {
		if shared, err = promql.New(cfg.Source.PromQL.source(time.Duration(cfg.Interval))); err != nil {
			return nil, nil, fmt.Errorf("source.promql: %w", err)
		}
	}
	for _, s := range cfg.Services {
		policy, err := s.policy(time.Duration(cfg.Interval))
		if err != nil {
			closeSources()
			return nil, nil, fmt.Errorf("service %q: %w", s.Name, err)
		}
		service := Service{Name: s.Name, Members: s.members(), Policy: policy, Source: shared}
		if shared == nil {
			stats, err := s.envoyStats(cfg.Source.Envoy)
			if err != nil {
				closeSources()
				return nil, nil, fmt.Errorf("source.envoy: %w", err)
			}
			open = append(open, stats)
			service.Source = stats
		}
		services = append(services, service)
	}
	return services, closeSources, nil
}

func (s ServiceConfig) envoyStats(cfg *EnvoyConfig) (*envoystats.Source, error) {
	cluster := s.Cluster
	if cluster == "" {
		cluster = s.Name
	}
	return envoystats.Start(envoystats.Config{Admins: cfg.Admin, Cluster: cluster})
}
