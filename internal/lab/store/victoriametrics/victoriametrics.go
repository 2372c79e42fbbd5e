// Package victoriametrics runs a real VictoriaMetrics server as the lab's
// store: on loopback, in a directory of its own, scraping the lab's exporter.
//
// URLs to scrape go in by [Config]; out comes the URL of its Prometheus HTTP
// API. Start with [Start]; scrape.go writes what the server reads, ready.go asks
// it how far it is.
package victoriametrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"taper.dev/taper/internal/lab/process"
)

const (
	// readyWithin is generous: an idle machine needs a fraction of a second.
	readyWithin = 20 * time.Second
	// stopWithin is how long the server may take to flush before it is killed.
	stopWithin = 5 * time.Second
)

// Config says what is scraped.
type Config struct {
	// Targets are the URLs to scrape, such as http://127.0.0.1:9090/metrics.
	Targets []string
	// ScrapeEvery is both the interval and the longest that a scrape may take.
	ScrapeEvery time.Duration
}

// Store is a running server.
type Store struct {
	url    string
	dir    string
	server *process.Process
}

// Start runs the server and returns once every target was scraped, so targets
// have to be up before. After that, a sample can be queried about a second after
// its scrape: the server buffers that long.
func Start(ctx context.Context, cfg Config) (*Store, error) {
	binary, err := lookup()
	if err != nil {
		return nil, err
	}
	scrapes, err := scrapeConfig(cfg)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, fmt.Errorf("finding a port for victoria-metrics: %w", err)
	}
	dir, err := os.MkdirTemp("", "taper-victoria-metrics-")
	if err != nil {
		return nil, err
	}
	s := &Store{url: "http://" + address, dir: dir}
	if err := s.run(ctx, binary, address, len(cfg.Targets), scrapes); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL is the base of the Prometheus HTTP API.
func (s *Store) URL() string { return s.url }

// Close ends the server and removes its data.
func (s *Store) Close() error {
	if s.server != nil {
		s.server.Stop(stopWithin)
	}
	return os.RemoveAll(s.dir)
}

func (s *Store) run(ctx context.Context, binary, address string, targets int, scrapes []byte) error {
	scrapeFile := filepath.Join(s.dir, "scrape.yaml")
	if err := os.WriteFile(scrapeFile, scrapes, 0o600); err != nil {
		return err
	}
	server, err := process.Start(process.Spec{
		Name: "victoria-metrics",
		Path: binary,
		Args: arguments(s.dir, address, scrapeFile),
		Log:  filepath.Join(s.dir, "server.log"),
	})
	if err != nil {
		return err
	}
	s.server = server
	ready := func(ctx context.Context) error { return s.scraped(ctx, targets) }
	if err := process.Await(ctx, server, ready, readyWithin); err != nil {
		return err
	}
	return s.flush(ctx)
}

func arguments(dir, address, scrapeFile string) []string {
	return []string{
		"-storageDataPath=" + filepath.Join(dir, "data"),
		"-httpListenAddr=" + address,
		"-promscrape.config=" + scrapeFile,
		"-promscrape.config.strictParse",
		"-retentionPeriod=1d",
		// By default the newest 30 s are hidden from queries, which is longer than
		// an experiment's control interval. The server takes no less than 1 s.
		"-search.latencyOffset=1s",
		"-memory.allowedBytes=128MB",
		"-loggerLevel=WARN",
	}
}

// lookup finds the server under the name that Debian gives it, then under the
// one that the project's own releases have.
func lookup() (string, error) {
	path, err := process.Lookup("victoria-metrics", "install it (Debian: apt-get install victoria-metrics) or use the embedded store")
	if err == nil {
		return path, nil
	}
	if path, err := process.Lookup("victoria-metrics-prod", ""); err == nil {
		return path, nil
	}
	return "", err
}

// freeAddress returns an address on which nobody listens at the moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
