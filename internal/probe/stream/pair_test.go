package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/stream"
)

// agent stands for the far side's: it takes connections, and hands those that begin with
// the hello of its latest trial to the far end.
type agent struct {
	line probe.Line

	mu      sync.Mutex
	trials  byte
	streams chan *net.TCPConn // of the latest trial
	over    chan struct{}     // closed with the next trial, or with the test
	from    []netip.Addr      // of all connections
}

// listen makes an agent, and is skipped where it cannot be. It is gone with the test.
func listen(t testing.TB, network string, address string) *agent {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("listening: %v", err)
	}
	return attend(t, l)
}

func attend(t testing.TB, l net.Listener) *agent {
	t.Helper()
	a := &agent{line: probe.Line{Peer: l.Addr().(*net.TCPAddr).AddrPort()}, over: make(chan struct{})}
	a.next()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go a.admit(conn.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		a.next()
		_ = l.Close()
		<-done
	})
	return a
}

// next begins a trial: its line has a new hello, and what came for the last is closed.
func (a *agent) next() <-chan *net.TCPConn {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.over)
	a.trials++
	a.line.Hello = bytes.Repeat([]byte{a.trials}, probe.HelloBytes)
	a.streams, a.over = make(chan *net.TCPConn), make(chan struct{})
	return a.streams
}

func (a *agent) admit(conn *net.TCPConn) {
	got := make([]byte, probe.HelloBytes)
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err := io.ReadFull(conn, got)
	a.mu.Lock()
	hello, streams, over := a.line.Hello, a.streams, a.over
	a.from = append(a.from, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
	a.mu.Unlock()
	if err != nil || !bytes.Equal(got, hello) {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case streams <- conn:
	case <-over:
		_ = conn.Close()
	}
}

// peers are where connections came from.
func (a *agent) peers() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from
}

// waiting is how many IPv4 connections with a port wait for a minute after their end.
func waiting(t testing.TB, port uint16) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip(err)
	}
	n, end := 0, fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(string(text)) {
		const timeWait = "06"
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == timeWait && (strings.HasSuffix(f[1], end) || strings.HasSuffix(f[2], end)) {
			n++
		}
	}
	return n
}

// far is what a far end returned.
type far struct {
	side probe.Side
	err  error
}

// serve runs a far end; its result comes when it has ended.
func (a *agent) serve(ctx context.Context, spec probe.Spec) <-chan far {
	result, streams := make(chan far, 1), a.next()
	go func() {
		side, err := stream.Far(ctx, spec, probe.Arrivals{Streams: streams})
		result <- far{side, err}
	}()
	return result
}

// run is a whole trial on the loopback.
func run(t testing.TB, spec probe.Spec) probe.Trial {
	t.Helper()
	a := listen(t, "tcp", "127.0.0.1:0")
	result := a.serve(t.Context(), spec)
	trial := near(t, t.Context(), spec, a.line)
	got := await(t, result)
	if got.err != nil {
		t.Fatalf("far end: %v (near: %q)", got.err, trial.Incomplete)
	}
	trial.Far = got.side
	return trial
}

// near runs a near end that must find something out.
func near(t testing.TB, ctx context.Context, spec probe.Spec, line probe.Line) probe.Trial {
	t.Helper()
	trial, err := stream.Near(ctx, spec, line)
	if err != nil {
		t.Fatalf("near end: %v", err)
	}
	return trial
}

// await is a far end's result, which must come soon.
func await(t testing.TB, result <-chan far) far {
	t.Helper()
	select {
	case got := <-result:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("the far end did not return")
		return far{}
	}
}

// spec is a short trial of a test.
func spec(test probe.Test, change ...func(*probe.Spec)) probe.Spec {
	s := probe.Default(test)
	s.Duration = 200 * time.Millisecond
	for _, c := range change {
		c(&s)
	}
	return s
}

var loopback = netip.MustParseAddr("127.0.0.1")
