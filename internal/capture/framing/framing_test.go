package framing

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"taper.dev/taper/internal/capture"
)

// tagged frames as "m", two bytes of length, body; of each body four bytes are wanted.
var tagged = &Format{
	Header: 3,
	Size: func(h []byte) (int64, bool) {
		return int64(binary.BigEndian.Uint16(h[1:])), h[0] == 'm'
	},
	Keep: func([]byte) int { return 4 },
}

// cut tells a reader the chunks, a packet for each, and says what it made of them.
func cut(inStep bool, chunks ...capture.Chunk) (got []Message, r Reader) {
	r.Reset(tagged, inStep)
	for i, c := range chunks {
		c.Mark = mark(i + 1)
		for m := (Message{}); r.Next(&c, &m); {
			m.Header, m.Body = bytes.Clone(m.Header), bytes.Clone(m.Body)
			got = append(got, m)
		}
	}
	return got, r
}

func mark(i int) capture.Mark { return capture.Mark{Time: capture.Time(i), Packet: uint64(i)} }

func data(s string) capture.Chunk { return capture.Chunk{Data: []byte(s)} }

func after(missing int, s string) capture.Chunk {
	return capture.Chunk{Missing: missing, Data: []byte(s)}
}

func message(header, body string, size int64, first, last int) Message {
	return Message{[]byte(header), []byte(body), size, mark(first), mark(last)}
}

func TestReader(t *testing.T) {
	t.Parallel()
	ab, long := message("m\x00\x02", "ab", 2, 1, 1), "m\x00\x0a0123456789"
	for name, test := range map[string]struct {
		chunks []capture.Chunk
		want   []Message
		lost   uint64
		inStep bool
	}{
		"nothing":           {nil, nil, 0, true},
		"whole":             {[]capture.Chunk{data("m\x00\x02ab")}, []Message{ab}, 0, true},
		"empty body":        {[]capture.Chunk{data("m\x00\x00m\x00\x02ab")}, []Message{message("m\x00\x00", "", 0, 1, 1), ab}, 0, true},
		"bytes not wanted":  {[]capture.Chunk{data(long)}, []Message{message("m\x00\x0a", "0123", 10, 1, 1)}, 0, true},
		"split header":      {[]capture.Chunk{data("m"), data("\x00\x02a"), data("b")}, []Message{message("m\x00\x02", "ab", 2, 1, 3)}, 0, true},
		"split empty":       {[]capture.Chunk{data("m\x00"), data("\x00")}, []Message{message("m\x00\x00", "", 0, 1, 2)}, 0, true},
		"missing inside":    {[]capture.Chunk{data("m\x00\x0a01"), after(6, "89m\x00\x02ab")}, []Message{message("m\x00\x0a", "01", 10, 1, 2), message("m\x00\x02", "ab", 2, 2, 2)}, 0, true},
		"missing to end":    {[]capture.Chunk{data("m\x00\x0a01"), after(8, ""), data("m\x00\x02ab")}, []Message{message("m\x00\x0a", "01", 10, 1, 2), message("m\x00\x02", "ab", 2, 3, 3)}, 0, true},
		"missing past end":  {[]capture.Chunk{data("m\x00\x0a01"), after(9, "xyz"), data("m\x00\x02ab")}, []Message{message("m\x00\x0a", "01", 10, 1, 2), message("m\x00\x02", "ab", 2, 3, 3)}, 3, true},
		"missing in header": {[]capture.Chunk{data("m\x00"), after(1, "m\x00\x02ab")}, []Message{message("m\x00\x02", "ab", 2, 2, 2)}, 2, true},
		"missing between":   {[]capture.Chunk{after(7, "m\x00\x02ab")}, []Message{ab}, 0, true},
		"no such header":    {[]capture.Chunk{data("m\x00\x02abzzzm\x00\x02ab"), data("m\x00\x02ab")}, []Message{ab, message("m\x00\x02", "ab", 2, 2, 2)}, 8, true},
		"stays out of step": {[]capture.Chunk{data("zzz"), data("m"), data("m\x00\x01ax!!")}, nil, 11, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, r := cut(true, test.chunks...)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if r.Lost() != test.lost || r.InStep() != test.inStep {
				t.Errorf("lost %d, in step %v; want %d, %v", r.Lost(), r.InStep(), test.lost, test.inStep)
			}
		})
	}
}

// FuzzReader cuts the same bytes as one chunk and in pieces: as long as it is in step, the
// messages are the same, and every byte is in a message, lost, or in the unfinished one.
func FuzzReader(f *testing.F) {
	f.Add([]byte("m\x00\x02abm\x00\x0a0123456789m\x00"), byte(3))
	f.Add([]byte("m\x00\x02abzzzm\x00\x02ab"), byte(1))
	f.Fuzz(func(t *testing.T, all []byte, step byte) {
		whole, r := cut(true, data(string(all)))
		var pieces []capture.Chunk
		for rest := all; len(rest) > 0; {
			n := min(int(step%7)+1, len(rest))
			pieces = append(pieces, capture.Chunk{Data: rest[:n]})
			rest = rest[n:]
		}
		got, split := cut(true, pieces...)
		for i := range whole {
			if i >= len(got) || !bytes.Equal(got[i].Body, whole[i].Body) || got[i].Size != whole[i].Size {
				t.Fatalf("in pieces message %d is %+v; want %+v", i, got[min(i, len(got)-1)], whole[i])
			}
		}
		for _, r := range []*Reader{&r, &split} {
			total := r.lost + uint64(r.have)
			if r.have == r.format.Header {
				total += uint64(r.message.Size - r.left)
			}
			messages := whole
			if r == &split {
				messages = got
			}
			for _, m := range messages {
				total += uint64(m.Span().Bytes)
			}
			if total != uint64(len(all)) {
				t.Errorf("accounts for %d of %d bytes", total, len(all))
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	all := bytes.Repeat([]byte("m\x00\x0a0123456789"), 100)
	var r Reader
	r.Reset(tagged, true)
	b.ReportAllocs()
	for b.Loop() {
		c := capture.Chunk{Data: all}
		for m := (Message{}); r.Next(&c, &m); {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/message")
}
