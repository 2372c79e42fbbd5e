package agent

import (
	"context"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/datagram"
	"taper.dev/taper/internal/probe/stream"
)

// ends are the two ends of a test.
type ends struct {
	near func(context.Context, probe.Spec, probe.Line) (probe.Trial, error)
	far  func(context.Context, probe.Spec, probe.Arrivals) (probe.Side, error)
}

// endsOf finds the ends of a test.
type endsOf func(probe.Test) ends

func realEnds(t probe.Test) ends {
	if t.Datagrams() {
		return ends{near: datagram.Near, far: datagram.Far}
	}
	return ends{near: stream.Near, far: stream.Far}
}
