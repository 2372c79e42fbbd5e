package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// writer writes what one side sends, as real implementations do.
type writer struct {
	out    bytes.Buffer
	framer *xhttp2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
}

func newWriter() *writer {
	w := &writer{}
	w.framer = xhttp2.NewFramer(&w.out, nil)
	w.hpack = hpack.NewEncoder(&w.block)
	return w
}

// sent is what was written since the last call.
func (w *writer) sent() string {
	defer w.out.Reset()
	return w.out.String()
}

func (w *writer) settings() *writer {
	w.framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 20})
	return w
}

// headers writes fields as "name: value" lines; end is END_STREAM.
func (w *writer) headers(stream uint32, end bool, fields ...string) *writer {
	w.encode(fields)
	w.framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: stream, EndStream: end, EndHeaders: true, BlockFragment: w.block.Bytes()})
	return w
}

func (w *writer) encode(fields []string) {
	w.block.Reset()
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "= ")
		w.hpack.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
}

func (w *writer) data(stream uint32, end bool, data string) *writer {
	w.framer.WriteData(stream, end, []byte(data))
	return w
}

// short writes an exchange as: protocol op target status [packets] and what else there is.
func short(x *capture.Exchange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s %s %d %d-%d %d-%d", x.Protocol, x.Stream, x.Op, x.Target, x.Status,
		x.Request.First.Packet, x.Request.Last.Packet, x.Response.First.Packet, x.Response.Last.Packet)
	if x.Authority != "" {
		fmt.Fprintf(&b, " @%s", x.Authority)
	}
	if x.HTTP.UserAgent != "" {
		fmt.Fprintf(&b, " agent=%s", x.HTTP.UserAgent)
	}
	if x.HTTP.Interim.Seen() {
		fmt.Fprintf(&b, " interim=%d", x.HTTP.Interim.Packet)
	}
	if x.Failed {
		b.WriteString(" failed")
	}
	return b.String()
}

func shorts(told []*capture.Exchange) []string {
	var got []string
	for _, x := range told {
		got = append(got, short(x))
	}
	return got
}

func get(path string) []string {
	return []string{":method= GET", ":scheme= http", ":authority= h", ":path= " + path, "user-agent= go", "cookie= s=secret"}
}

func call(path string) []string {
	return []string{":method= POST", ":scheme= http", ":path= " + path, ":authority= h", "content-type= application/grpc+proto", "te= trailers", "user-agent= grpc-go", "authorization= Bearer secret"}
}

func TestExchanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script func(c, s *writer) []ct.Said
		want   []string
		lost   uint64
	}{
		"one": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.settings().headers(1, true, get("/a?secret=1")...).sent()),
					ct.S(s.settings().headers(1, false, ":status= 200", "set-cookie= secret").sent()),
					ct.S(s.data(1, false, "abc").data(1, true, "def").sent()),
				}
			},
			want: []string{" 1 GET /a 200 1-1 2-3 @h agent=go"},
		},
		"interleaved": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.settings().headers(1, true, get("/a")...).headers(3, false, get("/b")...).sent()),
					ct.C(c.headers(5, true, get("/c")...).sent()),
					ct.S(s.settings().headers(5, true, ":status= 204").headers(1, false, ":status= 503").sent()),
					ct.C(c.data(3, true, "body").sent()),
					ct.S(s.headers(3, false, ":status= 200").data(1, true, "").sent()),
					ct.S(s.data(3, false, "x").headers(3, true, "checksum= 1").sent()),
				}
			},
			want: []string{" 5 GET /c 204 2-2 3-3 @h agent=go", " 1 GET /a 503 1-1 3-5 @h agent=go failed", " 3 GET /b 200 1-4 5-6 @h agent=go"},
		},
		"gRPC": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.settings().headers(1, false, call("/shop.Cart/Add")...).data(1, true, "\x00\x00\x00\x00\x01x").sent()),
					ct.S(s.settings().headers(1, false, ":status= 200", "content-type= application/grpc").data(1, false, "y").headers(1, true, "grpc-status= 0", "grpc-message= ").sent()),
					ct.C(c.headers(3, true, call("/shop.Cart/Drop")...).sent()),
					ct.S(s.headers(3, true, ":status= 200", "content-type= application/grpc", "grpc-status= 5", "grpc-message= secret").sent()),
					ct.C(c.headers(5, true, call("/shop.Cart/Gone")...).sent()),
					ct.S(s.headers(5, true, ":status= 503", "content-type= text/plain").sent()),
				}
			},
			want: []string{"grpc 1  /shop.Cart/Add 0 1-1 2-2 @h agent=grpc-go", "grpc 3  /shop.Cart/Drop 5 3-3 4-4 @h agent=grpc-go failed", "grpc 5  /shop.Cart/Gone 14 5-5 6-6 @h agent=grpc-go failed"},
		},
		"streaming": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.headers(1, false, call("/chat/Talk")...).sent()),
					ct.S(s.headers(1, false, ":status= 200", "content-type= application/grpc").sent()),
					ct.C(c.data(1, false, "a").sent()), ct.S(s.data(1, false, "b").sent()),
					ct.C(c.data(1, true, "c").sent()), ct.S(s.data(1, false, "d").sent()),
					ct.S(s.headers(1, true, "grpc-status= 0").sent()),
				}
			},
			want: []string{"grpc 1  /chat/Talk 0 1-5 2-7 @h agent=grpc-go"},
		},
		"continuation, padding and priority": {
			script: func(c, s *writer) []ct.Said {
				c.encode(get("/long"))
				block := c.block.Bytes()
				c.framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: block[:5], PadLength: 7, Priority: xhttp2.PriorityParam{StreamDep: 0, Weight: 3}})
				c.framer.WriteContinuation(1, false, block[5:6])
				c.framer.WriteContinuation(1, true, block[6:])
				s.framer.WriteDataPadded(1, true, []byte("x"), make([]byte, 9))
				padded := s.sent()
				return []ct.Said{
					ct.C(preface, c.sent()),
					ct.S(s.headers(1, false, ":status= 200").sent(), padded),
				}
			},
			want: []string{" 1 GET /long 200 1-1 2-2 @h agent=go"},
		},
		"interim responses": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.headers(1, true, get("/a")...).sent()),
					ct.S(s.headers(1, false, ":status= 103").sent()),
					ct.S(s.headers(1, true, ":status= 200").sent()),
				}
			},
			want: []string{" 1 GET /a 200 1-1 3-3 @h agent=go interim=2"},
		},
		"pushed responses keep the table right": {
			script: func(c, s *writer) []ct.Said {
				s.encode([]string{":method= GET", ":path= /pushed", "x= 1"})
				s.framer.WritePushPromise(xhttp2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: s.block.Bytes(), EndHeaders: true})
				promise := s.sent()
				return []ct.Said{
					ct.C(preface, c.headers(1, true, get("/a")...).sent()),
					ct.S(promise, s.headers(2, true, ":status= 200", "x= 1").headers(1, true, ":status= 200", "x= 1").sent()),
				}
			},
			want: []string{" 1 GET /a 200 1-1 2-2 @h agent=go"},
		},
		"resets": {
			script: func(c, s *writer) []ct.Said {
				requests := c.headers(1, true, get("/refused")...).headers(3, true, get("/cancelled")...).headers(5, true, call("/a/B")...).sent()
				s.framer.WriteRSTStream(1, xhttp2.ErrCodeRefusedStream)
				s.framer.WriteRSTStream(5, xhttp2.ErrCodeRefusedStream)
				c.framer.WriteRSTStream(3, xhttp2.ErrCodeCancel)
				return []ct.Said{ct.C(preface, requests), ct.S(s.sent()), ct.C(c.sent())}
			},
			want: []string{" 1 GET /refused 0 1-1 2-2 @h agent=go failed", "grpc 5  /a/B 14 1-1 2-2 @h agent=grpc-go failed", " 3 GET /cancelled 0 1-3 0-0 @h agent=go"},
		},
		"going away": {
			script: func(c, s *writer) []ct.Said {
				requests := c.headers(1, true, get("/a")...).headers(3, true, get("/b")...).sent()
				s.framer.WriteGoAway(1, xhttp2.ErrCodeNo, []byte("secret"))
				return []ct.Said{ct.C(preface, requests), ct.S(s.headers(1, true, ":status= 200").sent())}
			},
			want: []string{" 3 GET /b 0 1-1 0-0 @h agent=go", " 1 GET /a 200 1-1 2-2 @h agent=go"},
		},
		"response captured before its request": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.settings().sent()),
					ct.S(s.settings().headers(1, true, ":status= 200").sent()),
					ct.C(c.headers(1, true, get("/a")...).sent()),
				}
			},
			want: []string{" 1 GET /a 200 3-3 2-2 @h agent=go"},
		},
		"unanswered": {
			script: func(c, s *writer) []ct.Said {
				return []ct.Said{
					ct.C(preface, c.headers(1, true, get("/a")...).headers(3, true, get("/b")...).headers(5, false, call("/c/D")...).sent()),
					ct.S(s.headers(3, false, ":status= 200").data(3, false, "x").sent()),
				}
			},
			want: []string{" 1 GET /a 0 1-1 0-0 @h agent=go", " 3 GET /b 200 1-1 2-0 @h agent=go", "grpc 5  /c/D -1 1-1 0-0 @h agent=grpc-go"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := test.script(newWriter(), newWriter())
			r := ct.Play(Protocol(), said...)
			if diff := cmp.Diff(test.want, shorts(r.Exchanges)); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
			if r.Lost != test.lost || r.Handover.To != "" {
				t.Errorf("lost %d, handed over to %q; want %d", r.Lost, r.Handover.To, test.lost)
			}
			ct.NoSecret(t, r, "secret")
			ct.AnySegmentation(t, Protocol(), said...)
		})
	}
}

// TestMid plays a connection from its second request on. What the tables held before is
// not known: such fields are empty, and none is wrong.
func TestMid(t *testing.T) {
	t.Parallel()
	c, s := newWriter(), newWriter()
	c.settings().headers(1, true, get("/a")...).sent()
	s.settings().headers(1, true, ":status= 200", "server= x").sent()
	said := []ct.Said{
		// The method and scheme are in the static table, the path is new; all else was sent
		// with the first request.
		ct.C(c.headers(3, true, get("/b")...).sent()), ct.S(s.headers(3, true, ":status= 404", "server= x").sent()),
		// Now the path is known too.
		ct.C(c.headers(5, true, append(get("/b"), "x-new= 1")...).sent()), ct.S(s.headers(5, true, ":status= 500", "server= x").sent()),
		ct.C(c.headers(7, true, ":method= GET", ":path= /c", ":authority= other", "user-agent= curl").sent()), ct.S(s.headers(7, true, ":status= 200").sent()),
		ct.C(c.headers(9, true, ":method= GET", ":path= /c", ":authority= other", "user-agent= curl", "cookie= s=secret").sent()), ct.S(s.headers(9, true, ":status= 200").sent()),
	}
	r := ct.PlayMid(Protocol(), said...)
	want := []string{" 3 GET /b 404 1-1 2-2", " 5 GET /b 500 3-3 4-4 failed", " 7 GET /c 200 5-5 6-6 @other agent=curl", " 9 GET /c 200 7-7 8-8 @other agent=curl"}
	if diff := cmp.Diff(want, shorts(r.Exchanges)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
	// :authority, user-agent and cookie of two requests, and of the last its cookie;
	// server of two responses.
	if r.Lost != 2*3+1+2 {
		t.Errorf("lost %d fields", r.Lost)
	}
}

// TestMidBetweenHeaders begins where the client sends the rest of a body, and the server
// windows.
func TestMidBetweenHeaders(t *testing.T) {
	t.Parallel()
	c, s := newWriter(), newWriter()
	c.headers(1, false, call("/a/B")...).sent()
	s.framer.WriteWindowUpdate(0, 100)
	s.framer.WritePing(true, [8]byte{})
	r := ct.PlayMid(Protocol(),
		ct.C("rest of a frame"),
		ct.C(c.data(1, true, "x").sent()), ct.S(s.sent()),
		ct.S(s.headers(1, true, ":status= 200", "grpc-status= 0").sent()),
		ct.C(c.headers(3, true, append(call("/a/B"), "grpc-timeout= 1S")...).sent()),
		ct.S(s.headers(3, true, ":status= 200", "content-type= application/grpc", "grpc-status= 3").sent()),
	)
	// That it was POST is in the static table, all else was said before; that it is gRPC
	// the answer tells.
	want := []string{"grpc 3   3 5-5 6-6 failed"}
	if diff := cmp.Diff(want, shorts(r.Exchanges)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestMissing lacks bytes of a body, which costs nothing, and then of headers: what the
// table held before is not known any more.
func TestMissing(t *testing.T) {
	t.Parallel()
	c, s := newWriter(), newWriter()
	first := c.headers(1, false, get("/a")...).sent()
	body := c.data(1, true, strings.Repeat("x", 100)).sent()
	second := c.headers(3, true, get("/b")...).sent()
	third := c.headers(5, true, get("/c")...).sent()
	fourth := c.headers(7, true, append(get("/c"), "x-request-id= 5")...).sent()
	said := []ct.Said{
		ct.C(preface, first, body[:20]),
		ct.Gap(60, ct.C(body[80:], second)),
		ct.S(s.headers(1, true, ":status= 200").headers(3, true, ":status= 200").sent()),
		ct.Gap(len(third), ct.C(fourth)),
		ct.S(s.headers(5, true, ":status= 200").headers(7, true, ":status= 200").sent()),
	}
	r := ct.Play(Protocol(), said...)
	want := []string{" 1 GET /a 200 1-2 3-3 @h agent=go", " 3 GET /b 200 2-2 3-3 @h agent=go", " 7 GET  200 4-4 5-5"}
	if diff := cmp.Diff(want, shorts(r.Exchanges)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

// TestUpgraded answers the question of HTTP/1.1 on stream 1.
func TestUpgraded(t *testing.T) {
	t.Parallel()
	x := &capture.Exchange{Op: "GET", Target: "/up", HTTP: &capture.HTTPDetail{}, Request: capture.Span{First: ct.Mark(1), Last: ct.Mark(1)}}
	c, s := newWriter(), newWriter()
	r := ct.PlayChunks(Protocol(), &capture.Conn{Upgraded: x}, ct.Chunks([]ct.Said{
		ct.S(s.settings().headers(1, false, ":status= 200").sent()),
		ct.C(preface, c.settings().headers(3, true, get("/next")...).sent()),
		ct.S(s.data(1, true, "x").headers(3, true, ":status= 404").sent()),
	}))
	want := []string{" 1 GET /up 200 1-1 1-3", " 3 GET /next 404 2-2 3-3 @h agent=go"}
	if diff := cmp.Diff(want, shorts(r.Exchanges)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	c, s := newWriter(), newWriter()
	recognise := Protocol().Recognise
	for name, test := range map[string]struct {
		first string
		want  capture.Recognition
	}{
		"preface":              {preface, capture.ByClient},
		"beginning of it":      {preface[:5], capture.ByClient},
		"HTTP/1":               {"PROPFIND / HTTP/1.1\r\n", capture.NotIt},
		"settings":             {s.settings().sent(), capture.ByServer},
		"request":              {c.headers(1, true, get("/a")...).sent()[:30], capture.ByClient},
		"response":             {s.headers(1, true, ":status= 200").sent(), capture.ByServer},
		"data":                 {c.data(3, false, "x").sent(), capture.Perhaps},
		"TLS":                  {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", capture.NotIt},
		"response of HTTP/1":   {"HTTP/1.1 200 OK\r\n", capture.NotIt},
		"PostgreSQL":           {"\x00\x00\x00\x08\x04\xd2\x16\x2f", capture.NotIt},
		"MySQL":                {"J\x00\x00\x00\x0a8.0.32\x00\x08\x00\x00\x00abcdefgh\x00", capture.NotIt},
		"two different frames": {"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01nonsense!!", capture.NotIt},
	} {
		if got := recognise([]byte(test.first)); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}
