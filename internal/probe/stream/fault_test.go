package stream_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/stream"
)

// peer is a far end that does something wrong with each connection. What it does not
// close stays open until the test is over.
type peer func(conn *net.TCPConn)

// misbehave answers connections with a wrong far end.
func (a *agent) misbehave(t *testing.T, p peer) {
	t.Helper()
	streams, done := a.next(), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case conn := <-streams:
				defer conn.Close()
				go p(conn)
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// begin tells the near end that all is well.
func begin(conn *net.TCPConn) { _, _ = conn.Write([]byte{'!'}) }

// echo answers n messages of a byte, or takes n bytes.
func echo(conn *net.TCPConn, n int) {
	b := make([]byte, 1)
	for range n {
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		_, _ = conn.Write(b)
	}
}

func closes(conn *net.TCPConn) { begin(conn); echo(conn, 5); _ = conn.Close() }

func resets(conn *net.TCPConn) {
	begin(conn)
	echo(conn, 5)
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func silent(conn *net.TCPConn) { begin(conn); echo(conn, 5) }

func floods(conn *net.TCPConn) {
	begin(conn)
	for {
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			return
		}
	}
}

func TestWrongFarEnd(t *testing.T) {
	lat := func(s *probe.Spec) { s.Duration = 5 * time.Second }
	rate := func(s *probe.Spec) { s.Duration, s.RatePerS = 5*time.Second, 200 }
	in := func(s *probe.Spec) { s.Duration, s.Direction = 5*time.Second, probe.In }
	var all sync.WaitGroup // at once, as they mostly wait
	defer all.Wait()
	for _, c := range []struct {
		name string
		spec probe.Spec
		peer peer
		want string
	}{
		{"latency, closes", spec(probe.TCPLatency, lat), closes, "the peer "},
		{"latency, resets", spec(probe.TCPLatency, lat), resets, "the peer broke the connection off after"},
		{"latency, silent", spec(probe.TCPLatency, lat), silent, "the peer was silent for"},
		{"latency, floods", spec(probe.TCPLatency, lat), floods, "the peer sent more than it was asked for"},
		{"at a rate, closes", spec(probe.TCPLatency, rate), closes, "the peer "},
		{"at a rate, resets", spec(probe.TCPLatency, rate), resets, "the peer "}, // the kernel tells of a reset once: to the thread that reads, or to the one that sends
		{"at a rate, silent", spec(probe.TCPLatency, rate), silent, "the peer was silent for"},
		{"at a rate, floods", spec(probe.TCPLatency, rate), floods, "the peer sent more than it was asked for"},
		{"out, closes", spec(probe.TCPBandwidth, lat), closes, "the peer broke the connection off after"},
		{"out, resets", spec(probe.TCPBandwidth, lat), resets, "the peer broke the connection off after"},
		{"out, silent", spec(probe.TCPBandwidth, lat), silent, "the peer was silent for"},
		{"in, closes", spec(probe.TCPBandwidth, in), func(c *net.TCPConn) { begin(c); _, _ = c.Write(make([]byte, 1<<20)); _ = c.Close() }, "the peer ended the connection after"},
		{"in, silent", spec(probe.TCPBandwidth, in), func(c *net.TCPConn) {
			begin(c)
			_, _ = c.Write(make([]byte, 1<<20))
			<-t.Context().Done()
			_ = c.Close()
		}, "the peer was silent for"},
		{"responsiveness, resets", spec(probe.Responsiveness, lat), func(c *net.TCPConn) { echo(c, 1); _ = c.SetLinger(0); _ = c.Close() }, "the peer "},
		{"responsiveness, floods", spec(probe.Responsiveness, lat), floodsLoad, "the peer answered a probe that was never sent"},
	} {
		all.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				a := listen(t, "tcp", "127.0.0.1:0")
				a.misbehave(t, c.peer)
				trial := near(t, t.Context(), c.spec, a.line)
				if !strings.Contains(trial.Incomplete, c.want) {
					t.Errorf("got %q; want %q", trial.Incomplete, c.want)
				}
				if c.spec.Test == probe.TCPLatency && !strings.Contains(c.name, "floods") {
					if trial.RTT.Count() != 5 || strings.HasSuffix(c.name, "silent") && trial.Unanswered < 1 || trial.Near.Received != 5 {
						t.Errorf("%d round trips were kept, and %d unanswered: %+v", trial.RTT.Count(), trial.Unanswered, trial.Near)
					}
				}
			})
		})
	}
}

// floodsLoad answers questions as it should, but load with marks of its own.
func floodsLoad(conn *net.TCPConn) {
	kind := make([]byte, 1)
	if _, err := io.ReadFull(conn, kind); err != nil {
		return
	}
	if kind[0] != 'i' {
		_, _ = conn.Write(kind)
		return
	}
	_, _ = conn.Write(stream.Frame(128<<10, 1))
}

func TestNothingMeasured(t *testing.T) {
	closed := listen(t, "tcp", "127.0.0.1:0")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	closed.line.Peer = gone.Addr().(*net.TCPAddr).AddrPort()
	dumb := listen(t, "tcp", "127.0.0.1:0")
	dumb.misbehave(t, func(*net.TCPConn) {})
	rejects := listen(t, "tcp", "127.0.0.1:0")
	rejects.misbehave(t, func(c *net.TCPConn) { _ = c.Close() })
	short := &agent{line: probe.Line{Peer: closed.line.Peer, Hello: []byte("short")}}
	for _, c := range []struct {
		name string
		a    *agent
		spec probe.Spec
		want string
	}{
		{"refused", closed, spec(probe.TCPLatency), "connection refused"},
		{"refused, conn", closed, spec(probe.Connect), "was answered"},
		{"refused, responsiveness", closed, spec(probe.Responsiveness), "was answered"},
		{"never begins", dumb, spec(probe.TCPBandwidth), "did not begin the trial"},
		{"rejects", rejects, spec(probe.TCPBandwidth), "did not begin the trial"},
		{"conn, rejects", rejects, spec(probe.Connect), "was answered"},
		{"no answer wanted", closed, spec(probe.TCPLatency, func(s *probe.Spec) { s.ReplyBytes = 0 }), "without an answer"},
		{"datagrams", closed, spec(probe.UDPLatency), "not a test over TCP"},
		{"nonsense", closed, spec(probe.TCPLatency, func(s *probe.Spec) { s.Streams = 0 }), "0 streams"},
		{"hello", short, spec(probe.TCPLatency), "a hello of 5 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial, err := stream.Near(t.Context(), c.spec, c.a.line)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %+v; want %q", err, trial, c.want)
			}
		})
	}
}

// client is a near end that does something wrong. It has a connection whose hello was said.
type client func(conn *net.TCPConn)

func TestWrongNearEnd(t *testing.T) {
	long := func(s *probe.Spec) { s.Duration = 5 * time.Second }
	in := func(s *probe.Spec) { s.Duration, s.Direction = 5*time.Second, probe.In }
	two := func(s *probe.Spec) { s.Duration, s.Streams = 5*time.Second, 2 }
	nine := func(s *probe.Spec) { s.Duration, s.MessageBytes = 5*time.Second, 9 }
	ready := func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, 1)) }
	one := func(c *net.TCPConn) { ready(c); _, _ = c.Write([]byte("1")) }
	says := func(text string) client { return func(c *net.TCPConn) { _, _ = c.Write([]byte(text)) } }
	nothing := func(*net.TCPConn) {}
	var all sync.WaitGroup // at once, as they mostly wait
	defer all.Wait()
	for _, c := range []struct {
		name   string
		spec   probe.Spec
		client client
		stays  bool // until the far end is done with it
		want   string
	}{
		{"latency, closes", spec(probe.TCPLatency, long), one, false, "the peer ended the connection after"},
		{"latency, within a message", spec(probe.TCPLatency, nine), one, false, "the peer ended the connection after"},
		{"latency, silent", spec(probe.TCPLatency, long), ready, true, "the peer was silent for"},
		{"out, closes", spec(probe.TCPBandwidth, long), one, false, "the peer ended the connection after"},
		{"out, silent", spec(probe.TCPBandwidth, long), one, true, "the peer was silent for"},
		{"in, closes", spec(probe.TCPBandwidth, in), ready, false, "the peer broke the connection off after"},
		{"in, takes nothing", spec(probe.TCPBandwidth, in), nothing, true, "the peer was silent for"},
		{"one of two", spec(probe.TCPLatency, two), nothing, true, "1 of 2 connections came"},
		{"conn, nothing more", spec(probe.Connect, long), nothing, false, "no connection came for"},
		{"load, closes", spec(probe.Responsiveness, long), says("o123"), false, "the peer ended the connection after"},
		{"load, silent", spec(probe.Responsiveness, long), says("i"), true, "the peer was silent for"},
	} {
		all.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				a := listen(t, "tcp", "127.0.0.1:0")
				result := a.serve(t.Context(), c.spec)
				conn, err := net.Dial("tcp", a.line.Peer.String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write(a.line.Hello); err != nil {
					t.Fatal(err)
				}
				c.client(conn.(*net.TCPConn))
				if !c.stays {
					_ = conn.Close()
				}
				got := await(t, result)
				if got.err == nil || !strings.Contains(got.err.Error(), c.want) {
					t.Errorf("got %v, %+v; want %q", got.err, got.side, c.want)
				}
			})
		})
	}
}
