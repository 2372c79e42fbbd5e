package turns

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

// said is one chunk: who sent how many bytes, and how many are missing before them.
type said struct {
	side           capture.Side
	bytes, missing int
}

// play tells a parser what was said, a packet and a nanosecond for each.
func play(said ...said) []capture.Exchange {
	var got []capture.Exchange
	p := Protocol().New(&capture.Conn{}, func(x *capture.Exchange) { got = append(got, *x) })
	for i, s := range said {
		p.Chunk(capture.Chunk{
			Side: s.side, Mark: mark(i + 1), Missing: s.missing, Data: make([]byte, s.bytes),
		})
	}
	p.Close()
	return got
}

func mark(i int) capture.Mark { return capture.Mark{Time: capture.Time(i), Packet: uint64(i)} }

func turn(request, response capture.Span) capture.Exchange {
	return capture.Exchange{Op: "turn", Request: request, Response: response}
}

func span(first, last int, bytes int64) capture.Span {
	return capture.Span{First: mark(first), Last: mark(last), Bytes: bytes}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	const client, server = capture.Client, capture.Server
	none := capture.Span{}
	for name, test := range map[string]struct {
		said []said
		want []capture.Exchange
	}{
		"nothing":                 {nil, nil},
		"one turn":                {[]said{{client, 5, 0}, {server, 7, 0}}, []capture.Exchange{turn(span(1, 1, 5), span(2, 2, 7))}},
		"a greeting is no answer": {[]said{{server, 9, 0}, {client, 5, 0}, {server, 7, 0}}, []capture.Exchange{turn(span(2, 2, 5), span(3, 3, 7))}},
		"only a greeting":         {[]said{{server, 9, 0}}, nil},
		"no answer":               {[]said{{client, 5, 0}}, []capture.Exchange{turn(span(1, 1, 5), none)}},
		"several packets each": {
			[]said{{client, 5, 0}, {client, 1, 0}, {server, 7, 0}, {server, 2, 0}, {client, 3, 0}, {server, 4, 0}},
			[]capture.Exchange{turn(span(1, 2, 6), span(3, 4, 9)), turn(span(5, 5, 3), span(6, 6, 4))},
		},
		"missing bytes count": {
			[]said{{client, 5, 10}, {server, 0, 3}, {server, 0, 0}, {client, 0, 0}},
			[]capture.Exchange{turn(span(1, 1, 15), span(2, 2, 3))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, play(test.said...)); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzTurns plays any conversation: each byte is a chunk, whose lowest bit says the side.
// No byte after the client's first may be lost or counted twice.
func FuzzTurns(f *testing.F) {
	f.Add([]byte{2, 5, 7, 6, 3})
	f.Add([]byte{1, 0, 1, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		var all []said
		var want int64
		for _, b := range script {
			s := said{capture.Side(b & 1), int(b >> 2), int(b>>1) & 1}
			if len(all) > 0 || s.side == capture.Client && s.bytes+s.missing > 0 {
				want += int64(s.bytes + s.missing)
				all = append(all, s)
			}
		}
		var got int64
		var end capture.Time
		for _, x := range play(all...) {
			if x.Start() < end || x.Op != "turn" {
				t.Errorf("%+v begins before %d", x, end)
			}
			end = x.End()
			got += x.Request.Bytes + x.Response.Bytes
		}
		if got != want {
			t.Errorf("turns have %d bytes of %d", got, want)
		}
	})
}

func BenchmarkTurn(b *testing.B) {
	p := Protocol().New(&capture.Conn{}, func(*capture.Exchange) {})
	data := make([]byte, 1000)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		p.Chunk(capture.Chunk{Side: capture.Client, Mark: mark(i), Data: data})
		p.Chunk(capture.Chunk{Side: capture.Server, Mark: mark(i), Data: data})
	}
}
