package http1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/fields"
)

// TestIncomplete plays connections of which parts are missing.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	c, s, gap := ct.C, ct.S, ct.Gap
	const (
		sized   = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" // 40 bytes
		chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		next    = "GET /next HTTP/1.1\r\n\r\n"
	)
	body := strings.Repeat("x", 100)
	closed := capture.Conn{Closed: ct.Mark(9), ClosedBy: capture.Server}
	for name, test := range map[string]struct {
		conn capture.Conn
		said []ct.Said
		want []string
		lost uint64
	}{
		"in a body of known length": {
			said: []ct.Said{c(get), s(sized, body[:20]), gap(50, s(body[:30])), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-3/140 host=h", "GET /next 200 4-4/22 5-5/40"},
		},
		"the end of a body": {
			said: []ct.Said{c(get), s(sized, body[:20]), gap(80, s("")), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-3/140 host=h", "GET /next 200 4-4/22 5-5/40"},
		},
		"the end of a body and the next response": {
			said: []ct.Said{c(get), s(sized, body[:20]), c(next), gap(200, s("rest")), c(get), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-4/140 host=h", "GET /next 0 3-3/22 0-0/0", "GET /a 200 5-5/28 6-6/40 host=h"},
			lost: 4,
		},
		"in a chunk": {
			said: []ct.Said{c(get), s(chunked, "64\r\n", body[:20]), gap(50, s(body[:30], "\r\n0\r\n\r\n")), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-3/158 host=h", "GET /next 200 4-4/22 5-5/40"},
		},
		"over the end of a chunk": {
			said: []ct.Said{c(get), s(chunked, "64\r\n", body[:20]), gap(500, s("zzz\r\n0\r\n\r\n")), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-3/581 host=h", "GET /next 200 4-4/22 5-5/40"},
			lost: 10,
		},
		"in a response's headers": {
			said: []ct.Said{c(get), s("HTTP/1.1 404 Not"), gap(300, s("")), s("more of it"), c(next), s(ok)},
			want: []string{"GET /a 404 1-1/28 2-4/326 host=h", "GET /next 200 5-5/22 6-6/40"},
			lost: 10,
		},
		"in headers, to the end": {
			conn: closed,
			said: []ct.Said{c(get), s("HTTP/1.1 404 Not Found\r\nServer: x"), gap(300, s("more"))},
			want: []string{"GET /a 404 1-1/28 2-3/337 host=h"},
			lost: 13,
		},
		"in a request's headers": {
			said: []ct.Said{c("GET /api?q=secret HTTP/1.1\r\nHost: h\r\nCook"), gap(100, c("")), s(ok), c(next), s(ok)},
			want: []string{"GET /api 200 1-2/141 3-3/40 host=h", "GET /next 200 4-4/22 5-5/40"},
			lost: 4,
		},
		"in the path": {
			said: []ct.Said{c("GET /api/v1/ord"), gap(100, c("")), s(ok), c("POST /form?se"), gap(100, c("")), s(ok)},
			want: []string{"GET  200 1-2/115 3-3/40", "POST /form 200 4-5/113 6-6/40"},
		},
		"in a response's headers, with chunks after it": {
			said: []ct.Said{c(get), s("HTTP/1.1 200 OK\r\nTransf"), gap(100, s("")), s("5\r\nhello\r\n"), s("0\r\nSum: 1\r\n\r\n"), s("more")},
			want: []string{"GET /a 200 1-1/28 2-5/146 host=h"},
			lost: 6 + 10 + 13 + 4,
		},
		"in the headers of a request that waits for 100": {
			said: []ct.Said{c("PUT /u HTTP/1.1\r\nExpect: 100-co"), gap(50, c("")), s("HTTP/1.1 100 Continue\r\n\r\n"), c("abc"), s(ok)},
			want: []string{"PUT /u 200 1-4/84 5-5/40 interim=3"},
			lost: 14 + 3,
		},
		"in a form": {
			said: []ct.Said{c("POST / HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 46\r\n\r\nVersion=2011-06-15&Action=Assume"), gap(14, c("")), s(ok)},
			want: []string{"POST / 200 1-2/134 3-3/40"},
		},
		"a whole request": {
			said: []ct.Said{c(get), s(ok), s(ok), gap(28, c(get)), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h", "GET /a 200 4-4/28 5-5/40 host=h"},
		},
		"a whole response": {
			said: []ct.Said{c(get), c(next), gap(40, s(ok))},
			want: []string{"GET /a 0 1-1/28 0-0/0 host=h", "GET /next 200 2-2/22 3-3/40"},
		},
		"in a body that the close ends": {
			conn: closed,
			said: []ct.Said{c(get), s("HTTP/1.1 200 OK\r\n\r\n"), gap(500, s("abc"))},
			want: []string{"GET /a 200 1-1/28 2-9/522 host=h"},
		},
		"101 cut by the snap length": {
			said: []ct.Said{c("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"), s("HTTP/1.1 101 Sw"), gap(100, s("\x81\x00"))},
			want: []string{"GET /ws 101 1-1/40 2-3/15"},
		},
		"a capture that begins in a body": {
			conn: capture.Conn{Mid: true},
			said: []ct.Said{s("rest of a body\n<html>"), s(ok), c(get), s(ok)},
			want: []string{"GET /a 200 3-3/28 4-4/40 host=h"},
			lost: 21,
		},
		"a capture that begins with the response to HEAD": {
			conn: capture.Conn{Mid: true},
			said: []ct.Said{s(sized), c(get), s(ok)},
			want: []string{"GET /a 200 2-2/28 3-3/40 host=h"},
		},
		"a response captured a moment before its request": {
			said: []ct.Said{s(ok), c(get), c(next), s(ok)},
			want: []string{"GET /a 200 2-2/28 1-1/40 host=h", "GET /next 200 3-3/22 4-4/40"},
		},
		"a response that nobody asked for": {
			said: []ct.Said{c(get), s(ok), s("HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h"},
		},
		"lengths that contradict": {
			said: []ct.Said{c(get), s("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/59 host=h", "GET /next 200 3-3/22 4-4/40"},
			lost: 2,
		},
		"a body that is longer than said": {
			said: []ct.Said{c(get), s(ok, "and more\n"), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h", "GET /next 200 3-3/22 4-4/40"},
			lost: 9,
		},
		"nonsense between requests": {
			said: []ct.Said{c("\x00\x01nonsense\n", get), s(ok), c("NOT A REQUEST\r\n", next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/40 host=h", "GET /next 200 3-3/22 4-4/40"},
			lost: 11 + 15,
		},
		"a size that is none": {
			said: []ct.Said{c(get), s(chunked, "zz\r\nabc\r\n"), c(next), s(ok)},
			want: []string{"GET /a 200 1-1/28 2-2/56 host=h", "GET /next 200 3-3/22 4-4/40"},
			lost: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(test.conn, test.said...)
			if diff := cmp.Diff(test.want, shorts(r.Exchanges)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if r.Lost != test.lost {
				t.Errorf("lost %d; want %d", r.Lost, test.lost)
			}
			ct.NoSecret(t, r, "secret")
		})
	}
}

// TestEarlyOnlyWithinAMoment leaves a response alone that came long before a request.
func TestEarlyOnlyWithinAMoment(t *testing.T) {
	t.Parallel()
	chunks := ct.Chunks([]ct.Said{ct.S(ok), ct.C(get), ct.S(ok)})
	chunks[1].Mark.Time += 20_000_000
	chunks[2].Mark.Time += 20_000_000
	r := ct.PlayChunks(Protocol(), withEnds(capture.Conn{}), chunks)
	if diff := cmp.Diff([]string{"GET /a 200 2-2/28 3-3/40 host=h"}, shorts(r.Exchanges)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestPendingIsBounded asks without ever being answered.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	told := 0
	p := newParser(withEnds(capture.Conn{}), func(*capture.Exchange) { told++ }, new(fields.Cache))
	for i := range 1000 {
		p.Chunk(capture.Chunk{Side: capture.Client, Mark: ct.Mark(i + 1), Data: []byte(get)})
		if len(p.pending) > maxPending || told+len(p.pending) != i+1 {
			t.Fatalf("%d told and %d pending of %d", told, len(p.pending), i+1)
		}
	}
}

// TestLinesAreBounded sends lines without end.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	var told []*capture.Exchange
	p := newParser(withEnds(capture.Conn{}), func(x *capture.Exchange) { told = append(told, x) }, new(fields.Cache))
	long := strings.Repeat("x", 10_000)
	for i, text := range []string{"GET /long/", long, long, "?x HTTP/1.1\r\n", "Host: h\r\nCookie: ", long, long, "\r\nUser-Agent: u", "\r\n\r\n"} {
		p.Chunk(capture.Chunk{Side: capture.Client, Mark: ct.Mark(i + 1), Data: []byte(text)})
		if held := cap(p.half[capture.Client].line.held); held > 2*maxLine {
			t.Fatalf("%d bytes are held of a line", held)
		}
	}
	p.Chunk(capture.Chunk{Side: capture.Server, Mark: ct.Mark(99), Data: []byte(ok)})
	if len(told) != 1 || len(told[0].Target) > capture.MaxText || told[0].Authority != "h" || told[0].HTTP.UserAgent != "u" || p.Lost() != 0 {
		t.Errorf("%v, %d lost", shorts(told), p.Lost())
	}
}

// TestHopeless hands a connection over that never was HTTP.
func TestHopeless(t *testing.T) {
	t.Parallel()
	var said []ct.Said
	for range 8 {
		said = append(said, ct.C("\x01binary"), ct.S("\x02binary"))
	}
	if r := play(capture.Conn{}, said...); r.Handover.To != capture.Turns || r.Message != 16 || len(r.Exchanges) != 0 {
		t.Errorf("handed over to %q after %d; %v", r.Handover.To, r.Message, shorts(r.Exchanges))
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]capture.Recognition{
		"GET / HTTP/1.1\r\n":               capture.ByClient,
		"DELETE /very/long/path/and":       capture.ByClient,
		"CONNECT host:443 HTTP/1.1":        capture.ByClient,
		"OPTIONS * HTTP/1.1":               capture.ByClient,
		"GET http://proxied/ HTTP/1.1":     capture.ByClient,
		"PROPFIND /dav HTTP/1.1":           capture.ByClient,
		"PROPFIND /dav/that/is/cut/before": capture.Perhaps,
		"GE":                               capture.Perhaps,
		"HTTP/1.1 200 OK":                  capture.ByServer,
		"HTTP/1.0 200 OK":                  capture.ByServer,
		"{\"rest\": \"of a body\"}":        capture.Perhaps,
		"PRI * HTTP/2.0\r\n\r\nSM":         capture.NotIt,
		"OPTIONS sip:user@host SIP/2.0":    capture.Perhaps,
		"\x16\x03\x01\x02\x00":             capture.NotIt,
		"\x00\x00\x00\x08\x04\xd2\x16\x2f": capture.NotIt,
		"*1\r\n$4\r\nPING\r\n":             capture.Perhaps,
		"":                                 capture.NotIt,
	} {
		if got := Protocol().Recognise([]byte(first)); got != want {
			t.Errorf("%q: %d; want %d", first, got, want)
		}
	}
}
