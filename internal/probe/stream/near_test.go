package stream_test

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/stream"
)

func TestBandwidth(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*probe.Spec)
	}{
		{"out", func(*probe.Spec) {}},
		{"in", func(s *probe.Spec) { s.Direction = probe.In }},
		{"four out", func(s *probe.Spec) { s.Streams = 4 }},
		{"four in", func(s *probe.Spec) { s.Streams, s.Direction = 4, probe.In }},
		{"small messages", func(s *probe.Spec) { s.MessageBytes = 100 }},
		{"the largest messages", func(s *probe.Spec) { s.MessageBytes = probe.MaxMessageBytes }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(probe.TCPBandwidth, c.change)
			trial := run(t, s)
			sender, receiver := trial.Near, trial.Far
			if s.Direction == probe.In {
				sender, receiver = receiver, sender
			}
			if trial.Incomplete != "" || trial.RTT != nil {
				t.Errorf("incomplete %q, round trips %v", trial.Incomplete, trial.RTT)
			}
			if sender.Elapsed != s.Duration || receiver.Elapsed != s.Duration {
				t.Errorf("elapsed %v and %v; want %v", sender.Elapsed, receiver.Elapsed, s.Duration)
			}
			if receiver.ReceivedBytes == 0 || receiver.SentBytes != 0 || sender.ReceivedBytes != 0 {
				t.Errorf("sender %+v, receiver %+v", sender, receiver)
			}
			if want := receiver.ReceivedBytes / int64(s.MessageBytes); s.Streams == 1 && receiver.Received != want {
				t.Errorf("%d messages received; want %d", receiver.Received, want)
			}
			for name, side := range map[string]probe.Side{"sender": sender, "receiver": receiver} {
				checkBins(t, name, side)
				if len(side.TCP) != s.Streams || side.TCP[0].Congestion == "" || side.TCP[0].MSS == 0 || side.TCP[0].PMTU == 0 {
					t.Errorf("%s: the kernel says %+v", name, side.TCP)
				}
			}
			if i := sender.TCP[0]; i.Busy <= 0 || i.Segments == 0 {
				t.Errorf("the kernel of the sender says %+v", i)
			}
		})
	}
}

// checkBins: bins are all of the bytes, and there is one for each tenth of a second.
func checkBins(t *testing.T, name string, side probe.Side) {
	t.Helper()
	var sum int64
	for _, n := range side.Bins {
		sum += n
	}
	if want := max(side.ReceivedBytes, side.SentBytes); sum != want {
		t.Errorf("%s: bins have %d bytes of %d", name, sum, want)
	}
	if want := int((side.Elapsed + probe.BinWidth - 1) / probe.BinWidth); len(side.Bins) != want {
		t.Errorf("%s: %d bins in %v", name, len(side.Bins), side.Elapsed)
	}
}

func TestLatency(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*probe.Spec)
	}{
		{"cold", func(*probe.Spec) {}},
		{"hot", func(s *probe.Spec) { s.Mode = probe.Hot }},
		{"three", func(s *probe.Spec) { s.Streams = 3 }},
		{"sizes", func(s *probe.Spec) { s.MessageBytes, s.ReplyBytes = 3<<20, 70_000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(probe.TCPLatency, c.change)
			trial := run(t, s)
			near, far := trial.Near, trial.Far
			if trial.Incomplete != "" || trial.Unanswered != 0 || near.Sent == 0 ||
				near.Sent != near.Received || near.Sent != far.Sent || near.Sent != far.Received || trial.RTT.Count() != near.Sent {
				t.Fatalf("%+v", trial)
			}
			if want := near.Sent * int64(s.MessageBytes); near.SentBytes != want || far.ReceivedBytes != want {
				t.Errorf("%d bytes sent and %d received; want %d", near.SentBytes, far.ReceivedBytes, want)
			}
			if want := near.Sent * int64(s.ReplyBytes); near.ReceivedBytes != want || far.SentBytes != want {
				t.Errorf("%d bytes received and %d sent; want %d", near.ReceivedBytes, far.SentBytes, want)
			}
			// Round trips follow each other without a gap.
			sum := time.Duration(float64(trial.RTT.Mean()) * float64(near.Sent) / float64(s.Streams))
			if d := (sum - near.Elapsed).Abs(); s.Streams == 1 && d > near.Elapsed/50 {
				t.Errorf("round trips take %v, the trial %v", sum, near.Elapsed)
			}
			if near.Elapsed < s.Duration || len(near.TCP) != s.Streams || len(far.TCP) != s.Streams {
				t.Errorf("near %+v, far %+v", near, far)
			}
		})
	}
}

func TestLatencyAtRate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*probe.Spec)
		want   int64
	}{
		{"cold", func(s *probe.Spec) { s.RatePerS = 500 }, 100},
		{"hot", func(s *probe.Spec) { s.RatePerS, s.Mode = 200, probe.Hot }, 40},
		{"three, unevenly", func(s *probe.Spec) { s.RatePerS, s.Streams = 333.4, 3 }, 66},
		{"sizes", func(s *probe.Spec) { s.RatePerS, s.MessageBytes, s.ReplyBytes = 100, 5000, 300_000 }, 20},
		{"less than one", func(s *probe.Spec) { s.RatePerS = 0.001 }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial := run(t, spec(probe.TCPLatency, c.change))
			if trial.Incomplete != "" || trial.Unanswered != 0 || trial.RTT.Count() != c.want ||
				trial.Near.Sent != c.want || trial.Near.Received != c.want || trial.Far.Received != c.want || trial.Far.Sent != c.want {
				t.Errorf("%d round trips, want %d: %+v", trial.RTT.Count(), c.want, trial)
			}
		})
	}
}

func TestConnect(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*probe.Spec)
		want   int64 // 0 for as many as possible
	}{
		{"closed loop", func(*probe.Spec) {}, 0},
		{"three", func(s *probe.Spec) { s.Streams = 3 }, 0},
		{"at a rate", func(s *probe.Spec) { s.RatePerS, s.Streams = 100, 2 }, 20},
		{"sizes", func(s *probe.Spec) { s.MessageBytes, s.ReplyBytes = 100_000, 200_000 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(probe.Connect, c.change)
			trial := run(t, s)
			n := trial.Near.Received
			if trial.Incomplete != "" || trial.Unanswered != 0 || n == 0 || c.want > 0 && n != c.want ||
				trial.RTT.Count() != n || trial.Connect.Count() != n || trial.Far.Sent != n {
				t.Fatalf("want %d: %+v", c.want, trial)
			}
			if trial.Connect.Mean() >= trial.RTT.Mean() {
				t.Errorf("connecting takes %v, all of it %v", trial.Connect.Mean(), trial.RTT.Mean())
			}
		})
	}
}

// TestNoneWaits: connections of conn do not keep their ports for a minute after their end,
// but for the one that says goodbye.
func TestNoneWaits(t *testing.T) {
	a := listen(t, "tcp", "127.0.0.1:0")
	s := spec(probe.Connect)
	result := a.serve(t.Context(), s)
	trial := near(t, t.Context(), s, a.line)
	if got := await(t, result); got.err != nil {
		t.Fatal(got.err)
	}
	if n := waiting(t, a.line.Peer.Port()); n > 10 {
		t.Errorf("%d of %d connections wait", n, trial.Near.Received)
	}
}

func TestResponsiveness(t *testing.T) {
	s := spec(probe.Responsiveness, func(s *probe.Spec) {
		s.Duration, s.Streams, s.MessageBytes = 1500*time.Millisecond, 3, 16<<10
	})
	trial := run(t, s)
	if trial.Incomplete != "" {
		t.Fatalf("incomplete: %s", trial.Incomplete)
	}
	for name, d := range map[string]*probe.Distribution{
		"idle": trial.Idle, "foreign": trial.RTT, "connect": trial.Connect, "load": trial.Load,
	} {
		if d.Count() < 5 {
			t.Errorf("%s: %d samples", name, d.Count())
		}
	}
	if _, ok := probe.RPM(trial); !ok {
		t.Error("there is no responsiveness")
	}
	near, far := trial.Near, trial.Far
	if near.SentBytes == 0 || near.ReceivedBytes == 0 || far.SentBytes == 0 || far.ReceivedBytes == 0 {
		t.Errorf("near %+v, far %+v", near, far)
	}
	if n := len(near.TCP); n < 2 || n > 2*s.Streams || n != len(far.TCP) {
		t.Errorf("%d connections here and %d there", n, len(far.TCP))
	}
}

func TestOverIPv6(t *testing.T) {
	a := listen(t, "tcp6", "[::1]:0")
	s := spec(probe.TCPLatency)
	result := a.serve(t.Context(), s)
	trial := near(t, t.Context(), s, a.line)
	if got := await(t, result); got.err != nil || trial.Incomplete != "" || trial.RTT.Count() == 0 {
		t.Errorf("%v, %+v", got.err, trial)
	}
}

func TestFromAddress(t *testing.T) {
	a := listen(t, "tcp", "127.0.0.1:0")
	a.line.Local = loopback.Next() // 127.0.0.2
	for _, s := range []probe.Spec{spec(probe.TCPLatency), spec(probe.Connect)} {
		result := a.serve(t.Context(), s)
		trial := near(t, t.Context(), s, a.line)
		if got := await(t, result); got.err != nil || trial.Incomplete != "" || trial.RTT.Count() == 0 {
			t.Errorf("%v, %+v", got.err, trial)
		}
	}
	for _, peer := range a.peers() {
		if peer != a.line.Local {
			t.Errorf("a connection came from %v", peer)
		}
	}
}

func TestPinned(t *testing.T) {
	cpu := 0
	s := spec(probe.TCPLatency, func(s *probe.Spec) { s.NearCPU, s.FarCPU = &cpu, &cpu })
	trial := run(t, s)
	for name, usage := range map[string]probe.Usage{"near": trial.Near.Usage, "far": trial.Far.Usage} {
		if len(usage.CPUs) != 1 || usage.CPUs[0] != 0 || usage.User+usage.System <= 0 || usage.Waited == 0 {
			t.Errorf("%s used %+v", name, usage)
		}
	}
	none := 900
	s.NearCPU = &none
	a := listen(t, "tcp", "127.0.0.1:0")
	result := a.serve(t.Context(), s)
	_, err := stream.Near(t.Context(), s, a.line)
	if err == nil || !strings.Contains(err.Error(), "CPU 900") {
		t.Errorf("got %v", err)
	}
	await(t, result)
}
