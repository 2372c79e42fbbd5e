package agent

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// All tests as they are, both ways, from here and from agent to agent.
func TestRealEnds(t *testing.T) {
	t.Parallel()
	a := serve(t, agentWith(realEnds))
	b := serve(t, agentWith(realEnds))
	c := connect(t, a.Addr().String(), clientWith(realEnds))
	delegate := func(ctx context.Context, spec probe.Spec) (probe.Trial, error) {
		return c.Delegate(ctx, Target{Address: b.Addr().String()}, spec)
	}
	for _, test := range probe.Tests {
		for _, direction := range []probe.Direction{probe.Out, probe.In} {
			spec := short(test, lasting(150*time.Millisecond))
			spec.Direction = direction
			check(t, "to an agent", spec, c.Run)
		}
		check(t, "between agents", short(test, lasting(150*time.Millisecond)), delegate)
	}
	// What comes late of a trial that is over is no trouble to tell of.
	if strings.Contains(a.log.String()+b.log.String(), "level=WARN") {
		t.Errorf("warnings:\n%s\n%s", a.log, b.log)
	}
}

// Ends that spin on all CPUs must not keep the two sides from hearing of each other.
func TestSpinningEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, agentWith(realEnds))
	c := connect(t, s.Addr().String(), clientWith(realEnds))
	spec := short(probe.TCPLatency, lasting(quick.silence*5/4))
	spec.Mode = probe.Hot
	check(t, "spinning", spec, c.Run)
}

// check runs a trial that must be whole. On a machine that is busy with other things an
// end may be kept from its CPU for too much of so short a trial: then it gets another.
func check(t *testing.T, what string, spec probe.Spec, run func(context.Context, probe.Spec) (probe.Trial, error)) {
	t.Helper()
	trial, err := run(t.Context(), spec)
	for try := 1; try < 3 && err == nil && trial.Incomplete != ""; try++ {
		t.Logf("%s %s %s: %s", spec.Test, spec.Direction, what, trial.Incomplete)
		trial, err = run(t.Context(), spec)
	}
	switch {
	case err != nil || trial.Incomplete != "":
		t.Errorf("%s %s %s: %v, %s", spec.Test, spec.Direction, what, err, trial.Incomplete)
		return
	case spec.Test == probe.PathMTU:
		if trial.PathMTU == nil || trial.PathMTU.Out < 1500 {
			t.Errorf("%s %s: the path MTU is %+v", spec.Test, what, trial.PathMTU)
		}
		return
	case spec.Test == probe.Responsiveness:
		if trial.Load == nil || trial.RTT == nil || trial.Connect == nil {
			t.Errorf("%s %s %s: no latency under load: %+v", spec.Test, spec.Direction, what, trial)
		}
		return
	case spec.ReplyBytes > 0 && (trial.RTT == nil || trial.RTT.Count() == 0):
		t.Errorf("%s %s: no round trips", spec.Test, what)
	}
	received := trial.Far.ReceivedBytes
	if spec.Direction == probe.In {
		received = trial.Near.ReceivedBytes
	}
	if received == 0 {
		t.Errorf("%s %s %s: nothing arrived: %+v", spec.Test, spec.Direction, what, trial)
	}
}

// Many trials, sessions and strangers later, an agent holds what it held before.
func TestNothingIsLeft(t *testing.T) {
	s := serve(t, agentWith(realEnds))
	held := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	round := func() {
		c, err := Dial(t.Context(), s.Addr().String(), options(clientWith(realEnds)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, test := range []probe.Test{probe.TCPLatency, probe.UDPLatency, probe.TCPBandwidth} {
			if _, err := c.Run(t.Context(), short(test, lasting(20*time.Millisecond))); err != nil {
				t.Fatal(err)
			}
		}
		conn := raw(t, s.Addr())
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_ = conn.Close()
	}
	round()
	goroutines, files := held()
	for range 20 {
		round()
	}
	eventually(t, "giving everything back", func() bool {
		g, f := held()
		return g <= goroutines && f <= files
	})
}
