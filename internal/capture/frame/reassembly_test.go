package frame

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// part is a fragment of a datagram.
type part struct {
	from, to int
	more     bool
	captured int // bytes of it; -1 is all
}

// fragmented are a datagram's fragments as IPv4 or IPv6 packets.
func fragmented(v6 bool, id uint16, body []byte, parts ...part) []*capture.Packet {
	packets := make([]*capture.Packet, len(parts))
	for i, p := range parts {
		var b []byte
		if v6 {
			b = ipv6Bytes(44, fragmentHeader(protoUDP, uint32(id), p.more, p.from, body[p.from:p.to]))
		} else {
			b = ipv4Bytes(capture.UDP, id, p.more, p.from, nil, body[p.from:p.to])
		}
		packets[i] = packet(capture.LinkRaw, b)
		packets[i].Number = uint64(i + 1)
		packets[i].Time = capture.Time(i+1) * 1e6
		if p.captured >= 0 {
			packets[i].Data = b[:len(b)-(p.to-p.from)+p.captured]
		}
	}
	return packets
}

func all(from, to int, more bool) part { return part{from, to, more, -1} }

func TestReassembly(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 250) // 4000 bytes
	body := udpBytes(clientPort, 53, text)
	n := len(body)
	for name, c := range map[string]struct {
		parts []part
		// at is which packet completes the datagram, from 1; 0 is none. payload is how
		// many bytes it has then, of 4000; lost is how many fragments are lost.
		at, payload int
		lost        uint64
	}{
		"in order":               {[]part{all(0, 1480, true), all(1480, 2960, true), all(2960, n, false)}, 3, 4000, 0},
		"backwards":              {[]part{all(2960, n, false), all(1480, 2960, true), all(0, 1480, true)}, 3, 4000, 0},
		"one twice":              {[]part{all(0, 1480, true), all(0, 1480, true), all(1480, n, false)}, 3, 4000, 0},
		"the last twice":         {[]part{all(1480, n, false), all(1480, n, false), all(0, 1480, true)}, 3, 4000, 0},
		"one missing":            {[]part{all(0, 1480, true), all(2960, n, false)}, 0, 0, 2},
		"no last":                {[]part{all(0, 1480, true), all(1480, 2960, true)}, 0, 0, 2},
		"overlap":                {[]part{all(0, 1480, true), all(1472, n, false)}, 0, 0, 2},
		"overlap within":         {[]part{all(0, 1480, true), all(8, 16, true), all(1480, n, false)}, 0, 0, 3},
		"overlap around":         {[]part{all(1480, 1488, true), all(0, 2960, true)}, 0, 0, 2},
		"same start, longer":     {[]part{all(0, 1480, true), all(0, 1488, true)}, 0, 0, 2},
		"beyond the last":        {[]part{all(1480, 2960, false), all(2960, n, true)}, 0, 0, 2},
		"two lasts":              {[]part{all(1480, 2960, false), all(2960, n, false)}, 0, 0, 2},
		"a last before others":   {[]part{all(2960, 3960, true), all(8, 1480, false)}, 0, 0, 2},
		"last, told to be none":  {[]part{all(1480, 2960, false), all(1480, 2960, true)}, 0, 0, 2},
		"cut in the first":       {[]part{{0, 1480, true, 108}, all(1480, n, false)}, 2, 100, 0},
		"cut in the second":      {[]part{all(0, 1480, true), {1480, n, false, 10}}, 2, 1482, 0},
		"cut at headers":         {[]part{{0, 1480, true, 0}, all(1480, n, false)}, 0, 0, 0},
		"again after completion": {[]part{all(0, 1480, true), all(1480, n, false), all(0, 1480, true)}, 2, 4000, 1},
	} {
		for _, v6 := range []bool{false, true} {
			d := New()
			var f capture.Frame
			completed := 0
			for i, p := range fragmented(v6, 9, body, c.parts...) {
				if d.Decode(p, &f) != Decoded {
					continue
				}
				completed = i + 1
				if string(f.Payload) != text[:c.payload] || f.Length != len(text) {
					t.Errorf("%s, v6 %v: %d bytes of %d, want %d of %d", name, v6, len(f.Payload), f.Length, c.payload, len(text))
				}
				if f.Number != p.Number || f.Time != p.Time || f.Src.Port() != clientPort || f.Dst.Port() != 53 {
					t.Errorf("%s, v6 %v: frame %+v", name, v6, f)
				}
			}
			if completed != c.at {
				t.Errorf("%s, v6 %v: complete with packet %d, want %d", name, v6, completed, c.at)
			}
			var s capture.Stats
			if d.AddTo(&s); s.Fragments != c.lost {
				t.Errorf("%s, v6 %v: %d fragments lost, want %d", name, v6, s.Fragments, c.lost)
			}
		}
	}
}

// TestDatagramsDoNotMix: what differs in one part of the key is another datagram.
func TestDatagramsDoNotMix(t *testing.T) {
	t.Parallel()
	body := udpBytes(clientPort, 53, strings.Repeat("x", 92))
	first := func() *capture.Packet { return fragmented(false, 9, body, all(0, 48, true))[0] }
	for name, change := range map[string]func(*capture.Packet){
		"id":        func(p *capture.Packet) { p.Data[5]++ },
		"protocol":  func(p *capture.Packet) { p.Data[9]++ },
		"source":    func(p *capture.Packet) { p.Data[12]++ },
		"target":    func(p *capture.Packet) { p.Data[16]++ },
		"interface": func(p *capture.Packet) { p.Interface++ },
	} {
		d := New()
		var f capture.Frame
		last := fragmented(false, 9, body, all(48, 100, false))[0]
		change(last)
		if d.Decode(first(), &f) != Held || d.Decode(last, &f) != Held {
			t.Errorf("another %s: fragments were put together", name)
		}
		if last = fragmented(false, 9, body, all(48, 100, false))[0]; d.Decode(last, &f) != Decoded {
			t.Errorf("another %s: fragments were not put together", name)
		}
	}
}

// TestExtensionWithinFragments: options for the destination are fragmented with the rest,
// and may hold, against all custom, a fragment again.
func TestExtensionWithinFragments(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 92)
	inner := udpBytes(clientPort, 53, text)
	outer := func(next byte, body []byte) []byte { return extension(next, 0, body) }
	for name, c := range map[string]struct {
		bodies [][]byte // in fragments of their own each
		want   []Verdict
	}{
		"options": {[][]byte{outer(protoUDP, inner)}, []Verdict{Held, Decoded}},
		"fragments": {
			[][]byte{outer(44, fragmentHeader(protoUDP, 5, true, 0, inner[:48])), outer(44, fragmentHeader(protoUDP, 5, false, 48, inner[48:]))},
			[]Verdict{Held, Held, Held, Decoded},
		},
	} {
		d := New()
		var f capture.Frame
		var got []Verdict
		for id, body := range c.bodies {
			for _, p := range fragmented(true, uint16(id), body, all(0, 16, true), all(16, len(body), false)) {
				p.Data[40] = 60 // the next header
				got = append(got, d.Decode(p, &f))
				check(t, &d.fragments)
			}
		}
		if !slices.Equal(got, c.want) || string(f.Payload) != text || f.Length != len(text) {
			t.Errorf("%s: verdicts %v, want %v; payload %q of %d", name, got, c.want, f.Payload, f.Length)
		}
	}
}

// TestFragmentsExpire after 30 seconds of the capture.
func TestFragmentsExpire(t *testing.T) {
	t.Parallel()
	body := udpBytes(clientPort, 53, strings.Repeat("x", 92))
	for _, c := range []struct {
		wait time.Duration
		want Verdict
		lost uint64
	}{{30 * time.Second, Decoded, 0}, {30*time.Second + 1, Held, 2}} {
		d := New()
		var f capture.Frame
		p := fragmented(true, 9, body, all(0, 48, true), all(48, 100, false))
		p[1].Time = p[0].Time.Add(c.wait)
		if d.Decode(p[0], &f) != Held {
			t.Fatal("a fragment was not held")
		}
		if got := d.Decode(p[1], &f); got != c.want {
			t.Errorf("after %v: verdict %d, want %d", c.wait, got, c.want)
		}
		var s capture.Stats
		if d.AddTo(&s); s.Fragments != c.lost {
			t.Errorf("after %v: %d fragments lost, want %d", c.wait, s.Fragments, c.lost)
		}
	}
}

// TestReassemblyIsBounded in datagrams, bytes and pieces; what is given up is counted.
func TestReassemblyIsBounded(t *testing.T) {
	t.Parallel()
	body := make([]byte, 65_000)
	random := rand.New(rand.NewSource(1))
	for name, next := range map[string]func(i int) []*capture.Packet{
		"datagrams": func(i int) []*capture.Packet { return fragmented(false, uint16(i), body, all(0, 8, true)) },
		"bytes":     func(i int) []*capture.Packet { return fragmented(true, uint16(i), body, all(0, 64_000, true)) },
		"pieces": func(i int) []*capture.Packet {
			return fragmented(false, 1, body, all(i%4000*16, i%4000*16+8, true))
		},
		"mixed": func(i int) []*capture.Packet {
			from := random.Intn(8000) * 8
			return fragmented(false, uint16(random.Intn(3)), body, all(from, from+8+random.Intn(90)*8, random.Intn(9) > 0))
		},
	} {
		d := New()
		var f capture.Frame
		const n = 5000
		decoded := uint64(0)
		for i := range n {
			for _, p := range next(i) {
				if d.Decode(p, &f) == Decoded {
					decoded++
				}
			}
			check(t, &d.fragments)
		}
		if lost := d.fragments.lost; lost == 0 || lost > n {
			t.Errorf("%s: %d fragments lost of %d", name, lost, n)
		}
	}
}

// check fails if the reassembly's books are wrong or its bounds exceeded.
func check(t *testing.T, r *reassembly) {
	t.Helper()
	count, bytes := 0, 0
	var before *partial
	for p := r.oldest; p != nil; before, p = p, p.newer {
		sum := 0
		for i, h := range p.pieces {
			sum += len(h.data)
			if h.start >= h.end || len(h.data) > h.end-h.start || i > 0 && p.pieces[i-1].end > h.start {
				t.Fatalf("pieces overlap or are empty: %v", pieces(p))
			}
		}
		if p.older != before || r.partials[p.key] != p || sum != p.bytes || len(p.pieces) == 0 || len(p.pieces) > maxPieces {
			t.Fatalf("a datagram's books are wrong: %d bytes of %d in %d pieces", sum, p.bytes, len(p.pieces))
		}
		count, bytes = count+1, bytes+sum
	}
	if r.newest != before || count != len(r.partials) || count > maxDatagrams || bytes != r.bytes || bytes > maxFragmentBytes {
		t.Fatalf("%d datagrams of %d in the map, %d bytes of %d", count, len(r.partials), bytes, r.bytes)
	}
}

func pieces(p *partial) string {
	var s []string
	for _, h := range p.pieces {
		s = append(s, fmt.Sprintf("%d-%d", h.start, h.end))
	}
	return strings.Join(s, " ")
}

// TestAnyOrder: fragments make the same datagram in every order.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(2))
	for range 200 {
		text := make([]byte, 100+random.Intn(60_000))
		random.Read(text)
		body := udpBytes(clientPort, 53, string(text))
		var parts []part
		for from := 0; from < len(body); {
			to := min(from+8*(1+random.Intn(400)), len(body))
			if len(parts) == maxPieces-1 {
				to = len(body)
			}
			parts = append(parts, all(from, to, to < len(body)))
			from = to
		}
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if len(parts) == 1 {
			continue
		}
		d := New()
		var f capture.Frame
		for i, p := range fragmented(random.Intn(2) == 0, 1, body, parts...) {
			v := d.Decode(p, &f)
			if last := i == len(parts)-1; v == Decoded != last {
				t.Fatalf("fragment %d of %d: verdict %d", i+1, len(parts), v)
			}
			check(t, &d.fragments)
		}
		if !slices.Equal(f.Payload, text) {
			t.Fatal("the datagram is not what was sent")
		}
	}
}
