package balance

import (
	"math"

	"taper.dev/taper/internal/model"
)

const (
	// smallestWeight is what the smallest share is given, so that rounding to an
	// integer moves no share by more than 0.5 %. [Policy.EqualWeight] is for meshes
	// where such a fine weight does harm.
	smallestWeight = 128
	// mostWeight bounds the sum of a service's weights. Envoy refuses a locality
	// whose sum passes 2^32-1, and Istio multiplies weights on some meshes.
	mostWeight = 1 << 30
)

// stickiness is how far from a coarse weight a share may be, in weights, before the
// weight is changed: more than the half of plain rounding, so that noise around a
// half does not rewrite the weights at each decision.
const stickiness = 0.75

// quantize turns the decided shares into integer weights of at least 1.
func (s *state) quantize() model.Weights {
	if s.in.Policy.EqualWeight > 0 {
		return s.quantizeCoarse()
	}
	members := s.members
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

// quantizeCoarse gives an equal share the weight that the policy sets.
func (s *state) quantizeCoarse() model.Weights {
	scale := float64(s.in.Policy.EqualWeight) * float64(len(s.members))
	weights := make(model.Weights, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		exact := m.next * scale
		weight := uint32(min(max(1, math.Round(exact)), mostWeight))
		if now := s.in.Current[m.Address]; now > 0 && math.Abs(exact-float64(now)) <= stickiness {
			weight = now
		}
		if m.reason == Warming { // what it starts with is the least that it gets
			weight = max(weight, uint32(math.Ceil(exact)))
		}
		weights[m.Address] = weight
	}
	return weights
}

// equalWeights are those of a service that nothing was decided for yet.
func (s *state) equalWeights() model.Weights {
	weight := s.in.Policy.EqualWeight
	if weight == 0 {
		weight = smallestWeight
	}
	weights := make(model.Weights, len(s.members))
	for i := range s.members {
		weights[s.members[i].Address] = weight
	}
	return weights
}
