// Package store says what it takes to be the place where the lab's samples are
// kept. Its children implement it: embedded keeps them in this process,
// victoriametrics runs the real server. They do not know each other.
//
// Scrape targets go in when a store is started; out comes the URL of a
// Prometheus HTTP API, so that the experiment reads its samples through the very
// source that is used in production.
package store

// Job is the job label of everything that a store scrapes.
const Job = "taper-lab"

// Store scrapes its targets until it is closed.
type Store interface {
	// URL is the base of the Prometheus HTTP API.
	URL() string
	// Close ends scraping and answering, and returns once nothing of the store is
	// left running. It may be called more than once.
	Close() error
}
