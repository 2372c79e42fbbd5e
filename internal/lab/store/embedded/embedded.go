// Package embedded is a small store in this process: it scrapes targets as
// Prometheus does, keeps their newest samples in memory, and answers instant
// queries over HTTP with Prometheus's own query engine. An experiment needs no
// installed server then, and its samples still take the way they take in
// production.
//
// URLs to scrape go in by [Config]; out comes the URL of a Prometheus HTTP API
// that knows /api/v1/query and /-/healthy. Start with [Start]; scrape.go fills
// memory.go, api.go reads it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// DefaultRetention is more than the five minutes over which a query looks back.
const DefaultRetention = 10 * time.Minute

// closeWithin is how long clients that are connected may hold up Close.
const closeWithin = 2 * time.Second

// Config says what is scraped and what is kept of it.
type Config struct {
	// Targets are the URLs to scrape, such as http://127.0.0.1:9090/metrics.
	Targets []string
	// ScrapeEvery is both the interval and the longest that a scrape may take.
	ScrapeEvery time.Duration
	// Retention is how long samples are kept; [DefaultRetention] if 0.
	Retention time.Duration
}

// Store is a running store.
type Store struct {
	url     string
	api     *api
	server  *http.Server
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start listens on a free port of the loopback interface and scrapes each
// target at once, then at each interval.
func Start(cfg Config) (*Store, error) {
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.ScrapeEvery <= 0 || cfg.Retention < cfg.ScrapeEvery {
		return nil, fmt.Errorf("scraping every %s and keeping %s of it is not possible; want an interval above 0 and a retention of at least that", cfg.ScrapeEvery, cfg.Retention)
	}
	kept := newMemory(cfg.ScrapeEvery, cfg.Retention)
	scrapers, err := newScrapers(cfg, kept)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the embedded store: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	api := newAPI(kept)
	s := &Store{
		url: "http://" + listener.Addr().String(),
		api: api,
		server: &http.Server{
			Handler:     api.handler(),
			ReadTimeout: 10 * time.Second,
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
		cancel: cancel,
	}
	for _, scraper := range scrapers {
		s.running.Go(func() { scraper.run(ctx, cfg.ScrapeEvery) })
	}
	s.running.Go(func() { s.server.Serve(listener) }) // ends by Close only
	return s, nil
}

// URL is the base of the Prometheus HTTP API.
func (s *Store) URL() string { return s.url }

// Close ends scraping and answering, queries under way included, and returns
// when both have ended.
func (s *Store) Close() error {
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close() // of connections that never sent a request
	}
	s.running.Wait()
	return errors.Join(err, s.api.close())
}
