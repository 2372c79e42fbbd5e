package flow

import (
	"net/netip"
	"testing"

	"taper.dev/taper/internal/capture"
)

// TestDuplicates counts how many packets are copies, and that those which are not stay.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	noID := func(w *wire) {
		for i := range w.frames {
			w.frames[i].ID = 0
		}
	}
	for name, test := range map[string]struct {
		write         func(*wire)
		duplicates    uint64
		retransmitted uint64
		packets       uint64 // of the client, with payload
	}{
		"veth and eth0": {func(w *wire) {
			w.data(client, "abc")
			w.at(1*ms+30*us).echo(3, 2)
		}, 1, 0, 1},
		"veth and eth0, in disorder": {func(w *wire) {
			w.data(client, "abc")
			w.data(client, "def")
			w.echo(4, 2)
			w.echo(3, 2)
		}, 2, 0, 2},
		"the whole conversation twice": {func(w *wire) {
			w.data(client, "abc")
			w.ack(server)
			for i := range 5 {
				w.echo(i, 2)
			}
		}, 5, 0, 1},
		"one interface, one id: a copy": {func(w *wire) {
			w.data(client, "abc")
			w.echo(3, 0)
		}, 1, 0, 1},
		"one interface, another id: a retransmission": {func(w *wire) {
			w.data(client, "abc")
			w.again(3)
		}, 0, 1, 2},
		"an id that comes again much later": {func(w *wire) {
			w.data(client, "abc")
			w.at(61*ms).echo(3, 0)
		}, 0, 1, 2},
		"no id, another interface": {func(w *wire) {
			w.data(client, "abc")
			w.at(6*ms).echo(3, 2)
			noID(w)
		}, 1, 0, 1},
		"no id, one interface, at once": {func(w *wire) {
			w.data(client, "abc")
			w.echo(3, 0)
			noID(w)
		}, 1, 0, 1},
		"no id, one interface, a round trip later": {func(w *wire) {
			w.data(client, "abc")
			w.at(2 * ms).again(3)
			noID(w)
		}, 0, 1, 2},
		"no id, a retransmission on both interfaces": {func(w *wire) {
			w.data(client, "abc")
			w.echo(3, 2)
			w.at(300 * ms).again(3)
			w.echo(3, 2).Time = start.Add(300*ms + 20*us)
			noID(w)
		}, 2, 1, 2},
		"no id, but another timestamp": {func(w *wire) {
			w.data(client, "abc")
			w.echo(3, 0).Options.Value = 7
			noID(w)
		}, 0, 1, 2},
		"acknowledgements are often alike": {func(w *wire) {
			w.data(client, "abc")
			for range 3 {
				w.ack(server)
			}
			noID(w)
		}, 0, 0, 1},
		"cut otherwise on the way": {func(w *wire) {
			w.data(client, "abcdef")
			for range 2 {
				w.seq[client] -= 3
				w.id[client]++
				w.data(client, "def").Interface = 2
				w.seq[client] -= 3
			}
		}, 2, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000).handshake(ms)
			test.write(w)
			s := track(w.frames)
			if len(s.conns) != 1 {
				t.Fatalf("%d connections", len(s.conns))
			}
			c := s.conns[0]
			if s.stats.Duplicates != test.duplicates || c.Retransmitted[client] != test.retransmitted || c.Packets[client] != test.packets {
				t.Errorf("%d duplicates, %d retransmitted of %d; want %d, %d of %d", s.stats.Duplicates,
					c.Retransmitted[client], c.Packets[client], test.duplicates, test.retransmitted, test.packets)
			}
		})
	}
}

func TestDuplicateDatagrams(t *testing.T) {
	t.Parallel()
	frame := func(number uint64, after int, iface int, payload string) capture.Frame {
		return capture.Frame{
			Number: number, Time: start + capture.Time(after)*capture.Time(ms),
			Src: clientAddr, Dst: netip.MustParseAddrPort("10.0.0.9:9000"), Transport: capture.UDP,
			Interface: iface, Payload: []byte(payload), Length: len(payload),
		}
	}
	s := track([]capture.Frame{
		frame(1, 0, 1, "question A"),
		frame(2, 0, 1, "question B"),
		frame(3, 1, 2, "question A"),    // on its way out
		frame(4, 1, 2, "question B"),    // the same
		frame(5, 5000, 1, "question A"), // asked again
	})
	if s.stats.Duplicates != 2 || s.conns[0].Packets[client] != 3 {
		t.Errorf("%d duplicates, %d datagrams; want 2 and 3", s.stats.Duplicates, s.conns[0].Packets[client])
	}
}
