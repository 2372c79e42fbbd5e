package datagram

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// way is where a datagram goes.
type way int

const (
	outward way = iota // to the far end
	inward
)

// relay stands between both ends of a trial with one stream, and does to datagrams what
// networks do.
type relay struct {
	t    *testing.T
	near *net.UDPConn // where the near end sends to
	far  *net.UDPConn // where the far end is
	// rule says what to pass on in place of a datagram, the how-manieth of its way and kind.
	rule func(w way, k kind, n int, b []byte) [][]byte

	peer   atomic.Pointer[netip.AddrPort] // the near end
	counts [2][kinds]int
	tag    uint32
}

// pass is a rule's usual answer.
func pass(b []byte) [][]byte { return [][]byte{b} }

// behind starts a relay to a reception; it ends with the test.
func (r *reception) behind(rule func(w way, k kind, n int, b []byte) [][]byte) probe.Line {
	t := r.t.(*testing.T)
	near, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.address))
	if err != nil {
		t.Fatal(err)
	}
	y := &relay{t: t, near: near, far: far, rule: rule, tag: tagOf(r.hello)}
	var both sync.WaitGroup
	both.Go(y.outward)
	both.Go(y.inward)
	t.Cleanup(func() { near.Close(); far.Close(); both.Wait() })
	return probe.Line{Peer: near.LocalAddr().(*net.UDPAddr).AddrPort(), Hello: r.hello}
}

func (y *relay) outward() {
	b := make([]byte, 1<<16)
	for {
		n, from, err := y.near.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		y.peer.Store(&from)
		for _, d := range y.ruled(outward, b[:n]) {
			_, _ = y.far.Write(d)
		}
	}
}

func (y *relay) inward() {
	b := make([]byte, 1<<16)
	for {
		n, err := y.far.Read(b)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		for _, d := range y.ruled(inward, b[:n]) {
			_, _ = y.near.WriteToUDPAddrPort(d, *y.peer.Load())
		}
	}
}

// ruled asks the rule. The kind is 0 of what has no header: hellos, and messages of
// latency tests.
func (y *relay) ruled(w way, b []byte) [][]byte {
	h, ok := parse(b)
	if !ok || h.tag != y.tag {
		h.kind = 0
	}
	y.counts[w][h.kind]++
	return y.rule(w, h.kind, y.counts[w][h.kind], b)
}

// through runs both ends of a trial with a relay between them.
func through(t *testing.T, s probe.Spec, rule func(w way, k kind, n int, b []byte) [][]byte) (probe.Trial, error) {
	t.Helper()
	r := receive(t, here, "127.0.0.1:0")
	return r.ends(t.Context(), t.Context(), r.behind(rule), s)
}

// paced is a bandwidth test at a rate that the relay keeps up with.
func paced(messages int) probe.Spec {
	return spec(probe.UDPBandwidth, func(s *probe.Spec) {
		s.Duration = 200 * time.Millisecond
		s.RatePerS = float64(messages) / s.Duration.Seconds()
		s.MessageBytes = 100
	})
}

func TestBandwidthCountsWhatNetworksDo(t *testing.T) {
	t.Parallel()
	for _, direction := range []probe.Direction{probe.Out, probe.In} {
		t.Run(string(direction), func(t *testing.T) {
			t.Parallel()
			s := paced(200)
			s.Direction = direction
			var held []byte
			var lost, twice, late atomic.Int64
			trial, err := through(t, s, func(_ way, k kind, n int, b []byte) [][]byte {
				switch {
				case k != data:
					return pass(b)
				case n%10 == 0 || n > 197: // the last ones among them
					lost.Add(1)
					return nil
				case n%20 == 3:
					twice.Add(1)
					return [][]byte{b, b}
				case n%50 == 21: // comes after the next
					held = append([]byte(nil), b...)
					return nil
				case n%50 == 22:
					late.Add(1)
					return [][]byte{b, held}
				case n == 55: // and some are not ours
					return [][]byte{b, []byte("noise"), b[:len(b)-1], append(append([]byte{}, b...), 0), other(b)}
				default:
					return pass(b)
				}
			})
			if err != nil || trial.Incomplete != "" {
				t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
			}
			sender, receiver := trial.Near, trial.Far
			if direction == probe.In {
				sender, receiver = receiver, sender
			}
			if sender.Sent < 100 || receiver.Received != sender.Sent-lost.Load() || receiver.Duplicated != twice.Load() || receiver.Reordered != late.Load() || receiver.Foreign != 4 {
				t.Errorf("sent %d, received %+v; want 200, and %d less with %d duplicated, %d reordered, 4 foreign", sender.Sent, receiver, lost.Load(), twice.Load(), late.Load())
			}
			if sender.SentBytes != 100*sender.Sent || receiver.ReceivedBytes != 100*receiver.Received {
				t.Errorf("%d bytes sent, %d received; want 100 a message", sender.SentBytes, receiver.ReceivedBytes)
			}
			if total(sender.Bins) != sender.SentBytes || total(receiver.Bins) != receiver.ReceivedBytes {
				t.Errorf("bins %v and %v do not add up to %d and %d", sender.Bins, receiver.Bins, sender.SentBytes, receiver.ReceivedBytes)
			}
			if e := sender.Elapsed; e < 195*time.Millisecond || e > 5*time.Second {
				t.Errorf("the sender took %v; want 200 ms", e)
			}
		})
	}
}

// other is the datagram as one of another trial.
func other(b []byte) []byte {
	c := append([]byte(nil), b...)
	c[0] ^= 1
	return c
}

func total(bins []int64) (sum int64) {
	for _, b := range bins {
		sum += b
	}
	return sum
}

// What both ends say to each other besides may be lost, too.
func TestHandshakesSurviveLoss(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]struct {
		way    way
		kind   kind
		first  int // so many are lost
		itself probe.Direction
	}{
		"hello":              {outward, 0, 3, probe.Out},
		"answer to hello":    {inward, 0, 3, probe.In},
		"begin":              {outward, begin, 2, probe.In},
		"finish":             {outward, finish, 4, probe.Out},
		"finish, inward":     {inward, finish, 4, probe.In},
		"finished":           {inward, finished, 4, probe.Out},
		"finished, outward":  {outward, finished, 4, probe.In},
		"bye":                {outward, bye, 1, probe.Out},
		"bye, inward":        {inward, bye, 1, probe.In},
		"most of everything": {outward, kinds, 2, probe.Out},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := paced(20)
			s.Direction = lost.itself
			trial, err := through(t, s, func(w way, k kind, n int, b []byte) [][]byte {
				if k != data && n <= lost.first && (w == lost.way && k == lost.kind || lost.kind == kinds) {
					return nil
				}
				return pass(b)
			})
			if err != nil || trial.Incomplete != "" {
				t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
			}
			if sent, received := trial.Near.Sent+trial.Far.Sent, trial.Near.Received+trial.Far.Received; sent != 20 || received != 20 {
				t.Errorf("%d sent, %d received; want 20 of 20", sent, received)
			}
		})
	}
}

func TestLatencyOfALostAnswer(t *testing.T) {
	t.Parallel()
	s := spec(probe.UDPLatency, func(s *probe.Spec) { s.Duration = answerTime + 600*time.Millisecond })
	trial, err := through(t, s, func(w way, k kind, n int, b []byte) [][]byte {
		if w == inward && len(b) == 1 && n == 10 {
			return nil
		}
		return pass(b)
	})
	if err != nil || trial.Incomplete != "" {
		t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
	}
	if trial.Unanswered != 1 || trial.RTT.Count() != trial.Near.Sent-1 || trial.Near.Received != trial.Near.Sent-1 {
		t.Errorf("%d unanswered, %d round trips, near %+v; want one unanswered", trial.Unanswered, trial.RTT.Count(), trial.Near)
	}
	if trial.Near.Sent < 12 {
		t.Errorf("only %d messages: the trial did not go on", trial.Near.Sent)
	}
}

// An answer that is late is one, with the time that it took; and one that comes twice
// is not taken for the answer to a later message of the same low byte.
func TestLatencyOfLateAnswers(t *testing.T) {
	t.Parallel()
	s := spec(probe.UDPLatency, func(s *probe.Spec) { s.Duration = answerTime + 1500*time.Millisecond })
	release := time.Now()
	var held []byte
	trial, err := through(t, s, func(w way, k kind, n int, b []byte) [][]byte {
		switch {
		case w == outward || len(b) != 1:
			return pass(b)
		case n == 10:
			held, release = append([]byte(nil), b...), time.Now().Add(answerTime+200*time.Millisecond)
			return nil
		case held != nil && time.Now().After(release):
			late := held
			held = nil
			return [][]byte{late, late, b}
		default:
			return pass(b)
		}
	})
	if err != nil || trial.Incomplete != "" {
		t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
	}
	if trial.Unanswered != 0 || trial.RTT.Count() != trial.Near.Sent || trial.Near.Duplicated != 1 {
		t.Errorf("%d unanswered, %d round trips, near %+v; want all answered and one twice", trial.Unanswered, trial.RTT.Count(), trial.Near)
	}
	if m := trial.RTT.Max(); m < answerTime+200*time.Millisecond || m > 3*time.Second {
		t.Errorf("the longest took %v; want %v and some", m, answerTime+200*time.Millisecond)
	}
}

// A stall of 200 ms counts for all messages that it held up: with 1,000 of them a second,
// half of those 200 wait for more than 100 ms. (A closed loop would tell of one.)
func TestLatencyAtARateTellsOfStalls(t *testing.T) {
	t.Parallel()
	s := spec(probe.UDPLatency, func(s *probe.Spec) { s.RatePerS, s.Duration = 1000, time.Second })
	trial, err := through(t, s, func(w way, k kind, n int, b []byte) [][]byte {
		if w == outward && k == 0 && n == 300 {
			time.Sleep(200 * time.Millisecond) // the stall itself
		}
		return pass(b)
	})
	if err != nil || trial.Incomplete != "" {
		t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
	}
	if trial.Spec.MessageBytes != numberBytes || trial.Near.Sent != 1000 || trial.RTT.Count() != 1000 {
		t.Fatalf("%d messages of %d bytes, %d answered; want 1000 of 8", trial.Near.Sent, trial.Spec.MessageBytes, trial.RTT.Count())
	}
	p90, _ := trial.RTT.Percentile(90)
	if m := trial.RTT.Max(); p90 < 95*time.Millisecond || m < 195*time.Millisecond {
		t.Errorf("p90 %v, longest %v; want 100 and 200 ms or more", p90, m)
	}
}

func TestLatencyAtARateCountsLoss(t *testing.T) {
	t.Parallel()
	s := spec(probe.UDPLatency, func(s *probe.Spec) { s.RatePerS = 1000; s.MessageBytes, s.ReplyBytes = 16, 32 })
	trial, err := through(t, s, func(w way, k kind, n int, b []byte) [][]byte {
		switch {
		case w == outward || len(b) != 32 || n == 1: // the first is the answer to the hello
			return pass(b)
		case n%10 == 0:
			return nil
		case n%10 == 5:
			return [][]byte{b, b}
		default:
			return pass(b)
		}
	})
	if err != nil || trial.Incomplete != "" {
		t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
	}
	if trial.Near.Sent != 200 || trial.Unanswered != 20 || trial.RTT.Count() != 180 || trial.Near.Duplicated != 20 {
		t.Errorf("%d unanswered, %d round trips, near %+v; want 20 of 200, and 20 twice", trial.Unanswered, trial.RTT.Count(), trial.Near)
	}
}

// Loss is no black hole: small packets vanish, too.
func TestPathMTUWithLoss(t *testing.T) {
	t.Parallel()
	trial, err := through(t, probe.Default(probe.PathMTU), func(w way, k kind, n int, b []byte) [][]byte {
		if k != 0 && n%3 == 1 {
			return nil
		}
		return pass(b)
	})
	if err != nil || trial.Incomplete != "" {
		t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
	}
	if want := (probe.PathMTUFound{Out: 65535, In: 65535, Believed: 65535, FarBelieved: 65535}); *trial.PathMTU != want {
		t.Errorf("found %+v; want %+v", *trial.PathMTU, want)
	}
}
