package flow

import (
	"math/rand"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

const client, server = capture.Client, capture.Server

// only is the one talk of a capture.
func (s *told) only(t *testing.T) *talk {
	t.Helper()
	if len(s.conns) != 1 || len(s.talks) != 1 {
		t.Fatalf("%d connections, %d talks; want one", len(s.conns), len(s.talks))
	}
	k := s.talks[s.conns[0].ID]
	if k.closed != 1 {
		t.Errorf("parser was closed %d times", k.closed)
	}
	return k
}

func TestOrder(t *testing.T) {
	t.Parallel()
	cut := func(f *capture.Frame, to int) { f.Payload = f.Payload[:to] }
	for name, test := range map[string]struct {
		write func(*wire)
		want  string // in the order told
		said  [2]string
	}{
		"in order": {func(w *wire) {
			w.data(client, "ask")
			w.data(server, "tell")
		}, "C3 S4", [2]string{"ask", "tell"}},
		"reordered": {func(w *wire) {
			w.data(client, "abc")
			w.data(client, "def")
			w.frames[3], w.frames[4] = w.frames[4], w.frames[3]
		}, "C3 C3", [2]string{"abcdef", ""}},
		"three early ones, in disorder": {func(w *wire) {
			for _, s := range []string{"ab", "cd", "ef", "gh"} {
				w.data(client, s)
			}
			w.frames[3], w.frames[4], w.frames[5], w.frames[6] = w.frames[5], w.frames[6], w.frames[4], w.frames[3]
		}, "C2 C2 C2 C2", [2]string{"abcdefgh", ""}},
		"sent again": {func(w *wire) {
			w.data(client, "abc")
			w.at(300 * ms).again(3)
			w.data(client, "def")
		}, "C3 C3", [2]string{"abcdef", ""}},
		"sent again with more": {func(w *wire) {
			w.data(client, "abc")
			w.seq[client] -= 3
			w.at(300*ms).data(client, "abcdef")
		}, "C3 C3", [2]string{"abcdef", ""}},
		"overlap in the middle": {func(w *wire) {
			w.data(client, "abcd")
			w.seq[client] -= 2
			w.at(300*ms).data(client, "cdef")
		}, "C4 C2", [2]string{"abcdef", ""}},
		"early ones overlap, the first version counts": {func(w *wire) {
			w.seq[client] += 2
			w.data(client, "cd")
			w.seq[client] -= 1
			w.data(client, "Xef")
			w.seq[client] -= 6
			w.data(client, "abYY")
		}, "C2 C2 C2", [2]string{"abcdef", ""}},
		"one spans what is early": {func(w *wire) {
			w.seq[client] += 2
			w.data(client, "cd")
			w.seq[client] -= 4
			w.data(client, "abXXef")
		}, "C2 C2 C2", [2]string{"abcdef", ""}},
		"lost for good": {func(w *wire) {
			w.data(client, "abc")
			w.data(client, "def")
			w.lose()
			w.data(client, "ghi")
		}, "C3 C-3 C3", [2]string{"abc???ghi", ""}},
		"not captured, but answered": {func(w *wire) {
			w.data(client, "abc")
			w.data(client, "def")
			w.lose()
			w.data(server, "tell")
			w.data(client, "ghi")
		}, "C3 C-3 S4 C3", [2]string{"abc???ghi", "tell"}},
		"a pure acknowledgement overtakes the bytes": {func(w *wire) {
			w.data(client, "abc")
			w.ack(server)
			w.frames[3], w.frames[4] = w.frames[4], w.frames[3]
		}, "C3", [2]string{"abc", ""}},
		"acknowledged, and time passed": {func(w *wire) {
			w.data(client, "a")
			w.data(client, "bcd")
			w.lose()
			w.ack(server)
			w.at(20 * ms).ack(server)
			w.data(client, "e")
		}, "C1 C-3 C1", [2]string{"a???e", ""}},
		"cut by the snap length": {func(w *wire) {
			cut(w.data(client, "abcdef"), 4)
			w.data(client, "g")
		}, "C4 C-2 C1", [2]string{"abcd??g", ""}},
		"cut altogether": {func(w *wire) {
			w.data(client, "a")
			cut(w.data(client, "bcd"), 0)
			w.data(server, "e")
		}, "C1 C-3 S1", [2]string{"a???", "e"}},
		"cut and early": {func(w *wire) {
			w.seq[client] += 2
			cut(w.data(client, "cdef"), 1)
			w.seq[client] -= 6
			w.data(client, "abcd")
			w.seq[client] += 2
			w.data(client, "gh")
		}, "C2 C1 C-3 C2", [2]string{"abc???gh", ""}},
		"padded by the link": {func(w *wire) {
			w.data(client, "abcdef").Length = 3
			w.seq[client] -= 3
			w.data(client, "g")
		}, "C3 C1", [2]string{"abcg", ""}},
		"keepalive probes": {func(w *wire) {
			w.data(client, "abc")
			w.ack(server)
			w.seq[client]--
			w.at(time.Minute).data(client, "X")
			w.ack(server)
			w.seq[client]--
			w.at(2 * time.Minute).ack(client)
			w.seq[client]++
			w.data(client, "d")
		}, "C3 C1", [2]string{"abcd", ""}},
		"data on the SYN": {func(w *wire) {
			w.frames[0].Payload, w.frames[0].Length = []byte("hey"), 3
			w.seq[client] += 3
			w.data(client, "you")
		}, "C3 C3", [2]string{"heyyou", ""}},
		"a FIN that was not captured is no byte": {func(w *wire) {
			w.data(client, "abc")
			w.fin(client)
			w.lose()
			w.ack(server)
			w.at(20*ms).data(server, "d")
		}, "C3 S1", [2]string{"abc", "d"}},
		"a segment of something else": {func(w *wire) {
			w.data(client, "abc")
			w.seq[client] += 1 << 30
			w.data(client, "wild")
			w.seq[client] -= 1<<30 + 4
			w.data(client, "def")
		}, "C3 C-1073741824 C4 C3", [2]string{"abc" + strings.Repeat("?", 1<<16) + "wilddef", ""}},
		"an acknowledgement of what nobody can have sent": {func(w *wire) {
			w.data(client, "abc")
			w.ack(server).Ack += 1 << 29
			w.at(20*ms).data(server, "d")
			w.data(client, "e")
		}, "C3 S1 C1", [2]string{"abce", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, isn := range []uint32{1000, 0xffffffff, 0xfffffffc} { // and around zero
				w := newWire(isn, isn-1).handshake(ms)
				test.write(w)
				k := track(w.frames).only(t)
				if got := strings.Join(k.script, " "); got != test.want {
					t.Errorf("from %d: told %q, want %q", isn, got, test.want)
				}
				for side := range test.said {
					if got := k.bytes[side].String(); got != test.said[side] {
						t.Errorf("from %d: %v said %q, want %q", isn, capture.Side(side), got, test.said[side])
					}
				}
			}
		})
	}
}

// TestAnyOrder cuts random streams into random segments, which overlap, come twice and in
// any order; some never come. Each byte that comes must be told once and in its place.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		said := make([]byte, 1+random.Intn(40_000))
		random.Read(said)
		lost := max(0, random.Intn(100)-50) // of a thousand segments
		want := []byte(strings.Repeat("?", len(said)))
		isn := random.Uint32()
		w := newWire(isn, 7).handshake(ms)
		from := len(w.frames)
		for at := 0; at < len(said); {
			n := min(1+random.Intn(1448), len(said)-at)
			back := min(random.Intn(1+random.Intn(200)), at)
			if at > 0 && at+n < len(said) && random.Intn(1000) < lost {
				at += n
				continue
			}
			copy(want[at-back:], said[at-back:at+n])
			w.seq[client] = isn + 1 + uint32(at-back)
			w.data(client, string(said[at-back:at+n]))
			for random.Intn(8) == 0 {
				w.again(len(w.frames) - 1)
			}
			at += n
		}
		sent := w.frames[from:]
		reach := 1 + random.Intn(60)
		for i := range sent {
			j := min(i+random.Intn(reach), len(sent)-1)
			sent[i], sent[j] = sent[j], sent[i]
		}
		for i := range w.frames {
			w.frames[i].Time = start.Add(time.Duration(i) * 10 * us)
			w.frames[i].Number = uint64(i + 1)
		}
		s := track(w.frames)
		k := s.only(t)
		if got := k.bytes[client].String(); got != string(want) {
			t.Fatalf("seed %d: %d bytes told, %d missing; want the %d that were said", seed, len(got), k.missing[client], len(said))
		}
		if c := s.conns[0]; c.Bytes[client]+c.MissingBytes[client] != uint64(len(said)) {
			t.Errorf("seed %d: %d bytes counted and %d missing, of %d", seed, c.Bytes[client], c.MissingBytes[client], len(said))
		}
	}
}

func TestEarlyBytesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWire(1, 1).handshake(ms)
	w.data(client, "a")
	w.seq[client]++ // one byte never comes
	block := strings.Repeat("x", 1400)
	for range 2 * maxEarly / 1400 {
		w.data(client, block)
	}
	sink := &told{talks: map[uint64]*talk{}}
	p := sink.listener("listener")
	p.Ports = []uint16{9000}
	tracker := New([]capture.Protocol{p}, sink, Options{})
	most := 0
	for i := range w.frames {
		tracker.Frame(&w.frames[i])
		most = max(most, tracker.early)
	}
	if most > maxEarly+1400+pieceCost || most < maxEarly/2 {
		t.Errorf("up to %d bytes were kept; want about %d", most, maxEarly)
	}
	tracker.Finish()
	k := sink.only(t)
	if k.missing[client] != 1 || k.bytes[client].Len() != 2+len(block)*(2*maxEarly/1400) {
		t.Errorf("%d missing of %d; want 1, and all else", k.missing[client], k.bytes[client].Len())
	}
	if tracker.early != 0 {
		t.Errorf("%d bytes are counted as kept at the end", tracker.early)
	}
}

func TestEarlyPiecesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWire(1, 1).handshake(ms)
	w.data(client, "a")
	for range 4 * maxPieces {
		w.seq[client]++
		w.data(client, "x")
	}
	k := track(w.frames).only(t)
	if got := k.bytes[client].String(); got != "a"+strings.Repeat("?x", 4*maxPieces) {
		t.Errorf("%d bytes were told, %d missing; want half of %d", len(got), k.missing[client], 8*maxPieces)
	}
}
