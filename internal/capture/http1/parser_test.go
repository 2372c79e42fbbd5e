package http1

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// play tells a parser a conversation, between usual addresses.
func play(conn capture.Conn, said ...ct.Said) ct.Result {
	return ct.PlayChunks(Protocol(), withEnds(conn), ct.Chunks(said))
}

func withEnds(conn capture.Conn) *capture.Conn {
	if !conn.Addr[0].IsValid() {
		conn.Addr = [2]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:80")}
	}
	return &conn
}

// short writes an exchange as: op target status [request packets] [response packets] and
// what else there is.
func short(x *capture.Exchange) string {
	var b strings.Builder
	span := func(s capture.Span) {
		fmt.Fprintf(&b, " %d-%d/%d", s.First.Packet, s.Last.Packet, s.Bytes)
	}
	fmt.Fprintf(&b, "%s %s %d", x.Op, x.Target, x.Status)
	span(x.Request)
	span(x.Response)
	if x.Authority != "" {
		fmt.Fprintf(&b, " host=%s", x.Authority)
	}
	d := x.HTTP
	if d.UserAgent != "" {
		fmt.Fprintf(&b, " agent=%s", d.UserAgent)
	}
	if d.Close {
		b.WriteString(" close")
	}
	if d.Continue {
		b.WriteString(" continue")
	}
	if d.Interim.Seen() {
		fmt.Fprintf(&b, " interim=%d", d.Interim.Packet)
	}
	if d.Signed {
		b.WriteString(" signed")
	}
	if d.Action != "" {
		fmt.Fprintf(&b, " action=%s", d.Action)
	}
	if d.Metadata != nil {
		fmt.Fprintf(&b, " metadata=%s/%d/%v/%d", d.Metadata.Provider, d.Metadata.Kind, d.Metadata.Token, d.Metadata.Expires)
	}
	if x.Failed {
		b.WriteString(" failed")
	}
	return b.String()
}

const (
	get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n" // 28 bytes
	ok  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// shorts writes all exchanges.
func shorts(told []*capture.Exchange) []string {
	var got []string
	for _, x := range told {
		got = append(got, short(x))
	}
	return got
}

func TestMessages(t *testing.T) {
	t.Parallel()
	c, s := ct.C, ct.S
	closed := capture.Conn{Closed: ct.Mark(9), ClosedBy: capture.Server}
	for name, test := range map[string]struct {
		conn capture.Conn
		said []ct.Said
		want []string
		to   string
		rest string
		lost uint64
	}{
		"simple": {
			said: []ct.Said{c(get), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h"},
		},
		"in pieces": {
			said: []ct.Said{c("GE"), c("T /a HTTP/1.1\r\nHost: h\r"), c("\n\r"), c("\n"), s("HTTP/1.1 200 OK\r\nContent-Len"), s("gth: 2\r\n\r\no"), s("k")},
			want: []string{"GET /a 200 1-4/28 5-7/40 host=h"},
		},
		"pipelining": {
			said: []ct.Said{c(get, get), c(get), s(ok, ok), s(ok)},
			want: []string{"GET /a 200 1-1/28 3-3/40 host=h", "GET /a 200 1-1/28 3-3/40 host=h", "GET /a 200 2-2/28 4-4/40 host=h"},
		},
		"chunked with trailers": {
			said: []ct.Said{c(get), s("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhel"), s("lo\r\n0\r\nA: b\r\n"), s("\r\n"), c(get), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-4/72 host=h", "GET /a 200 5-5/28 6-6/40 host=h"},
		},
		"chunked request": {
			said: []ct.Said{c("PUT /b HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\nA\r\n0123456789\r\n"), c("0\r\n\r\n"), s(ok)},
			want: []string{"PUT /b 200 1-2/73 3-3/40"},
		},
		"bare line feeds": {
			said: []ct.Said{c("GET /a HTTP/1.1\nHost: h\n\n"), s("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), c(get), s(ok)},
			want: []string{"GET /a 200 1-1/25 2-2/37 host=h", "GET /a 200 3-3/28 4-4/40 host=h"},
		},
		"empty lines before a request": {
			said: []ct.Said{c("\r\n\r\n", get), s(ok), c("\r\n"), c(get), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h", "GET /a 200 4-4/28 5-5/40 host=h"},
		},
		"folded fields": {
			said: []ct.Said{c("POST /a HTTP/1.1\r\nContent-Length:\r\n 3\r\nUser-Agent:\r\n\tcurl\r\nX: y\r\n Host: no\r\n\r\nabc"), s(ok)},
			want: []string{"POST /a 200 1-1/81 2-2/40 agent=curl"},
		},
		"HEAD, 204 and 304 have no body": {
			said: []ct.Said{
				c("HEAD /h HTTP/1.1\r\n\r\n"), s("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
				c("DELETE /d HTTP/1.1\r\n\r\n"), s("HTTP/1.1 204 No Content\r\n\r\n"),
				c("GET /n HTTP/1.1\r\n\r\n"), s("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
			},
			want: []string{"HEAD /h 200 1-1/20 2-2/40", "DELETE /d 204 3-3/22 4-4/27", "GET /n 304 5-5/19 6-6/48"},
		},
		"100 and its body": {
			said: []ct.Said{c("PUT /u HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"), s("HTTP/1.1 100 Continue\r\n\r\n"), c("abc"), s("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), s(ok)},
			want: []string{"PUT /u 200 1-3/63 5-5/40 continue interim=2"},
		},
		"refused instead of 100": {
			said: []ct.Said{c("PUT /u HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 300\r\n\r\n"), s("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"), c(get), s(ok)},
			want: []string{"PUT /u 401 1-1/62 2-2/38 continue", "GET /a 200 3-3/28 4-4/40 host=h"},
		},
		"response before the end of the request": {
			said: []ct.Said{c("PUT /u HTTP/1.1\r\nContent-Length: 4\r\n\r\nab"), s("HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n"), c("cd"), c(get), s(ok)},
			want: []string{"PUT /u 413 1-3/42 2-2/38", "GET /a 200 4-4/28 5-5/40 host=h"},
		},
		"until close": {
			conn: closed,
			said: []ct.Said{c("GET /old HTTP/1.0\r\n\r\n"), s("HTTP/1.0 500 Oops\r\n\r\nabc"), s("HTTP/1.1 200 OK\r\n\r\n")},
			want: []string{"GET /old 500 1-1/21 2-9/43 close failed"},
		},
		"until a close that did not come": {
			said: []ct.Said{c("GET /old HTTP/1.1\r\nConnection: close\r\n\r\n"), s("HTTP/1.1 200 OK\r\n\r\nabc")},
			want: []string{"GET /old 200 1-1/40 2-0/22 close"},
		},
		"until a reset": {
			conn: capture.Conn{Closed: ct.Mark(9), ClosedBy: capture.Server, Reset: true},
			said: []ct.Said{c(get), s("HTTP/1.1 200 OK\r\n\r\nabc")},
			want: []string{"GET /a 200 1-1/28 2-0/22 host=h"},
		},
		"absolute form": {
			said: []ct.Said{c("GET http://user:pw@proxy.example/x/y?q=1 HTTP/1.1\r\nHost: u:pw@proxy.example\r\n\r\n"), s(ok), c("GET http://e HTTP/1.1\r\n\r\n"), s(ok)},
			want: []string{"GET /x/y 200 1-1/79 2-2/40 host=proxy.example", "GET / 200 3-3/25 4-4/40"},
		},
		"unanswered": {
			said: []ct.Said{c(get, get), s("HTTP/1.1 200 OK\r\nContent-Le")},
			want: []string{"GET /a 200 1-1/28 2-0/27 host=h", "GET /a 0 1-1/28 0-0/0 host=h"},
		},
		"CONNECT, then TLS": {
			said: []ct.Said{c("CONNECT h:443 HTTP/1.1\r\n\r\n"), s("HTTP/1.1 200 Connection established\r\n\r\n"), c("\x16\x03\x01")},
			want: []string{"CONNECT h:443 200 1-1/26 2-2/39"}, to: capture.TLS, rest: "\x16\x03\x01",
		},
		"CONNECT, then HTTP": {
			said: []ct.Said{c("CONNECT h:80 HTTP/1.1\r\n\r\n"), s("HTTP/1.1 200 OK\r\n\r\n"), c(get), s(ok)},
			want: []string{"CONNECT h:80 200 1-1/25 2-2/19", "GET /a 200 3-3/28 4-4/40 host=h"},
		},
		"CONNECT, then something else": {
			said: []ct.Said{c("CONNECT h:22 HTTP/1.1\r\n\r\n"), s("HTTP/1.1 200 OK\r\n\r\nSSH-2.0")},
			want: []string{"CONNECT h:22 200 1-1/25 2-2/19"}, to: capture.Turns, rest: "SSH-2.0",
		},
		"CONNECT refused": {
			said: []ct.Said{c("CONNECT h:22 HTTP/1.1\r\n\r\n"), s("HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx"), c(get), s(ok)},
			want: []string{"CONNECT h:22 403 1-1/25 2-2/39", "GET /a 200 3-3/28 4-4/40 host=h"},
		},
		"websocket": {
			said: []ct.Said{c("GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), s("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x00")},
			want: []string{"GET /ws 101 1-1/61 2-2/56"}, to: capture.Turns, rest: "\x81\x00",
		},
		"upgrade ignored": {
			said: []ct.Said{c("GET /a HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"), s(ok), c(get), s(ok)},
			want: []string{"GET /a 200 1-1/70 2-2/40", "GET /a 200 3-3/28 4-4/40 host=h"},
		},
		"AWS": {
			said: []ct.Said{
				c("POST / HTTP/1.1\r\nHost: sts.amazonaws.com\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIA/x\r\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\r\nContent-Length: 75\r\n\r\nAction=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3Asecret123"), s(ok),
				c("GET /?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&WebIdentityToken=eyJsecret HTTP/1.1\r\n\r\n"), s(ok),
				c("GET /?Action=Delete&Version=1 HTTP/1.1\r\n\r\n"), s(ok),
			},
			want: []string{"POST / 200 1-1/254 2-2/40 host=sts.amazonaws.com signed action=AssumeRole", "GET / 200 3-3/97 4-4/40 action=AssumeRoleWithWebIdentity", "GET / 200 5-5/42 6-6/40"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(test.conn, test.said...)
			if diff := cmp.Diff(test.want, shorts(r.Exchanges)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if r.Handover.To != test.to || string(r.Handover.Rest) != test.rest || r.Lost != test.lost {
				t.Errorf("handed over to %q with %q, lost %d; want %q, %q, %d", r.Handover.To, r.Handover.Rest, r.Lost, test.to, test.rest, test.lost)
			}
			ct.AnySegmentation(t, Protocol(), test.said...)
		})
	}
}
