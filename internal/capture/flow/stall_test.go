package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// stalled says a stall in short: kind, sender, packets, duration, tries.
func stalled(s capture.Stall) string {
	text := fmt.Sprintf("%v of the %v, %d→%d, %v", s.Kind, s.Sender, s.From.Packet, s.To.Packet, s.Duration())
	if s.Tries > 0 {
		text += fmt.Sprintf(", try %d", s.Tries)
	}
	if s.Full {
		text += ", full"
	}
	if s.Idle > 0 {
		text += fmt.Sprintf(", idle %v", s.Idle)
	}
	return text
}

var full = strings.Repeat("x", 1460)

// TestStalls has for each kind captures that show it and captures that nearly do. The
// handshake is packets 1 to 3, in 10 ms; what is written begins at 100 ms.
func TestStalls(t *testing.T) {
	t.Parallel()
	sack := func(f *capture.Frame) { f.Options.SACKs = true }
	for name, test := range map[string]struct {
		write                    func(*wire)
		want                     []string
		retransmitted, reordered uint64
	}{
		"timeout": {func(w *wire) {
			w.data(client, "ask")
			w.at(310 * ms).again(3)
			w.at(730 * ms).again(3)
		}, []string{"retransmission timeout of the client, 4→5, 210ms, try 1", "retransmission timeout of the client, 5→6, 420ms, try 2"}, 2, 0},
		"timeout of a full segment": {func(w *wire) {
			w.data(client, full)
			w.at(310 * ms).again(3)
		}, []string{"retransmission timeout of the client, 4→5, 210ms, try 1, full"}, 1, 0},
		"timeout of two segments is one wait": {func(w *wire) {
			w.data(client, full)
			w.data(client, "rest")
			w.at(310 * ms).again(3)
			w.at(320 * ms).again(4)
		}, []string{"retransmission timeout of the client, 4→6, 210ms, try 1, full", "retransmission timeout of the client, 6→7, 10ms, try 1"}, 2, 0},
		"timer shorter than usual": {func(w *wire) {
			w.data(client, full)
			w.data(client, "rest")
			w.at(130 * ms).again(3)
		}, []string{"retransmission timeout of the client, 4→6, 30ms, try 1, full"}, 1, 0},
		"nearly a timeout: it had been acknowledged": {func(w *wire) {
			w.data(client, "ask")
			w.at(110 * ms).ack(server)
			w.at(310 * ms).again(3)
		}, nil, 1, 0},
		"fast, three duplicate acknowledgements": {func(w *wire) {
			lossOfFirst(w, 4, func(*capture.Frame) {})
		}, []string{"fast retransmit of the client, 4→11, 12ms, try 1, full"}, 1, 0},
		"fast, one selective acknowledgement": {func(w *wire) {
			lossOfFirst(w, 2, sack)
		}, []string{"fast retransmit of the client, 4→7, 12ms, try 1, full"}, 1, 0},
		"nearly fast: the report is older than a timer": {func(w *wire) {
			lossOfFirst(w, 4, sack)
			w.at(500 * ms).again(3)
		}, []string{"fast retransmit of the client, 4→11, 12ms, try 1, full", "retransmission timeout of the client, 11→12, 388ms, try 2, full"}, 2, 0},
		"tail loss probe": {func(w *wire) {
			w.data(client, full)
			w.data(client, "rest")
			w.at(110 * ms).ack(server).Ack -= 4
			w.at(125 * ms).again(4)
		}, []string{"tail loss probe of the client, 5→7, 25ms, try 1"}, 1, 0},
		"lost before it was captured, then seen late": {func(w *wire) {
			w.data(client, full)
			w.lose()
			w.data(client, full)
			w.data(client, full)
			w.ack(server).Ack -= 3 * 1460
			w.ack(server).Ack -= 3 * 1460
			w.seq[client] -= 3 * 1460
			w.at(112*ms).data(client, full)
		}, []string{"fast retransmit of the client, 4→8, 12ms, try 1, full"}, 1, 0},
		"lost before it was captured, by timer": {func(w *wire) {
			w.data(client, full)
			w.lose()
			w.data(client, full)
			w.seq[client] -= 2 * 1460
			w.at(400*ms).data(client, full)
		}, []string{"retransmission timeout of the client, 4→5, 300ms, try 1, full"}, 1, 0},
		"lost before it was captured, which an acknowledgement shows": {func(w *wire) {
			w.data(client, "ask")
			w.data(server, "tell")
			w.lose()
			w.ack(server) // of something, with the sequence number after the answer
			w.seq[server] -= 4
			w.at(330*ms).data(server, "tell")
		}, []string{"retransmission timeout of the server, 5→6, 230ms, try 1"}, 1, 0},
		"nearly lost: an acknowledgement overtook it": {func(w *wire) {
			w.data(server, "tell")
			w.ack(server)
			w.frames[3], w.frames[4] = w.frames[4], w.frames[3]
		}, nil, 0, 1},
		"lost, by timestamps": {func(w *wire) {
			w.stamped = true
			w.data(client, full)
			w.lose()
			w.data(client, full).Options.Value = 7
			w.seq[client] -= 2 * 1460
			w.at(102*ms).data(client, full).Options.Value = 9
		}, []string{"fast retransmit of the client, 4→5, 2ms, try 1, full"}, 1, 0},
		"nearly lost, by timestamps": {func(w *wire) {
			w.stamped = true
			w.data(client, full)
			w.lose()
			w.data(client, full).Options.Value = 7
			w.seq[client] -= 2 * 1460
			w.at(190*ms).data(client, full).Options.Value = 6
		}, nil, 0, 1},
		"nearly lost: overtaken": {func(w *wire) {
			w.data(client, full)
			w.lose()
			w.data(client, full)
			w.seq[client] -= 2 * 1460
			w.at(104*ms).data(client, full)
		}, nil, 0, 1},
		"zero window": {func(w *wire) {
			w.data(client, full)
			w.ack(server).Window = 0
			w.at(350*ms).data(client, "x") // a probe
			w.ack(server).Window = 0
			w.lastAck(server, -1)
			w.at(900 * ms).ack(server)
			w.lastAck(server, -1)
			w.seq[client]--
			w.data(client, full)
		}, []string{"zero window of the client, 5→8, 800ms"}, 0, 0},
		"zero window to the end": {func(w *wire) {
			w.data(client, full)
			w.ack(server).Window = 0
			w.at(time.Second).frame(client, capture.RST, "")
		}, []string{"zero window of the client, 5→6, 900ms"}, 0, 0},
		"nearly a zero window: one byte, scaled": {func(w *wire) {
			w.data(client, full)
			w.ack(server).Window = 1
			w.at(900 * ms).ack(server)
		}, nil, 0, 0},
		"delayed acknowledgement": {func(w *wire) {
			w.data(client, "header")
			w.at(150 * ms).ack(server)
			w.at(150*ms+100*us).data(client, "body")
			w.at(170*ms).data(server, "answer")
		}, []string{"delayed acknowledgement of the client, 4→6, 50.1ms"}, 0, 0},
		"nearly: the second did not wait for it": {func(w *wire) {
			w.data(client, "header")
			w.at(149*ms).data(client, "body")
			w.at(150 * ms).ack(server)
		}, nil, 0, 0},
		"nearly: the second came long after": {func(w *wire) {
			w.data(client, "header")
			w.at(150 * ms).ack(server)
			w.at(200*ms).data(client, "body")
		}, nil, 0, 0},
		"nearly: acknowledged at once": {func(w *wire) {
			w.data(client, "header")
			w.at(110 * ms).ack(server)
			w.data(client, "body")
		}, nil, 0, 0},
		"nearly: it was the answer that took so long": {func(w *wire) {
			w.data(client, "ask")
			w.at(150 * ms).ack(server)
			w.data(server, "answer")
			w.data(client, "next")
		}, nil, 0, 0},
		"nearly: a full segment is not held back": {func(w *wire) {
			w.data(client, "header")
			w.at(150 * ms).ack(server)
			w.data(client, full)
		}, nil, 0, 0},
		"slow start after idle": {func(w *wire) {
			w.data(server, "warm")
			w.ack(client)
			bursts(w.at(5*time.Second), 10*ms, 10, 20, 7)
		}, []string{
			"slow start after idle of the server, 15→17, 10ms, full, idle 4.9s",
			"slow start after idle of the server, 36→38, 10ms, full, idle 4.9s",
		}, 0, 0},
		"nearly: not idle for long": {func(w *wire) {
			w.data(server, "warm")
			w.ack(client)
			bursts(w.at(300*ms), 10*ms, 10, 20)
		}, nil, 0, 0},
		"nearly: the beginning of a connection": {func(w *wire) {
			bursts(w.at(5*time.Second), 10*ms, 10, 20)
		}, nil, 0, 0},
		"nearly: a window that is still large": {func(w *wire) {
			w.data(server, "warm")
			w.ack(client)
			bursts(w.at(5*time.Second), 10*ms, 40, 40)
		}, nil, 0, 0},
		"nearly: two answers, the first of which ends small": {func(w *wire) {
			w.data(server, "warm")
			w.ack(client)
			w.at(5 * time.Second)
			for range 4 {
				w.data(server, full)
			}
			w.data(server, "end")
			w.at(5010 * ms).ack(client)
			w.data(server, full)
		}, nil, 0, 0},
		"nearly: the receiver's window was full": {func(w *wire) {
			w.data(server, "warm")
			w.ack(client).Window = 60 // times 128 is five segments
			bursts(w.at(5*time.Second), 10*ms, 5, 5)
		}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(0xfffffff0, 2000).handshake(10 * ms).at(100 * ms)
			test.write(w)
			for i := range w.frames {
				w.frames[i].Number = uint64(i + 1)
			}
			s := track(w.frames)
			var got []string
			for _, stall := range s.stalls {
				if stall.Conn != s.conns[0] {
					t.Errorf("stall of another connection %p", stall.Conn)
				}
				got = append(got, stalled(stall))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("stalls:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			c := s.conns[0]
			if c.Retransmitted[0]+c.Retransmitted[1] != test.retransmitted || c.Reordered[0]+c.Reordered[1] != test.reordered {
				t.Errorf("retransmitted %v, reordered %v; want %d and %d", c.Retransmitted, c.Reordered, test.retransmitted, test.reordered)
			}
		})
	}
}

// lossOfFirst sends n segments, of which the receiver lacks the first, and that one again
// a round trip later. How the receiver says so is in mark.
func lossOfFirst(w *wire, n int, mark func(*capture.Frame)) {
	for range n {
		w.data(client, full)
	}
	w.now += 10 * ms
	for range n - 1 {
		f := w.ack(server)
		f.Ack -= uint32(n * 1460)
		mark(f)
	}
	w.now += 2 * ms
	w.again(3)
}

// lastAck changes what the last frame of a side acknowledges.
func (w *wire) lastAck(s capture.Side, by int) { w.frames[len(w.frames)-1].Ack += uint32(by) }

// bursts sends full segments in bursts that are a round trip apart, each acknowledged
// just before the next.
func bursts(w *wire, roundTrip time.Duration, sizes ...int) {
	for _, n := range sizes {
		for range n {
			w.data(server, full)
		}
		w.now += roundTrip
		w.ack(client)
	}
}
