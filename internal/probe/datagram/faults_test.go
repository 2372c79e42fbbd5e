package datagram

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// all are the tests, each way.
func all() map[string]probe.Spec {
	in := func(s *probe.Spec) { s.Direction = probe.In }
	return map[string]probe.Spec{
		"bandwidth":         probe.Default(probe.UDPBandwidth),
		"bandwidth, inward": spec(probe.UDPBandwidth, in),
		"bandwidth, paced":  spec(probe.UDPBandwidth, func(s *probe.Spec) { s.RatePerS = 100 }),
		"latency":           probe.Default(probe.UDPLatency),
		"latency, hot":      spec(probe.UDPLatency, func(s *probe.Spec) { s.Mode = probe.Hot }),
		"latency, paced":    spec(probe.UDPLatency, func(s *probe.Spec) { s.RatePerS = 100 }),
		"path MTU":          probe.Default(probe.PathMTU),
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	peer := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	conn.Close()
	begun := time.Now()
	trial, err := Near(t.Context(), probe.Default(probe.UDPLatency), probe.Line{Peer: peer, Hello: make([]byte, probe.HelloBytes)})
	if err != nil {
		t.Fatal(err)
	}
	if want := "nothing listens for datagrams at " + peer.String(); !strings.HasPrefix(trial.Incomplete, want) {
		t.Errorf("incomplete: %q; want %q", trial.Incomplete, want)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("that took %v", took)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	trial, err := Near(t.Context(), probe.Default(probe.UDPBandwidth), probe.Line{Peer: peer, Hello: make([]byte, probe.HelloBytes)})
	if err != nil {
		t.Fatal(err)
	}
	if want := "no answer from " + peer.String(); !strings.HasPrefix(trial.Incomplete, want) || trial.Near.Sent != 0 {
		t.Errorf("incomplete: %q, %d sent; want %q", trial.Incomplete, trial.Near.Sent, want)
	}
}

// The far end falls silent in the middle: nothing comes through any more, either way.
func TestFarEndFallsSilent(t *testing.T) {
	t.Parallel()
	for name, s := range all() {
		if s.Test == probe.PathMTU {
			continue // has too few packets for a middle
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dead atomic.Bool
			near, far := t.Context(), t.Context()
			r := receive(t, here, "127.0.0.1:0")
			line := r.behind(func(w way, k kind, n int, b []byte) [][]byte {
				if w == inward && k != finished && n > 2 || w == outward && k == data && n > 2 {
					dead.Store(true)
				}
				if dead.Load() {
					return nil
				}
				return pass(b)
			})
			trial, err := r.ends(near, far, line, s)
			if err == nil {
				t.Error("the far end takes it for a whole trial")
			}
			if trial.Incomplete == "" || !strings.Contains(trial.Incomplete, line.Peer.String()) {
				t.Errorf("incomplete: %q; want a word about %s", trial.Incomplete, line.Peer)
			}
			if trial.Near.Sent+trial.Near.Received == 0 {
				t.Errorf("of what there was, only %+v is kept", trial.Near)
			}
		})
	}
}

// An end that is told to stop does so at once, keeps what it has, and tells the other.
func TestStopping(t *testing.T) {
	t.Parallel()
	for name, s := range all() {
		s.Duration = time.Minute
		for _, who := range []string{"near", "far"} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				near, stopNear := context.WithCancelCause(t.Context())
				far, stopFar := context.WithCancelCause(t.Context())
				r := receive(t, here, "127.0.0.1:0")
				interrupted := errors.New("interrupted")
				stopped := make(chan time.Time, 1)
				var passed atomic.Int64
				line := r.behind(func(w way, k kind, n int, b []byte) [][]byte {
					if s.Test == probe.PathMTU && len(b) > 1000 {
						return nil // to be tried again and again
					}
					if passed.Add(1) == 30 {
						stopped <- time.Now()
						if who == "near" {
							stopNear(interrupted)
						} else {
							stopFar(interrupted)
						}
					}
					return pass(b)
				})
				trial, err := r.ends(near, far, line, s)
				took := time.Since(<-stopped)
				own, others := trial.Incomplete, ""
				if err != nil {
					others = err.Error()
				}
				if who == "far" {
					own, others = others, own
				}
				if !strings.HasSuffix(own, "interrupted") {
					t.Errorf("who was stopped says %q", own)
				}
				if others != errDismissed.Error() {
					t.Errorf("the other end says %q; want %q", others, errDismissed)
				}
				if took > 200*time.Millisecond*slack {
					t.Errorf("it took %v", took)
				}
				if trial.Near.Sent+trial.Near.Received+trial.Far.Sent+trial.Far.Received == 0 {
					t.Error("nothing is kept")
				}
			})
		}
	}
}

// slack is how many times longer than it should a machine may take that does a lot else.
const slack = 5

func TestStoppedBeforeItBegins(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r := receive(t, here, "127.0.0.1:0")
	if _, err := Near(ctx, probe.Default(probe.UDPLatency), r.line()); !errors.Is(err, context.Canceled) {
		t.Errorf("near: %v", err)
	}
	if _, err := Far(ctx, probe.Default(probe.UDPLatency), probe.Arrivals{Datagrams: r.arrivals}); !errors.Is(err, context.Canceled) {
		t.Errorf("far: %v", err)
	}
}

func TestArrivalsEnd(t *testing.T) {
	t.Parallel()
	arrivals := make(chan *net.UDPConn)
	close(arrivals)
	s := probe.Default(probe.UDPBandwidth)
	s.Streams = 2
	_, err := Far(t.Context(), s, probe.Arrivals{Datagrams: arrivals})
	if err == nil || err.Error() != "the near end has opened 0 sockets of 2" {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNotPossible(t *testing.T) {
	t.Parallel()
	line := probe.Line{Peer: netip.MustParseAddrPort("127.0.0.1:9"), Hello: make([]byte, probe.HelloBytes)}
	for want, change := range map[string]func(s *probe.Spec, l *probe.Line){
		"tcp_lat is no test with datagrams":        func(s *probe.Spec, _ *probe.Line) { s.Test = probe.TCPLatency },
		"udp_lat without answers is not possible":  func(s *probe.Spec, _ *probe.Line) { s.ReplyBytes = 0 },
		"a message of 70000 bytes is not possible": func(s *probe.Spec, _ *probe.Line) { s.MessageBytes = 70000 },
		"a hello of 3 bytes is not possible":       func(_ *probe.Spec, l *probe.Line) { l.Hello = l.Hello[:3] },
		"connecting from 192.0.2.7":                func(_ *probe.Spec, l *probe.Line) { l.Local = netip.MustParseAddr("192.0.2.7") },
	} {
		s, l := probe.Default(probe.UDPLatency), line
		change(&s, &l)
		if _, err := Near(t.Context(), s, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// A message for which the kernel has no buffer is refused as too large.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	a, _ := pair(t, probe.Cold)
	if err := unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	err := a.push(make([]byte, 60000), now()+time.Minute)
	if err == nil || !strings.HasPrefix(err.Error(), "datagrams of 60000 bytes are too large") {
		t.Errorf("%v", err)
	}
}

// A peer that takes nothing leaves no room to send; that is waited for, not for ever.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	a, _ := pair(t, probe.Cold)
	begun := now()
	for {
		err := a.push(make([]byte, 1000), begun+300*time.Millisecond)
		if err == errQuiet {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := now() - begun; took < 300*time.Millisecond {
		t.Errorf("given up after %v", took)
	}
}

// pair is two ends that are connected within the kernel, and with it no network.
func pair(t testing.TB, mode probe.Mode) (near, far *end) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := newParty(t.Context(), probe.Spec{Mode: mode})
	t.Cleanup(p.close)
	hello := []byte("a hello, which has 32 bytes ....")
	for _, fd := range fds {
		e, err := p.add(fd, netip.MustParseAddrPort("192.0.2.1:1"))
		if err != nil {
			t.Fatal(err)
		}
		e.introduce(hello)
	}
	return p.ends[0], p.ends[1]
}

// Not parallel: it counts what the whole program has open.
func TestNothingIsLeft(t *testing.T) {
	count := func() (files, goroutines int) {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(open), runtime.NumGoroutine()
	}
	round := func() {
		for _, s := range all() {
			s.Duration = 30 * time.Millisecond
			t.Run("", func(t *testing.T) {
				if trial, err := both(t, s); err != nil || trial.Incomplete != "" {
					t.Errorf("%s: %v, incomplete %q", s.Test, err, trial.Incomplete)
				}
			})
		}
	}
	round()
	files, goroutines := count()
	for range 3 {
		round()
	}
	for until := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		f, g := count()
		if f <= files && g <= goroutines {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d files and %d goroutines before, %d and %d after", files, goroutines, f, g)
		}
	}
}
