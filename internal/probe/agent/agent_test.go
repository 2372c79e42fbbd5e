package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

const secret = Token("correct horse battery staple")

// quick is a pace for tests.
var quick = pace{
	hello: 300 * time.Millisecond, handshake: time.Second, penalty: 50 * time.Millisecond,
	beat: 50 * time.Millisecond, silence: 2 * time.Second,
	late: time.Second, drain: time.Second, overtime: 10 * time.Second, stop: 100 * time.Millisecond,
}

// log is what an agent under test wrote.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// served is an agent under test.
type served struct {
	*Server
	log  *log
	stop func() error // and wait
}

// serve runs an agent on the loopback until the test ends, with simple ends.
func serve(t *testing.T, change ...func(*Options)) *served {
	t.Helper()
	l := &log{}
	options := Options{
		Address: "127.0.0.1:0", Token: secret, ends: plainEnds, pace: quick,
		Host: probe.Host{Version: "v1.2.3"}, Logger: slog.New(slog.NewTextHandler(l, nil)),
	}
	for _, c := range change {
		c(&options)
	}
	s, err := Listen(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("the agent does not stop")
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(l.String(), string(secret)) {
			t.Error("the token is in the log:", l)
		}
	})
	return &served{s, l, stop}
}

// flowing tells whether data have come for a trial that runs.
func (s *served) flowing() bool {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if s.desk.current == nil {
		return false
	}
	return s.desk.current.reached()
}

// options are how tests dial.
func options(change ...func(*DialOptions)) DialOptions {
	o := DialOptions{Token: secret, ends: plainEnds, pace: quick, Release: "v1.2.3", Wait: time.Second}
	for _, c := range change {
		c(&o)
	}
	return o
}

func connect(t *testing.T, address string, change ...func(*DialOptions)) *Client {
	t.Helper()
	c, err := Dial(t.Context(), address, options(change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// short is a spec for tests.
func short(test probe.Test, change ...func(*probe.Spec)) probe.Spec {
	s := probe.Default(test)
	s.Duration = 100 * time.Millisecond
	for _, c := range change {
		c(&s)
	}
	return s
}

// lasting makes it take longer.
func lasting(d time.Duration) func(*probe.Spec) { return func(s *probe.Spec) { s.Duration = d } }

// eventually waits for something that happens by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen in 5 s", what)
}

// wants fails unless the error says all of this, and not the token.
func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error is %q, and does not say %q", err, p)
		}
	}
	if strings.Contains(err.Error(), string(secret)) {
		t.Errorf("the token is in the error %q", err)
	}
}

// plainEnds are ends as simple as they can be: bytes one way until the time is over. The
// real ones have tests of their own.
func plainEnds(test probe.Test) ends {
	if test.Datagrams() {
		return ends{near: plainNearUDP, far: plainFarUDP}
	}
	return ends{near: plainNearTCP, far: plainFarTCP}
}

func plainNearTCP(ctx context.Context, spec probe.Spec, line probe.Line) (probe.Trial, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", line.Peer.String())
	if err != nil {
		return probe.Trial{}, err
	}
	defer conn.Close()
	trial := probe.Trial{Spec: spec}
	message := make([]byte, spec.MessageBytes)
	if _, err = conn.Write(append(line.Hello, message...)); err != nil {
		return trial, err
	}
	trial.Near.SentBytes = int64(len(message)) // one at least, however soon it is interrupted
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for begun := time.Now(); err == nil && time.Since(begun) < spec.Duration; time.Sleep(time.Millisecond) {
		if spec.MaxBytes > 0 && trial.Near.SentBytes >= spec.MaxBytes {
			break
		}
		var n int
		n, err = conn.Write(message)
		trial.Near.SentBytes += int64(n)
	}
	if err != nil {
		trial.Incomplete = err.Error()
	}
	return trial, nil
}

func plainFarTCP(ctx context.Context, _ probe.Spec, in probe.Arrivals) (probe.Side, error) {
	select {
	case conn := <-in.Streams:
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		n, err := io.Copy(io.Discard, conn)
		return probe.Side{ReceivedBytes: n}, err
	case <-ctx.Done():
		return probe.Side{}, context.Cause(ctx)
	}
}

func plainNearUDP(ctx context.Context, spec probe.Spec, line probe.Line) (probe.Trial, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", line.Peer.String())
	if err != nil {
		return probe.Trial{}, err
	}
	defer conn.Close()
	trial := probe.Trial{Spec: spec}
	answer := make([]byte, 64)
	for try := range 20 {
		if _, err := conn.Write(line.Hello); err != nil && try == 19 {
			return trial, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if n, err := conn.Read(answer); err == nil && bytes.Equal(answer[:n], line.Hello) {
			break
		}
		if try == 19 {
			trial.Incomplete = "no answer"
			return trial, nil
		}
	}
	for begun := time.Now(); trial.Near.Sent == 0 || ctx.Err() == nil && time.Since(begun) < spec.Duration; time.Sleep(time.Millisecond) {
		n, err := conn.Write(make([]byte, spec.MessageBytes))
		if err != nil {
			trial.Incomplete = err.Error()
			break
		}
		trial.Near.Sent++
		trial.Near.SentBytes += int64(n)
	}
	_, _ = conn.Write([]byte("over"))
	return trial, nil
}

func plainFarUDP(ctx context.Context, _ probe.Spec, in probe.Arrivals) (probe.Side, error) {
	var side probe.Side
	select {
	case conn := <-in.Datagrams:
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		b := make([]byte, 1<<16)
		for {
			n, err := conn.Read(b)
			switch {
			case err != nil:
				return side, err
			case string(b[:n]) == "over":
				return side, nil
			case n == probe.HelloBytes && string(b[:magicBytes]) == dataMagic:
				_, _ = conn.Write(b[:n])
			default:
				side.ReceivedBytes += int64(n)
			}
		}
	case <-ctx.Done():
		return side, context.Cause(ctx)
	}
}

// withBothEnds runs a test with ends as simple as they can be, and with the real ones.
func withBothEnds(t *testing.T, test func(*testing.T, endsOf)) {
	t.Parallel()
	for name, of := range map[string]endsOf{"plain ends": plainEnds, "real ends": realEnds} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, of)
		})
	}
}

func agentWith(of endsOf) func(*Options)      { return func(o *Options) { o.ends = of } }
func clientWith(of endsOf) func(*DialOptions) { return func(o *DialOptions) { o.ends = of } }

func TestRun(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		for _, family := range []int{4, 6} {
			for _, test := range []probe.Test{probe.TCPBandwidth, probe.UDPBandwidth} {
				if listen == "127.0.0.1:0" && family == 6 || listen == "[::1]:0" && family == 4 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", listen, family, test), func(t *testing.T) {
					t.Parallel()
					s := serve(t, func(o *Options) { o.Address = listen })
					host := map[int]string{4: "127.0.0.1", 6: "::1"}[family]
					c := connect(t, net.JoinHostPort(host, fmt.Sprint(s.Addr().Port())))
					for range 3 {
						trial, err := c.Run(t.Context(), short(test))
						if err != nil || trial.Incomplete != "" {
							t.Fatal(err, trial.Incomplete)
						}
						if trial.Near.SentBytes == 0 || trial.Far.ReceivedBytes != trial.Near.SentBytes {
							t.Errorf("%d bytes sent and %d received", trial.Near.SentBytes, trial.Far.ReceivedBytes)
						}
						if trial.Start.IsZero() || trial.Spec.Test != test || trial.Spec.MaxBytes != defaultBytes {
							t.Errorf("start %v, spec %+v", trial.Start, trial.Spec)
						}
					}
				})
			}
		}
	}
}

// Answers come from the address that was spoken to, also where a machine has several.
func TestOtherAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, agentWith(realEnds), func(o *Options) { o.Address = ":0" })
	for _, address := range append(linkLocal(t), "127.0.0.2") {
		c := connect(t, net.JoinHostPort(address, fmt.Sprint(s.Addr().Port())), clientWith(realEnds))
		for _, test := range []probe.Test{probe.TCPLatency, probe.UDPLatency} {
			trial, err := c.Run(t.Context(), short(test))
			if err != nil || trial.Incomplete != "" || trial.RTT == nil {
				t.Errorf("%s to %s: %v, %s", test, address, err, trial.Incomplete)
			}
		}
	}
}

// linkLocal are this machine's addresses that hold on one link only.
func linkLocal(t *testing.T) []string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok || n.IP.To4() != nil || !n.IP.IsLinkLocalUnicast() {
				continue
			}
			// Some are not in use yet, or any more.
			address := n.IP.String() + "%" + i.Name
			listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
			if err != nil {
				continue
			}
			if conn, err := net.DialTimeout("tcp", listener.Addr().String(), time.Second); err == nil {
				_ = conn.Close()
				found = append(found, address)
			}
			_ = listener.Close()
		}
	}
	return found
}

func TestHost(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Host = probe.Host{Version: "v9", Node: "node-7", Path: probe.PodPath} })
	c := connect(t, s.Addr().String())
	h := c.Host()
	if h.Version != "v9" || h.Node != "node-7" || h.Path != probe.PodPath || h.Name == "" || !strings.HasPrefix(h.Kernel, "Linux ") || h.CPUs < 1 {
		t.Errorf("the host is %+v", h)
	}
	if c.Peer() != s.Addr() || len(c.Other()) != 0 {
		t.Errorf("dialled %v, other %v", c.Peer(), c.Other())
	}
	all, err := c.Interfaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == "" || i.Name == "lo" || i.MTU < 68 {
			t.Errorf("an interface is %+v", i)
		}
	}
}
