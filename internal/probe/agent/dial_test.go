package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestNotAnAgent(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, test := range map[string]struct {
		address string
		want    string
	}{
		"a web server": {web.Listener.Addr().String(), `"HTTP/1.1"`},
		"ssh":          {fake(t, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.9\r\n") }), `it says "SSH-2.0-"`},
		"closes":       {fake(t, func(net.Conn) {}), "ended the connection without a word"},
		"silent":       {fake(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), "says nothing for"},
		"a data hello": {fake(t, func(c net.Conn) { _, _ = c.Write(dataHello(newTicket())) }), "this is no taper agent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Dial(t.Context(), test.address, options())
			if name == "a web server" && err != nil && strings.Contains(err.Error(), "without a word") {
				return // it answered with a reset
			}
			wants(t, err, test.address, test.want)
		})
	}
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	lookup := func(addrs ...string) func(*DialOptions) {
		return func(o *DialOptions) {
			o.lookup = func(context.Context, string) ([]netip.Addr, error) {
				var all []netip.Addr
				for _, a := range addrs {
					all = append(all, netip.MustParseAddr(a))
				}
				return all, nil
			}
		}
	}
	for name, test := range map[string]struct {
		address string
		change  func(*DialOptions)
		want    []string
	}{
		"nothing listens": {free.Addr().String(), func(*DialOptions) {}, []string{free.Addr().String(), "connection refused", "taper net serve"}},
		"empty":           {"", func(*DialOptions) {}, []string{"must be host or host:port"}},
		"a bad port":      {"localhost:x", func(*DialOptions) {}, []string{`port "x"`}},
		"port 0":          {"localhost:0", func(*DialOptions) {}, []string{"1 to 65535"}},
		"no such family":  {"name:1", func(o *DialOptions) { lookup("127.0.0.1")(o); o.Family = 6 }, []string{"no address of IPv6", "127.0.0.1"}},
		"no address":      {"name:1", lookup(), []string{"its name has no address"}},
		"not our address": {"127.0.0.1:1", func(o *DialOptions) { o.Local = netip.MustParseAddr("203.0.113.1") }, []string{"203.0.113.1", "of this machine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Dial(t.Context(), test.address, options(test.change))
			if err == nil {
				c.Close()
			}
			wants(t, err, test.want...)
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	to := netip.MustParseAddrPort("192.0.2.1:4000")
	for _, test := range []struct {
		err  error
		want string
	}{
		{syscall.ECONNREFUSED, "connecting to 192.0.2.1:4000: connection refused: is `taper net serve` running there"},
		{syscall.EHOSTUNREACH, "connecting to 192.0.2.1:4000: no route to host: there is no way to it from this machine"},
		{syscall.ENETUNREACH, "connecting to 192.0.2.1:4000: network is unreachable: there is no way"},
		{syscall.ETIMEDOUT, "connecting to 192.0.2.1:4000: no answer in 5s: is the machine up, and does a firewall let TCP port 4000 through?"},
		{os.ErrDeadlineExceeded, "no answer in 5s"},
		{io.ErrNoProgress, "connecting to 192.0.2.1:4000: dial: multiple Read calls"},
	} {
		err := DialOptions{Timeout: defaultDialTimeout}.explain(t.Context(), to, &net.OpError{Op: "dial", Err: test.err})
		wants(t, err, test.want)
	}
}

// A name with several addresses: the first that answers is used, the others are named.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Address = "[::1]:0" })
	port := fmt.Sprint(s.Addr().Port())
	dialled := func(family int, addrs ...string) (*Client, error) {
		return Dial(t.Context(), "agent.example:"+port, options(func(o *DialOptions) {
			o.Family = family
			o.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
				var all []netip.Addr
				for _, a := range addrs {
					all = append(all, netip.MustParseAddr(a))
				}
				return all, nil
			}
		}))
	}
	c, err := dialled(0, "127.0.0.1", "127.0.0.2", "::1") // only the last one listens
	if err != nil {
		t.Fatal(err)
	}
	if c.Peer() != s.Addr() || fmt.Sprint(c.Other()) != "[127.0.0.1 127.0.0.2]" {
		t.Errorf("dialled %v, other %v", c.Peer(), c.Other())
	}
	c.Close()
	_, err = dialled(4, "127.0.0.1", "127.0.0.2", "::1")
	wants(t, err, "connecting to 127.0.0.1:"+port, "connecting to 127.0.0.2:"+port)
}

func TestInTurn(t *testing.T) {
	t.Parallel()
	var all []netip.Addr
	for _, a := range []string{"2001:db8::1", "2001:db8::2", "::ffff:192.0.2.1", "192.0.2.1", "2001:db8::2", "192.0.2.2"} {
		all = append(all, netip.MustParseAddr(a))
	}
	if got, want := fmt.Sprint(inTurn(all)), "[2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2]"; got != want {
		t.Errorf("in turn: %s, want %s", got, want)
	}
}
