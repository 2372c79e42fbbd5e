// Package apply says what it takes to be a place where weights go. Its children
// implement it: eds serves them to any Envoy. They do not know each other.
package apply

import (
	"context"

	"taper.dev/taper/internal/model"
)

// Assignment is the whole membership of one service and the weight of each endpoint.
type Assignment struct {
	// Service is the name under which the data plane asks for the endpoints.
	Service string
	// Endpoints are all members, in the order in which they are served.
	Endpoints []model.Endpoint
	// Weights has a weight of at least 1 for each of Endpoints.
	Weights model.Weights
}

// Applier takes weights to a data plane.
type Applier interface {
	// Apply makes the assignment what is served for its service. It is
	// idempotent: an assignment equal to the last one changes nothing. Other
	// services are left alone. It returns once the assignment is on its way,
	// which is before the data plane has accepted it.
	Apply(ctx context.Context, a Assignment) error
}
