package datagram

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

// fit is the spec as it is carried out, which both ends must agree on; an error for one
// that cannot be.
//
// A message must hold what says which it is: its header in a bandwidth test, its whole
// number in a latency test at a rate, where many are on their way at once. One too short
// for this is made longer. A search for the path MTU has one stream and no rate.
func fit(spec probe.Spec) (probe.Spec, error) {
	if err := spec.Validate(); err != nil {
		return spec, err
	}
	switch spec.Test {
	case probe.UDPBandwidth:
		spec.MessageBytes = max(spec.MessageBytes, headerBytes)
	case probe.UDPLatency:
		if spec.ReplyBytes == 0 {
			return spec, fmt.Errorf("%s without answers is not possible: they must have 1 byte or more", spec.Test)
		}
		if spec.RatePerS > 0 {
			spec.MessageBytes = max(spec.MessageBytes, numberBytes)
			spec.ReplyBytes = max(spec.ReplyBytes, numberBytes)
		}
	case probe.PathMTU:
		spec.Streams, spec.RatePerS = 1, 0
	default:
		return spec, fmt.Errorf("%s is no test with datagrams", spec.Test)
	}
	return spec, nil
}

// Limit is how long an end of a trial takes at most, from when its sockets are there: what
// is said again because it was lost, and waiting for an end that is gone, take longer
// than the trial's duration; a search for the path MTU has no other limit.
func Limit(spec probe.Spec) time.Duration {
	around := 2*patience + idle + farewell
	if spec.Test == probe.PathMTU {
		return searchTime + around
	}
	return spec.Duration + answerTime + around
}
