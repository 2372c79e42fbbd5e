package agent

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a path for TCP between a client and an agent that can be cut: nothing goes
// through any more, and nobody is told.
type proxy struct {
	address string
	cut     atomic.Bool

	mu  sync.Mutex
	all strings.Builder
}

func proxyTo(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{}
	p.address = fake(t, func(conn net.Conn) {
		other, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer other.Close()
		done := make(chan struct{}, 2)
		pass := func(to, from net.Conn) {
			defer func() { done <- struct{}{} }()
			b := make([]byte, 32<<10)
			for {
				n, err := from.Read(b)
				p.mu.Lock()
				p.all.Write(b[:n])
				p.mu.Unlock()
				if !p.cut.Load() {
					if _, err := to.Write(b[:n]); err != nil {
						return
					}
					if err != nil {
						return
					}
				} else if err != nil {
					<-t.Context().Done() // who hangs up is not heard either
					return
				}
			}
		}
		go pass(conn, other)
		go pass(other, conn)
		<-done
	})
	return p
}

// seen is what went through, both ways.
func (p *proxy) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// fake listens, and treats each connection so.
func fake(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func raw(t *testing.T, address netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
