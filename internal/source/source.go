// Package source says what it takes to be a place where samples come from.
// Its children implement it: promql asks a Prometheus or VictoriaMetrics,
// envoystats asks Envoy's own admin interface. They do not know each other.
package source

import (
	"context"

	"taper.dev/taper/internal/model"
)

// Source measures endpoints.
type Source interface {
	// Collect returns the newest sample of each of the endpoints. What could not
	// be measured is missing from the snapshot, never zero, and each reading
	// carries the time at which it was measured, not the time of the question.
	//
	// An error means that the source as a whole did not answer; it names the
	// source, without credentials. Collect honours the context's deadline.
	Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error)
}
