package balance

import (
	"math"

	"taper.dev/taper/internal/model"
)

const (
	// smallestWeight is what the smallest share is given, so that rounding to an
	// integer moves no share by more than 0.5 %. It is kept small: a mesh may give
	// weight 1 to an endpoint that it knows and the weights do not, and that one
	// starves beside large ones.
	smallestWeight = 128
	// mostWeight bounds the sum of a service's weights. Envoy refuses a locality
	// whose sum passes 2^32-1, and Istio multiplies weights on some meshes.
	mostWeight = 1 << 30
)

// quantize turns the decided shares into integer weights of at least 1.
func quantize(members []member) model.Weights {
	smallest := math.Inf(1)
	for i := range members {
		smallest = min(smallest, members[i].next)
	}
	scale := min(smallestWeight/smallest, mostWeight)
	weights := make(model.Weights, len(members))
	for i := range members {
		weights[members[i].Address] = uint32(max(1, math.Round(members[i].next*scale)))
	}
	return weights
}

func equalWeights(endpoints []model.Endpoint) model.Weights {
	weights := make(model.Weights, len(endpoints))
	for _, ep := range endpoints {
		weights[ep.Address] = smallestWeight
	}
	return weights
}
