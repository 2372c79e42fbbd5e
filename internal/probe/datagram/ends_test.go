package datagram

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

func TestMain(m *testing.M) {
	patience, idle, farewell, answerTime = 2*time.Second, time.Second, time.Second, 400*time.Millisecond
	os.Exit(m.Run())
}

// reception is what an agent does for far ends: it listens, and opens a socket for each
// near end that says hello.
type reception struct {
	t        testing.TB
	address  netip.AddrPort
	hello    []byte
	listener *net.UDPConn
	arrivals chan *net.UDPConn
	// in runs something in the network that it belongs to.
	in func(func() error) error
}

// reusing lets sockets that are connected to different near ends share a port.
func reusing(_, _ string, conn syscall.RawConn) error {
	var err error
	failed := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	})
	return errors.Join(failed, err)
}

// here runs something in the network of the test's own.
func here(f func() error) error { return f() }

// receive opens a reception at an address of a network; it is closed with the test.
func receive(t testing.TB, in func(func() error) error, address string) *reception {
	t.Helper()
	r := &reception{t: t, hello: make([]byte, probe.HelloBytes), arrivals: make(chan *net.UDPConn, probe.MaxStreams), in: in}
	rand.Read(r.hello)
	err := in(func() error {
		l := net.ListenConfig{Control: reusing}
		conn, err := l.ListenPacket(t.Context(), "udp", address)
		if err == nil {
			r.listener = conn.(*net.UDPConn)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.address = r.listener.LocalAddr().(*net.UDPAddr).AddrPort()
	done := make(chan struct{})
	go func() { defer close(done); r.open() }()
	t.Cleanup(func() {
		r.listener.Close()
		<-done
		for len(r.arrivals) > 0 {
			(<-r.arrivals).Close()
		}
	})
	return r
}

func (r *reception) open() {
	known := map[netip.AddrPort]bool{}
	b := make([]byte, 1<<16)
	for {
		n, from, err := r.listener.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if known[from] || !bytes.Equal(b[:n], r.hello) {
			continue
		}
		known[from] = true
		err = r.in(func() error {
			d := net.Dialer{Control: reusing, LocalAddr: r.listener.LocalAddr()}
			conn, err := d.Dial("udp", from.String())
			if err == nil {
				r.arrivals <- conn.(*net.UDPConn)
			}
			return err
		})
		if err != nil {
			r.t.Errorf("opening a socket for %s: %v", from, err)
			return
		}
	}
}

func (r *reception) line() probe.Line { return probe.Line{Peer: r.address, Hello: r.hello} }

// both runs both ends of a trial on the loopback.
func both(t testing.TB, spec probe.Spec) (probe.Trial, error) {
	t.Helper()
	r := receive(t, here, "127.0.0.1:0")
	return r.both(t.Context(), spec)
}

// both returns the trial with what the far end saw, and the far end's error.
func (r *reception) both(ctx context.Context, spec probe.Spec) (probe.Trial, error) {
	return r.ends(ctx, ctx, r.line(), spec)
}

// ends does so with a context for each end, on any line that leads here.
func (r *reception) ends(near, far context.Context, line probe.Line, spec probe.Spec) (probe.Trial, error) {
	r.t.Helper()
	var side probe.Side
	var farErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		side, farErr = Far(far, spec, probe.Arrivals{Datagrams: r.arrivals})
	}()
	trial, err := Near(near, spec, line)
	if err != nil {
		r.t.Fatalf("%s: %v", spec.Test, err)
	}
	<-done
	trial.Far = side
	return trial, farErr
}

// spec is the default of a test, short.
func spec(test probe.Test, change func(s *probe.Spec)) probe.Spec {
	s := probe.Default(test)
	s.Duration = 200 * time.Millisecond
	if change != nil {
		change(&s)
	}
	return s
}

func TestTrials(t *testing.T) {
	in := func(s *probe.Spec) { s.Direction = probe.In }
	tests := map[string]probe.Spec{
		"bandwidth":                         spec(probe.UDPBandwidth, nil),
		"bandwidth inward":                  spec(probe.UDPBandwidth, in),
		"bandwidth of fragments":            spec(probe.UDPBandwidth, func(s *probe.Spec) { s.MessageBytes = 32 << 10 }),
		"bandwidth of three streams":        spec(probe.UDPBandwidth, func(s *probe.Spec) { s.Streams = 3 }),
		"bandwidth of three streams inward": spec(probe.UDPBandwidth, func(s *probe.Spec) { s.Streams, s.Direction = 3, probe.In }),
		"bandwidth at a rate":               spec(probe.UDPBandwidth, func(s *probe.Spec) { s.RatePerS = 1000 }),
		"latency":                           spec(probe.UDPLatency, nil),
		"latency, hot":                      spec(probe.UDPLatency, func(s *probe.Spec) { s.Mode = probe.Hot }),
		"latency at a rate":                 spec(probe.UDPLatency, func(s *probe.Spec) { s.RatePerS, s.Streams = 1000, 2 }),
		"latency, hot, at a rate":           spec(probe.UDPLatency, func(s *probe.Spec) { s.RatePerS, s.Mode = 200, probe.Hot }),
		"latency of other sizes":            spec(probe.UDPLatency, func(s *probe.Spec) { s.MessageBytes, s.ReplyBytes, s.Streams = 16, 32, 2 }),
		"latency on a CPU":                  spec(probe.UDPLatency, func(s *probe.Spec) { s.NearCPU, s.FarCPU = new(int), new(int) }),
		"path MTU":                          spec(probe.PathMTU, nil),
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			trial, err := both(t, s)
			if err != nil || trial.Incomplete != "" {
				t.Fatalf("far error %v, incomplete %q", err, trial.Incomplete)
			}
			if trial.Start.IsZero() || trial.Near.Usage.User+trial.Near.Usage.System+trial.Far.Usage.User+trial.Far.Usage.System == 0 {
				t.Errorf("started %v, near %+v, far %+v", trial.Start, trial.Near.Usage, trial.Far.Usage)
			}
			switch s.Test {
			case probe.UDPBandwidth:
				checkBandwidth(t, trial)
			case probe.UDPLatency:
				checkLatency(t, trial)
			case probe.PathMTU:
				if want := (probe.PathMTUFound{Out: 65535, In: 65535, Believed: 65535, FarBelieved: 65535}); *trial.PathMTU != want {
					t.Errorf("found %+v; want %+v", *trial.PathMTU, want)
				}
			}
		})
	}
}

// checkBandwidth checks that a trial on the loopback adds up.
func checkBandwidth(t *testing.T, trial probe.Trial) {
	t.Helper()
	sender, receiver := trial.Near, trial.Far
	if trial.Spec.Direction == probe.In {
		sender, receiver = receiver, sender
	}
	size := int64(trial.Spec.MessageBytes)
	if receiver.Received == 0 || receiver.Received > sender.Sent || receiver.Duplicated+receiver.Reordered+receiver.Foreign > 0 {
		t.Errorf("sent %+v, received %+v", sender, receiver)
	}
	if sender.SentBytes != size*sender.Sent || receiver.ReceivedBytes != size*receiver.Received {
		t.Errorf("messages have %d bytes: sent %+v, received %+v", size, sender, receiver)
	}
	if total(sender.Bins) != sender.SentBytes || total(receiver.Bins) != receiver.ReceivedBytes {
		t.Errorf("bins do not add up: sent %+v, received %+v", sender, receiver)
	}
	if e := sender.Elapsed; e < trial.Spec.Duration*9/10 || e > trial.Spec.Duration*slack {
		t.Errorf("sent for %v; want %v", e, trial.Spec.Duration)
	}
	if rate := trial.Spec.RatePerS; rate > 0 && float64(sender.Sent) > rate*trial.Spec.Duration.Seconds() {
		t.Errorf("%d sent, which is more than the rate", sender.Sent)
	}
}

// checkLatency checks that a trial on the loopback adds up.
func checkLatency(t *testing.T, trial probe.Trial) {
	t.Helper()
	near, far := trial.Near, trial.Far
	if near.Sent == 0 || near.Sent != far.Received || near.Received != far.Sent || near.Foreign+far.Foreign+near.Duplicated > 0 {
		t.Errorf("near %+v, far %+v", near, far)
	}
	if trial.RTT.Count() != near.Received || trial.Unanswered != near.Sent-near.Received {
		t.Errorf("%d round trips, %d unanswered, near %+v", trial.RTT.Count(), trial.Unanswered, near)
	}
	if near.SentBytes != near.Sent*int64(trial.Spec.MessageBytes) || near.ReceivedBytes != near.Received*int64(trial.Spec.ReplyBytes) {
		t.Errorf("near %+v; messages have %d and %d bytes", near, trial.Spec.MessageBytes, trial.Spec.ReplyBytes)
	}
	if m := trial.RTT.Mean(); m < time.Microsecond || m > time.Second {
		t.Errorf("a round trip takes %v", m)
	}
	if rate := trial.Spec.RatePerS; rate > 0 && near.Sent != int64(rate*trial.Spec.Duration.Seconds()) {
		t.Errorf("%d sent at a rate of %v for %v", near.Sent, rate, trial.Spec.Duration)
	}
	if trial.Spec.NearCPU != nil && (len(near.Usage.CPUs) != 1 || near.Usage.CPUs[0] != 0) {
		t.Errorf("the near end was on CPUs %v; want 0", near.Usage.CPUs)
	}
}
