package http2

import (
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/fields"
)

// usual is a conversation with a bit of everything.
func usual() []ct.Said {
	c, s := newWriter(), newWriter()
	return []ct.Said{
		ct.C(preface, c.settings().headers(1, true, get("/a?q=sEcReT-1")...).headers(3, false, call("/shop.Cart/Add")...).sent()),
		ct.S(s.settings().headers(1, false, ":status= 200", "set-cookie= sEcReT-2", "x= sEcReT-3").data(1, false, "sEcReT-4").sent()),
		ct.C(c.data(3, true, "sEcReT-5").headers(5, true, append(get("/b"), "authorization= Bearer sEcReT-6", "x-request-id= sEcReT-7")...).sent()),
		ct.S(s.data(1, true, "x").headers(3, false, ":status= 200", "content-type= application/grpc").sent()),
		ct.S(s.headers(5, true, ":status= 500", "set-cookie= sEcReT-2").headers(3, true, "grpc-status= 13", "grpc-message= sEcReT-8").sent()),
		ct.C(c.headers(7, true, ":method= GET", ":path= /eyJhbGciOiJIUzI1NiJ9.sEcReT-9.0123456789012345", ":authority= h", "sEcReT-name= 1").sent()),
		ct.S(s.headers(7, true, ":status= 404").sent()),
	}
}

// TestSecrets plants secrets everywhere. None may be told, wherever the capture begins and
// whatever it lacks; and what is told must be true: a field that the whole does not have
// may only be empty.
func TestSecrets(t *testing.T) {
	t.Parallel()
	said := usual()
	p := Protocol()
	whole := ct.Play(p, said...)
	if len(whole.Exchanges) != 4 || whole.Lost != 0 {
		t.Fatalf("%v, lost %d", shorts(whole.Exchanges), whole.Lost)
	}
	ct.NoSecret(t, whole, "sEcReT-")
	truth := make(map[uint32]*capture.Exchange)
	for _, x := range whole.Exchanges {
		truth[x.Stream] = x
	}
	for i := range said {
		for cut := 0; cut < len(said[i].Data); cut += 3 {
			for _, length := range []int{1, 1000} {
				some := append([]ct.Said{}, said[:i]...)
				some = append(some, without(said[i], cut, length)...)
				some = append(some, said[i+1:]...)
				r := ct.Play(p, some...)
				ct.NoSecret(t, r, "sEcReT-")
				noLies(t, r, truth)
			}
			mid := append([]ct.Said{{Side: said[i].Side, Data: said[i].Data[cut:]}}, said[i+1:]...)
			r := ct.PlayMid(p, mid...)
			ct.NoSecret(t, r, "sEcReT-")
			noLies(t, r, truth)
		}
	}
}

// without is what is said without some bytes.
func without(s ct.Said, from, length int) []ct.Said {
	length = min(length, len(s.Data)-from)
	return []ct.Said{{Side: s.Side, Data: s.Data[:from]}, {Side: s.Side, Missing: length, Data: s.Data[from+length:]}}
}

// noLies fails if an exchange says other than the truth, where it says anything.
func noLies(t *testing.T, r ct.Result, truth map[uint32]*capture.Exchange) {
	t.Helper()
	for _, x := range r.Exchanges {
		want := truth[x.Stream]
		if want == nil {
			t.Errorf("%s was made up", short(x))
			continue
		}
		for _, texts := range [][2]string{{x.Op, want.Op}, {x.Target, want.Target}, {x.Authority, want.Authority}, {x.HTTP.UserAgent, want.HTTP.UserAgent}} {
			// That a call is gRPC may be unknown; then its method is told.
			if texts[0] != "" && texts[0] != texts[1] && !(want.Protocol == capture.GRPC && texts[0] == "POST") {
				t.Errorf("%s; truth is %s", short(x), short(want))
			}
		}
		if x.Answered() && x.Status > 0 && x.Status != want.Status && want.Protocol != capture.GRPC {
			t.Errorf("%s; truth is %s", short(x), short(want))
		}
		if x.Protocol == capture.GRPC && want.Protocol != capture.GRPC || x.Keys.Request != 0 && x.Keys != want.Keys {
			t.Errorf("%s; truth is %s", short(x), short(want))
		}
	}
}

// FuzzParser sees that any bytes are read without panic and within bounds, and that what
// is told keeps the rules.
func FuzzParser(f *testing.F) {
	f.Add(ct.Script(usual()...))
	f.Add(ct.Script(usual()[2:]...))
	c := newWriter()
	f.Add(ct.Script(ct.C(preface, c.settings().headers(1, false, get("/")...).data(1, true, "x").sent()), ct.S("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07")))
	p := Protocol()
	f.Fuzz(func(t *testing.T, script []byte) {
		chunks := ct.Fuzzed(script)
		for _, conn := range []capture.Conn{{}, {Mid: true}, {Upgraded: &capture.Exchange{HTTP: &capture.HTTPDetail{}, Request: capture.Span{First: ct.Mark(1), Last: ct.Mark(1)}}}} {
			check(t, ct.PlayChunks(p, &conn, chunks))
		}
		p.Recognise(script[:min(len(script), capture.RecogniseBytes)])
	})
}

func check(t *testing.T, r ct.Result) {
	t.Helper()
	for _, x := range r.Exchanges {
		switch {
		case !x.Request.First.Seen() || !x.Request.Last.Seen() || x.Request.Last.Packet < x.Request.First.Packet:
			t.Errorf("%s has no proper request", short(x))
		case x.Answered() && (!x.Response.First.Seen() || x.Response.Last.Packet < x.Response.First.Packet):
			t.Errorf("%s has no proper response", short(x))
		case x.Protocol == capture.GRPC && x.Op != "":
			t.Errorf("%s has an operation", short(x))
		case strings.ContainsAny(x.Target, "?;#"):
			t.Errorf("%s has a query", short(x))
		}
		for _, text := range []string{x.Op, x.Target, x.Authority, x.HTTP.UserAgent, x.HTTP.Action} {
			if len(text) > capture.MaxText {
				t.Errorf("%q is long", text)
			}
		}
	}
}

// TestBounds opens streams without end, and headers without end.
func TestBounds(t *testing.T) {
	t.Parallel()
	told := 0
	p := newParser(&capture.Conn{}, func(*capture.Exchange) { told++ }, new(fields.Cache))
	c := newWriter()
	p.Chunk(capture.Chunk{Mark: ct.Mark(1), Data: []byte(preface)})
	const streams = 5 * maxStreams
	for i := range uint32(streams) {
		p.Chunk(capture.Chunk{Mark: ct.Mark(int(i) + 2), Data: []byte(c.headers(2*i+1, true, get("/a")...).sent())})
		if len(p.streams) > maxStreams || len(p.order) > 2*maxStreams || told+len(p.streams) != int(i)+1 {
			t.Fatalf("%d told, %d open in %d of %d", told, len(p.streams), len(p.order), i+1)
		}
	}
	c.framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 2*streams + 1, BlockFragment: []byte("abc")})
	for range 100 {
		c.framer.WriteContinuation(2*streams+1, false, make([]byte, 16<<10))
	}
	p.Chunk(capture.Chunk{Mark: ct.Mark(1 << 20), Data: []byte(c.sent())})
	if p.Lost() != 0 {
		t.Error("headers that go on are lost")
	}
	c.framer.WriteContinuation(2*streams+1, true, make([]byte, 16<<10))
	p.Chunk(capture.Chunk{Mark: ct.Mark(1 << 20), Data: []byte(c.sent())})
	if held := cap(p.side[capture.Client].block); held > 2*maxBlock {
		t.Errorf("%d bytes of a header block are held", held)
	}
	if lost := p.Lost(); lost != 3+101*(16<<10) {
		t.Errorf("%d bytes of headers that were too long are lost", lost)
	}
}

// BenchmarkExchange reads one request and its response, one packet each, whose headers are
// in the tables.
func BenchmarkExchange(b *testing.B) {
	c, s := newWriter(), newWriter()
	told := 0
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) { told++ })
	chunk := func(side capture.Side, text string) []byte {
		p.Chunk(capture.Chunk{Side: side, Mark: ct.Mark(1), Data: []byte(text)})
		return []byte(text)
	}
	chunk(capture.Client, preface+c.settings().sent())
	chunk(capture.Server, s.settings().sent())
	var request, response []byte
	for id := uint32(1); id < 5; id += 2 {
		request = chunk(capture.Client, c.headers(id, true, get("/api/v1/items")...).sent())
		response = chunk(capture.Server, s.headers(id, false, ":status= 200", "server= envoy").data(id, true, strings.Repeat("x", 120)).sent())
	}
	b.ReportAllocs()
	n, id := 2, uint32(5)
	for b.Loop() {
		n++
		setStream(request, id)
		setStream(response, id)
		id = (id + 2) & (1<<31 - 1)
		p.Chunk(capture.Chunk{Side: capture.Client, Mark: ct.Mark(1), Data: request})
		p.Chunk(capture.Chunk{Side: capture.Server, Mark: ct.Mark(2), Data: response})
	}
	if told != n {
		b.Fatalf("%d exchanges of %d", told, n)
	}
}

// setStream sets the stream of all frames in data.
func setStream(data []byte, id uint32) {
	for len(data) > 0 {
		data[5], data[6], data[7], data[8] = byte(id>>24), byte(id>>16), byte(id>>8), byte(id)
		data = data[headerLength+parseHeader(data).length:]
	}
}
