package balance

import "taper.dev/taper/internal/model"

// Release steps the weights back towards equal, whatever was or was not measured:
// for a service that is to be given back. It is called again until the second
// result is true: all weights are equal, and taking them away changes nothing.
func Release(in Input) (model.Weights, bool) {
	if len(in.Endpoints) == 0 {
		return model.Weights{}, true
	}
	in.Snapshot = nil
	s := observe(in)
	s.release()
	weights := s.quantize()
	first := weights[in.Endpoints[0].Address]
	for _, w := range weights {
		if w != first {
			return weights, false
		}
	}
	return weights, true
}
