package net_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// greeting is what a control connection begins with: the part that all versions share,
// and the rest of this one's.
func greeting(protocol uint16, release string) []byte {
	b := make([]byte, probe.HelloBytes)
	copy(b, "taperctl")
	binary.BigEndian.PutUint16(b[8:], protocol)
	copy(b[11:31], release)
	b[31] = '\n'
	return b
}

// answer listens, and has each connection dealt with.
func answer(t *testing.T, with func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", loopback+":0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				with(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// say answers the first bytes with these, and waits for the other side to go.
func say(b []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, probe.HelloBytes))
		_, _ = conn.Write(b)
		_, _ = io.Copy(io.Discard, conn)
	}
}

func TestWhoAnswersIsNoAgent(t *testing.T) {
	t.Parallel()
	need(t)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // that the handshake fails is the test
	secure.StartTLS()
	t.Cleanup(secure.Close)
	random := make([]byte, 4096)
	for i := range random {
		random[i] = byte(i * 37)
	}
	for _, c := range []struct {
		name, address string
		parts         []string
	}{
		{"newer", answer(t, say(greeting(99, "v9.9"))), []string{"taper v9.9 (protocol 99)", "this is taper", "(protocol 1)", "use the same release"}},
		{"hostile release", answer(t, say(greeting(99, "\x1b[2J\x07evil"))), []string{"protocol 99", "?[2J?evil"}},
		{"ssh", answer(t, say([]byte("SSH-2.0-OpenSSH_9.6\r\n"))), []string{"no taper agent", "SSH-2.0-", "is the port right?"}},
		{"random bytes", answer(t, say(random)), []string{"no taper agent", "is the port right?"}},
		{"HTTP", page.Listener.Addr().String(), []string{"no taper agent", "HTTP/1.1", "is the port right?"}},
		{"TLS", secure.Listener.Addr().String(), []string{"is this a taper agent?"}},
		{"silent", answer(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }), []string{"says nothing for 5s", "is this a taper agent?"}},
		{"gone at once", answer(t, func(net.Conn) {}), []string{"is this a taper agent?"}},
		{"half a greeting", answer(t, say(greeting(1, "")[:12])), []string{"agent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, _ := test(t, c.address)
			o.refused(t, append(c.parts, c.address)...)
		})
	}
}

// An agent outlives who it does not understand, and says in its log who that was.
func TestAgentOutlivesOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	address := w.there.String() + ":4000"
	for _, first := range [][]byte{greeting(99, "v9.9"), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), {0x16, 3, 1, 0, 200, 1, 0, 0}, {}} {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = conn.Write(first)
		must(t, err)
		must(t, conn.(*net.TCPConn).CloseWrite())
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the agent keeps who began with %q", first)
		}
		conn.Close()
	}
	a.await(t, "taper v9.9 (protocol 99)", 1)
	a.await(t, "GET / HT", 1)
	o, r := test(t, append(quick, "--tests", "tcp_lat", a.address)...)
	if o.code != 0 {
		t.Error(o)
	}
	measured(t, r, probe.TCPLatency, 2)
}

func TestToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	open := serve(t, []string{"env", "-u", "TAPER_NET_TOKEN"}, loopback+":4600", "--listen", loopback+":4600")
	empty := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct {
		name, token string
		args, parts []string
	}{
		{"wrong", "another-0123456789abcdef", []string{a.address}, []string{w.there.String() + ":4000", "the token is not the one"}},
		{"none", "", []string{a.address}, []string{w.there.String() + ":4000", "wants a token and none was given"}},
		{"not wanted", token, []string{open.address}, []string{open.address, "it has none", "leave the token out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			start(t, environment(c.token), testCommand(c.args...)...).wait(t).refused(t, c.parts...)
		})
	}
	t.Run("empty file", func(t *testing.T) {
		o := start(t, environment(""), testCommand("--token-file", empty, a.address)...).wait(t)
		if o.code != 2 {
			t.Errorf("exit code %d instead of 2", o.code)
		}
		says(t, o.err, "there is no token in "+empty)
	})
	a.await(t, "does not know the token", 1)
}

func TestNoWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent := newWorld(t)
	silent.drop(t, "ipproto tcp")
	for _, c := range []struct {
		name, address string
		parts         []string
	}{
		{"nobody listens", w.there.String() + ":4001", []string{"connection refused", "is `taper net serve` running there"}},
		{"no route", "203.0.113.1", []string{"network is unreachable", "there is no way to it"}},
		{"firewall", silent.there.String(), []string{"no answer in 5s", "does a firewall let TCP port 4000 through?"}},
		{"name", "no.such.host.invalid", []string{"no.such.host.invalid", "cannot be resolved"}},
		{"port", w.there.String() + ":70000", []string{"70000", "to 65535"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, _ := test(t, c.address)
			o.refused(t, c.parts...)
		})
	}
}
