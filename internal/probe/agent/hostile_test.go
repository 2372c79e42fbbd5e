package agent

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// What connects and is no taper: none of it may keep others out, or stay.
func TestGarbage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	noise := make([]byte, 100)
	_, _ = rand.Read(noise)
	said := [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise,
		{}, []byte("taper"), []byte(controlMagic), dataHello(newTicket()), greeting{protocol: protocol}.bytes(),
		append(greeting{protocol: protocol}.bytes(), 0xff, 0xff, 0xff, 0xff), append(greeting{protocol: protocol}.bytes(), 0, 0, 0, 2, '{', '}'),
	}
	var all sync.WaitGroup
	const connections = 1000
	for i := range connections {
		conn := raw(t, s.Addr())
		if _, err := conn.Write(said[i%len(said)]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			continue // it was closed already
		}
		all.Go(func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
	}
	c := connect(t, s.Addr().String())
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.UDPBandwidth} {
		if trial, err := c.Run(t.Context(), short(test)); err != nil || trial.Incomplete != "" {
			t.Error("amid garbage:", err, trial.Incomplete)
		}
	}
	all.Wait() // all were closed, before their own deadline of 5 s
	stats := s.Stats()
	if n := stats.Garbage + stats.Stray + stats.Evicted + stats.Empty; n < connections/2 || n > connections {
		t.Errorf("of %d connections %+v", connections, stats)
	}
	t.Logf("%+v", stats)
}

// Slow ones get a byte through now and then, and still have to go in time.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, said := range map[string][]byte{
		"hello":     greeting{protocol: protocol}.bytes(),
		"handshake": append(greeting{protocol: protocol}.bytes(), append([]byte{0, 0, 4, 0}, make([]byte, 1024)...)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := raw(t, s.Addr())
			begun := time.Now()
			if name == "handshake" {
				_, _ = conn.Write(said[:probe.HelloBytes])
				said = said[probe.HelloBytes:]
			}
			go func() {
				for _, b := range said {
					if _, err := conn.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}()
			_, err := io.Copy(io.Discard, conn)
			if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) > quick.hello+quick.handshake+quick.penalty+time.Second {
				t.Errorf("it stayed for %v: %v", time.Since(begun), err)
			}
		})
	}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	s := strangers{most: 2}
	var conns []net.Conn
	for range 3 {
		a, b := net.Pipe()
		defer b.Close()
		conns = append(conns, a)
		s.add(a)
	}
	if _, err := conns[0].Write([]byte{1}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error("the oldest is still open:", err)
	}
	if s.remove(conns[0]) || !s.remove(conns[1]) || s.remove(conns[1]) {
		t.Error("who had to go is not known")
	}
	s.close()
	if ok, _ := s.add(conns[2]); ok {
		t.Error("taken after the end")
	}
}

// A client that knows the token and breaks the rules ends its own session alone.
func TestRudeClients(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Token = "" })
	hello := func() (net.Conn, *link) {
		conn := raw(t, s.Addr())
		_, _ = conn.Write(greeting{protocol: protocol}.bytes())
		if _, err := readHello(conn); err != nil {
			t.Error(err)
		}
		l := newLink(conn, quick)
		if _, err := introduce(t.Context(), l, nil); err != nil {
			t.Error(err)
		}
		return conn, l
	}
	spec := short(probe.TCPBandwidth, lasting(time.Minute))
	var all sync.WaitGroup
	for name, rude := range map[string]func(net.Conn, *link){
		"two requests at once": func(_ net.Conn, l *link) {
			_ = l.send(message{Kind: kindRun, Spec: &spec, Wait: time.Minute})
			_ = l.send(message{Kind: kindHost})
		},
		"an unknown message": func(_ net.Conn, l *link) { _ = l.send(message{Kind: "x\x1b"}) },
		"no JSON":            func(c net.Conn, _ *link) { _, _ = c.Write([]byte{0, 0, 0, 1, '{'}) },
		"a long frame":       func(c net.Conn, _ *link) { _, _ = c.Write([]byte{0, 1, 0, 1}) },
		"an empty frame":     func(c net.Conn, _ *link) { _, _ = c.Write([]byte{0, 0, 0, 0}) },
		"half a frame":       func(c net.Conn, _ *link) { _, _ = c.Write([]byte{0, 0, 1, 0, '{'}) },
		"silence":            func(net.Conn, *link) {},
		"many of no request": func(_ net.Conn, l *link) {
			for range 100 {
				_ = l.send(message{Kind: kindProof})
				_ = l.send(message{Kind: kindEnd})
			}
			_ = l.send(message{Kind: kindRun})
		},
	} {
		all.Go(func() {
			conn, l := hello()
			rude(conn, l)
			// It is told why, and the connection closed, within the silence that is allowed.
			last := message{}
			for {
				m, err := l.receive()
				if err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%s: still connected", name)
					}
					break
				}
				if m.Kind != kindPing {
					last = m
				}
			}
			if last.Reason == "" || strings.ContainsRune(last.Reason, 0x1b) {
				t.Errorf("%s: the last word was %+v", name, last)
			}
			_ = conn.Close()
		})
	}
	all.Wait()
	eventually(t, "all being gone", func() bool { return s.Stats().Sessions == 0 })
	c := connect(t, s.Addr().String(), func(o *DialOptions) { o.Token = ""; o.Wait = 5 * time.Second })
	if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
		t.Error(err, trial.Incomplete)
	}
}

// Datagrams of others reach neither the trial nor an answer.
func TestForeignDatagrams(t *testing.T) {
	t.Parallel()
	s := serve(t)
	other := raw2(t, s.Addr())
	for _, b := range [][]byte{{}, []byte("x"), make([]byte, 32), make([]byte, 2000), dataHello(newTicket()), append(dataHello(newTicket()), 0)} {
		if _, err := other.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "counting them", func() bool { return s.Stats().Garbage == 5 && s.Stats().Stray == 1 })
	_ = other.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := other.Read(make([]byte, 100)); err == nil {
		t.Errorf("an answer of %d bytes to a stranger", n)
	}
}

func raw2(t *testing.T, address netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := net.Dial("udp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
