// Package capturetest helps to test protocol parsers: it plays conversations to them, cut
// in any way, reads small recordings, and asks tshark about them.
package capturetest

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

// Said is what one side of a conversation sent at once.
type Said struct {
	Side    capture.Side
	Missing int // bytes before Data that the capture lacks
	Data    string
}

// C is what the client says, S what the server says.
func C(data ...string) Said { return Said{Side: capture.Client, Data: strings.Join(data, "")} }

// S is what the server says.
func S(data ...string) Said { return Said{Side: capture.Server, Data: strings.Join(data, "")} }

// Gap is s with n bytes missing before it.
func Gap(n int, s Said) Said { s.Missing = n; return s }

// Mark is the mark of the i-th thing said, from 1: one packet a millisecond.
func Mark(i int) capture.Mark {
	return capture.Mark{Time: capture.Time(i) * 1_000_000, Packet: uint64(i)}
}

// Result is what a parser made of a conversation.
type Result struct {
	Exchanges []*capture.Exchange
	Lost      uint64
	Handover  capture.Handover
	// Message is which thing said the handover came with, from 1.
	Message int
}

// Chunks are the conversation as chunks, one each.
func Chunks(said []Said) []capture.Chunk {
	chunks := make([]capture.Chunk, len(said))
	for i, s := range said {
		chunks[i] = capture.Chunk{Side: s.Side, Mark: Mark(i + 1), Missing: s.Missing, Data: []byte(s.Data)}
	}
	return chunks
}

// Play tells a parser a conversation.
func Play(p capture.Protocol, said ...Said) Result {
	return PlayChunks(p, &capture.Conn{}, Chunks(said))
}

// PlayMid is Play for a connection that began before the capture.
func PlayMid(p capture.Protocol, said ...Said) Result {
	return PlayChunks(p, &capture.Conn{Mid: true}, Chunks(said))
}

// PlayChunks tells a parser chunks. It overwrites each after it was told, since parsers
// may not hold on to them.
func PlayChunks(p capture.Protocol, conn *capture.Conn, chunks []capture.Chunk) Result {
	var r Result
	parser := p.New(conn, func(x *capture.Exchange) { r.Exchanges = append(r.Exchanges, x) })
	for i, c := range chunks {
		c.Data = bytes.Clone(c.Data)
		r.Handover = parser.Chunk(c)
		r.Handover.Rest = bytes.Clone(r.Handover.Rest)
		for j := range c.Data {
			c.Data[j] = 0xdb
		}
		if r.Handover.To != "" {
			r.Message = i + 1
			break
		}
	}
	parser.Close()
	r.Lost = parser.Lost()
	return r
}

// Segments cuts chunks at random places. Marks stay those of the whole, so that what is
// read from the pieces must be what is read from the whole.
func Segments(chunks []capture.Chunk, random *rand.Rand) []capture.Chunk {
	var pieces []capture.Chunk
	for _, c := range chunks {
		most := 1 + random.Intn(len(c.Data)+1)
		for missing := c.Missing; ; missing = 0 {
			n := min(1+random.Intn(most), len(c.Data))
			pieces = append(pieces, capture.Chunk{Side: c.Side, Mark: c.Mark, Missing: missing, Data: c.Data[:n]})
			if c.Data = c.Data[n:]; len(c.Data) == 0 {
				break
			}
		}
	}
	return pieces
}

// AnySegmentation fails if a parser understands a conversation otherwise when it is cut
// otherwise. Conversations with missing bytes are for other tests.
func AnySegmentation(t *testing.T, p capture.Protocol, said ...Said) {
	t.Helper()
	chunks := Chunks(said)
	want := PlayChunks(p, &capture.Conn{}, chunks)
	for seed := range int64(50) {
		got := PlayChunks(p, &capture.Conn{}, Segments(chunks, rand.New(rand.NewSource(seed))))
		got.Message, got.Handover.Rest = want.Message, want.Handover.Rest
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("segmentation %d (-whole +pieces):\n%s", seed, diff)
		}
	}
}

// NoSecret fails if any of the secrets is in what a parser told.
func NoSecret(t *testing.T, r Result, secrets ...string) {
	t.Helper()
	for _, x := range r.Exchanges {
		text := fmt.Sprintf("%+v %+v %+v %+v", *x, x.HTTP, x.DNS, x.TLS)
		for _, secret := range secrets {
			if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
	}
}

// Summaries write exchanges as short lines: packets of question and answer, operation,
// target, and what else is set.
func Summaries(exchanges []*capture.Exchange) []string {
	var lines []string
	for _, x := range exchanges {
		var b strings.Builder
		fmt.Fprintf(&b, "%d-%d %d-%d %s", x.Request.First.Packet, x.Request.Last.Packet, x.Response.First.Packet, x.Response.Last.Packet, x.Op)
		if x.Target != "" {
			fmt.Fprintf(&b, " [%s]", x.Target)
		}
		if x.Authority != "" {
			fmt.Fprintf(&b, " @%s", x.Authority)
		}
		if x.Status != 0 {
			fmt.Fprintf(&b, " status=%d", x.Status)
		}
		if x.Failed {
			b.WriteString(" failed")
		}
		lines = append(lines, b.String())
	}
	return lines
}

// Fuzzed turns any bytes into a conversation: of each chunk a byte says the side (lowest
// bit) and missing bytes (from 128), another how many bytes follow.
func Fuzzed(script []byte) []capture.Chunk {
	var chunks []capture.Chunk
	for i := 1; len(script) >= 2; i++ {
		c := capture.Chunk{Side: capture.Side(script[0] & 1), Mark: Mark(i)}
		if script[0] >= 128 {
			c.Missing = 1 << (script[0] >> 1 & 31)
		}
		n := min(int(script[1]), len(script)-2)
		c.Data, script = script[2:2+n], script[2+n:]
		chunks = append(chunks, c)
	}
	return chunks
}

// Script is the inverse of Fuzzed, for seeds.
func Script(said ...Said) []byte {
	var script []byte
	for _, s := range said {
		for piece := range slices.Chunk([]byte(s.Data), 255) {
			script = append(script, byte(s.Side), byte(len(piece)))
			script = append(script, piece...)
		}
	}
	return script
}

// Check fails if what a parser told breaks a rule that holds for any bytes.
func Check(t *testing.T, r Result, chunks []capture.Chunk) {
	t.Helper()
	var total uint64
	for _, c := range chunks {
		total += uint64(len(c.Data))
	}
	if r.Lost > total {
		t.Errorf("lost %d of %d bytes", r.Lost, total)
	}
	for _, x := range r.Exchanges {
		switch {
		case !x.Request.First.Seen() || !x.Request.Last.Seen():
			t.Errorf("%+v has no question", *x)
		case x.Response.First.Seen() != x.Response.Last.Seen():
			t.Errorf("%+v has half an answer", *x)
		case x.Request.First.Time > x.Request.Last.Time || x.Response.First.Time > x.Response.Last.Time:
			t.Errorf("%+v runs backwards", *x)
		case len(x.Op) > capture.MaxText || len(x.Target) > capture.MaxText || len(x.Authority) > capture.MaxText:
			t.Errorf("%+v has long texts", *x)
		}
	}
}

// AnyLoss fails if a parser recovers badly from what a capture lacks: if it tells more
// than a few exchanges that it does not tell of the whole, or none of those that come
// long after. It leaves out each chunk in turn, and all chunks up to each.
func AnyLoss(t *testing.T, p Parse, chunks []capture.Chunk) {
	t.Helper()
	whole := make(map[string]bool)
	for _, line := range Summaries(p(&capture.Conn{}, chunks).Exchanges) {
		whole[line] = true
	}
	for i := range chunks {
		without := slices.Clone(chunks)
		lose(without, i)
		compare(t, fmt.Sprintf("without chunk %d", i), whole, chunks[i], p(&capture.Conn{}, without))
		compare(t, fmt.Sprintf("up to chunk %d", i), whole, chunks[i], p(&capture.Conn{Mid: true}, chunks[i:]))
	}
}

// Parse plays chunks of a connection.
type Parse func(*capture.Conn, []capture.Chunk) Result

// lose moves the bytes of a chunk to what is missing before its side's next one.
func lose(chunks []capture.Chunk, i int) {
	missing := len(chunks[i].Data)
	chunks[i].Data = nil
	for j := i + 1; j < len(chunks); j++ {
		if chunks[j].Side == chunks[i].Side {
			chunks[j].Missing += missing
			return
		}
	}
}

// compare allows for four exchanges that are not told of the whole, and for loss of those
// within eight packets behind the place.
func compare(t *testing.T, how string, whole map[string]bool, at capture.Chunk, got Result) {
	t.Helper()
	var strange []string
	told := make(map[string]bool)
	for _, line := range Summaries(got.Exchanges) {
		told[line] = true
		if !whole[line] {
			strange = append(strange, line)
		}
	}
	if len(strange) > 4 {
		t.Errorf("%s (packet %d) there are %q", how, at.Mark.Packet, strange)
	}
	for line := range whole {
		var first uint64
		fmt.Sscanf(line, "%d", &first)
		if first > at.Mark.Packet+8 && !told[line] {
			t.Errorf("%s (packet %d) there is no %q", how, at.Mark.Packet, line)
		}
	}
}
