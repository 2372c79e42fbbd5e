package agent

import (
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestBytesAreLimitedAtRealEnds(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	s := serve(t, agentWith(realEnds), func(o *Options) { o.Limits.Bytes = most })
	c := connect(t, s.Addr().String(), clientWith(realEnds))
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency, probe.UDPBandwidth, probe.UDPLatency, probe.Connect, probe.Responsiveness} {
		for _, direction := range []probe.Direction{probe.Out, probe.In} {
			begun := time.Now()
			trial, err := c.Run(t.Context(), short(test, lasting(3*time.Second), func(s *probe.Spec) {
				s.Direction = direction
				if s.MessageBytes == 1 {
					s.MessageBytes = 8 << 10
				}
			}))
			carried := trial.Far.SentBytes + trial.Far.ReceivedBytes
			t.Logf("%s %s: %d bytes in %v, %q", test, direction, carried, time.Since(begun).Round(time.Millisecond), trial.Incomplete)
			if err != nil || trial.Incomplete == "" || time.Since(begun) > 2500*time.Millisecond {
				t.Errorf("%s %s: %v", test, direction, err)
			}
		}
	}
}
