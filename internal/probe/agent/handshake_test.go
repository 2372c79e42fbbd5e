package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestToken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		theirs, ours Token
		err          string // empty: it works
		wrong        int64
	}{
		{"the same", secret, secret, "", 0},
		{"none on either side", "", "", "", 0},
		{"another", secret, "a token of some other agent", "is not the one that the agent was started with", 1},
		{"missing here", secret, "", "it wants a token and none was given", 1},
		{"missing there", "", secret, "a token was given and it has none", 0},
		{"a part", secret, secret[:len(secret)-1], "is not the one", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.Token = test.theirs })
			begun := time.Now()
			c, err := Dial(t.Context(), s.Addr().String(), options(func(o *DialOptions) { o.Token = test.ours }))
			if test.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				return
			}
			wants(t, err, test.err, s.Addr().String())
			if test.wrong > 0 && test.ours != "" && time.Since(begun) < quick.penalty {
				t.Error("a wrong token was answered at once")
			}
			eventually(t, "counting the wrong token", func() bool { return s.Stats().WrongToken == test.wrong })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if test.ours != "" && strings.Contains(s.log.String(), string(test.ours)) {
				t.Error("the token is in the log:", s.log)
			}
		})
	}
}

// A fake agent that does not know the token must not be believed.
func TestAgentMustProve(t *testing.T) {
	t.Parallel()
	address := fake(t, func(conn net.Conn) {
		_, _ = readHello(conn)
		_, _ = conn.Write(greeting{protocol: protocol}.bytes())
		l := newLink(conn, quick)
		theirs, _ := l.receive()
		_ = l.send(message{Kind: kindNonce, Nonce: newNonce(), Token: true})
		shown, _ := l.receive()
		_ = theirs
		_ = l.send(message{Kind: kindProof, Proof: shown.Proof}) // sends back what it got
	})
	_, err := Dial(t.Context(), address, options())
	wants(t, err, "it does not know the token")
}

func TestTokenIsNeverPrinted(t *testing.T) {
	t.Parallel()
	all := struct {
		Options
		DialOptions
		Target
	}{Options{Token: secret}, DialOptions{Token: secret}, Target{Token: secret}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(format, all); strings.Contains(text, string(secret)) || strings.Contains(text, fmt.Sprintf("%x", string(secret))) {
			t.Errorf("%s prints the token: %s", format, text)
		}
	}
	if b, _ := secret.MarshalText(); strings.Contains(string(b), string(secret)) {
		t.Error("the token is marshalled")
	}
}

func TestTokenStaysAtHome(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := proxyTo(t, s.Addr().String())
	c := connect(t, p.address)
	if _, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil {
		t.Fatal(err)
	}
	if b := p.seen(); len(b) < 500 || strings.Contains(b, string(secret)) {
		t.Errorf("%d bytes went over the wire, with the token: %v", len(b), strings.Contains(b, string(secret)))
	}
}

func TestListenNeedsToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address string
		token   Token
		err     string
	}{
		{"127.0.0.1:0", "", ""},
		{"[::1]:0", "", ""},
		{":0", secret, ""},
		{":0", "", "needs a token"},
		{"0.0.0.0:0", "secret", "has 6 characters, and 16 is the least"},
		{"127.0.0.1", "", ""}, // the default port, if it is free
		{"", "", "must be host or host:port"},
		{"127.0.0.1:http", "", "must be 0 to 65535"},
		{"127.0.0.1:65536", "", "must be 0 to 65535"},
		{"203.0.113.1:0", secret, "of this machine"},
	} {
		s, err := Listen(t.Context(), Options{Address: test.address, Token: test.token})
		if err == nil {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Serve(ctx); err != nil {
				t.Error(err)
			}
		}
		if test.err == "" {
			if err != nil && !strings.Contains(err.Error(), "address already in use") {
				t.Errorf("%s: %v", test.address, err)
			}
			continue
		}
		wants(t, err, test.err)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := Listen(t.Context(), Options{Address: s.Addr().String()})
	wants(t, err, s.Addr().String(), "address already in use", "choose another port")
	// A port that only UDP has taken is in use too.
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = Listen(t.Context(), Options{Address: other.LocalAddr().String()})
	wants(t, err, "UDP", "address already in use")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	t.Run("an agent of another", func(t *testing.T) {
		t.Parallel()
		address := fake(t, func(conn net.Conn) {
			_, _ = readHello(conn)
			_, _ = conn.Write(greeting{protocol: 7, release: "v9.0.0\x1b[2J"}.bytes())
		})
		_, err := Dial(t.Context(), address, options())
		wants(t, err, "taper v9.0.0?[2J (protocol 7)", "taper v1.2.3 (protocol 1)", "the same release")
	})
	t.Run("a client of another", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		conn := raw(t, s.Addr())
		if _, err := conn.Write(greeting{protocol: 7, release: "v9.0.0"}.bytes()); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := parseGreeting(b); err != nil || g.protocol != protocol || g.release != "v1.2.3" {
			t.Errorf("the answer is %v, %v", g, err)
		}
		eventually(t, "counting it", func() bool { return s.Stats().WrongVersion == 1 })
		for _, want := range []string{"taper v9.0.0 (protocol 7)", "taper v1.2.3 (protocol 1)"} {
			if !strings.Contains(s.log.String(), want) {
				t.Errorf("the log does not say %q: %s", want, s.log)
			}
		}
	})
}
