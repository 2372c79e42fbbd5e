package flow

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

func mark(packet int, after time.Duration) capture.Mark {
	return capture.Mark{Time: start.Add(after), Packet: uint64(packet)}
}

func TestHandshakeFacts(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000)
	w.mss = 1400
	w.frame(client, capture.SYN, "").Options.MSS = 1400
	w.at(1000 * ms).again(0) // the first one was lost
	w.at(1004*ms).frame(server, capture.SYN|capture.ACK, "").Options.MSS = 8960
	w.at(1005 * ms).ack(client)
	w.at(1006*ms).data(client, "ask")
	w.at(1010*ms).data(server, "tell")
	w.at(1012 * ms).fin(client)
	w.at(1013 * ms).fin(server)
	w.at(1014 * ms).ack(client)
	s := track(w.frames)
	want := []*capture.Conn{{
		ID: 1, Transport: capture.TCP, Addr: [2]netip.AddrPort{clientAddr, serverAddr}, Protocol: "listener",
		First: mark(1, 0), Last: mark(9, 1014*ms),
		SYNs: []capture.Mark{mark(1, 0), mark(2, 1000*ms)}, SYNACK: mark(3, 1004*ms), Established: mark(4, 1005*ms),
		Closed: mark(7, 1012*ms), ClosedBy: client,
		// The server takes 4 ms to acknowledge, the client 1: nothing is known of the SYN,
		// which was sent twice.
		RTT: 5 * ms, MSS: [2]uint16{1400, 8960},
		Packets: [2]uint64{1, 1}, Bytes: [2]uint64{3, 4},
	}}
	if diff := cmp.Diff(want, s.conns, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	if s.stats.Conns != 1 || s.stats.Mid != 0 || s.stats.GivenUp != 0 {
		t.Errorf("stats %+v; want one connection, seen whole", s.stats)
	}
}

func TestClosing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write  func(*wire)
		closed capture.Mark
		by     capture.Side
		reset  bool
	}{
		"open":                  {func(w *wire) { w.data(client, "a") }, capture.Mark{}, client, false},
		"by the server":         {func(w *wire) { w.fin(server); w.fin(client) }, mark(4, ms), server, false},
		"reset":                 {func(w *wire) { w.frame(server, capture.RST, "") }, mark(4, ms), server, true},
		"finished, then reset":  {func(w *wire) { w.fin(client); w.frame(client, capture.RST, "") }, mark(4, ms), client, false},
		"the last data and FIN": {func(w *wire) { w.data(client, "a").Flags |= capture.FIN }, mark(4, ms), client, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1, 2).handshake(ms)
			test.write(w)
			c := track(w.frames).conns[0]
			if c.Closed != test.closed || c.ClosedBy != test.by || c.Reset != test.reset {
				t.Errorf("closed %v by the %v, reset %v; want %v, %v, %v", c.Closed, c.ClosedBy, c.Reset, test.closed, test.by, test.reset)
			}
		})
	}
}

func TestPortReuse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		between func(*wire)
		isn     uint32
		conns   int
	}{
		"after the end":      {func(w *wire) { w.fin(client); w.fin(server); w.at(time.Second) }, 5000, 2},
		"after a reset":      {func(w *wire) { w.frame(server, capture.RST, ""); w.at(2 * ms) }, 5000, 2},
		"without an end":     {func(w *wire) { w.data(client, "a"); w.at(time.Minute) }, 5000, 2},
		"the same SYN again": {func(w *wire) { w.at(time.Second) }, 1000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000).handshake(ms)
			w.data(client, "one")
			test.between(w)
			w.seq = [2]uint32{test.isn, 9000}
			w.frame(client, capture.SYN, "")
			if test.conns == 2 {
				w.frame(server, capture.SYN|capture.ACK, "")
				w.ack(client)
				w.data(client, "two")
			}
			s := track(w.frames)
			if len(s.conns) != test.conns {
				t.Fatalf("%d connections, want %d", len(s.conns), test.conns)
			}
			if test.conns == 2 && (s.talks[2].bytes[client].String() != "two" || s.conns[1].Mid) {
				t.Errorf("the second said %q, mid %v", s.talks[2].bytes[client].String(), s.conns[1].Mid)
			}
		})
	}
}

// TestUnansweredSYNs are two attempts from one port, with another sequence number.
func TestUnansweredSYNs(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000)
	w.frame(client, capture.SYN, "")
	w.seq[client] = 77
	w.at(3*time.Second).frame(client, capture.SYN, "")
	s := track(w.frames)
	if len(s.conns) != 2 || len(s.conns[0].SYNs) != 1 || len(s.conns[1].SYNs) != 1 {
		t.Errorf("connections %+v; want two with a SYN each", s.conns)
	}
}

func TestSYNsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000)
	w.frame(client, capture.SYN, "")
	for i := range 30 {
		w.at(time.Duration(i+1) * time.Second).again(0)
	}
	if got := len(track(w.frames).conns[0].SYNs); got != capture.MaxSYNs {
		t.Errorf("%d SYNs were kept, want %d", got, capture.MaxSYNs)
	}
}

// TestOrientation begins in the middle, where the first packet does not say who is client.
func TestOrientation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		client, server string
		before         func(*wire)
	}{
		"lower port":            {"10.0.0.1:40000", "10.0.0.2:777", func(*wire) {}},
		"a protocol's port":     {"10.0.0.1:400", "10.0.0.2:9000", func(*wire) {}},
		"known to be listening": {"10.0.0.1:400", "10.0.0.2:7777", func(w *wire) { w.handshake(ms); w.fin(client); w.fin(server) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000)
			w.addr = [2]netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:100"), netip.MustParseAddrPort(test.server)}
			test.before(w)
			w.addr[client] = netip.MustParseAddrPort(test.client)
			w.data(server, "the rest of an answer")
			w.data(client, "ask")
			conns := track(w.frames).conns
			c := conns[len(conns)-1]
			if c.Addr != w.addr || !c.Mid {
				t.Errorf("client and server are %v, mid %v; want %v", c.Addr, c.Mid, w.addr)
			}
			if c.Bytes != [2]uint64{3, 21} {
				t.Errorf("bytes %v are not the client's and the server's", c.Bytes)
			}
		})
	}
}

// TestNoConnection are packets with which nothing begins.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000)
	w.ack(client)
	w.fin(server)
	w.frame(server, capture.RST, "")
	w.frame(server, capture.RST, "junk")
	other := w.data(client, "x")
	other.Transport = 132 // SCTP
	if s := track(w.frames); len(s.conns) != 0 || s.stats.Conns != 0 {
		t.Errorf("connections %+v; want none", s.conns)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	const in, out, unknown = capture.Incoming, capture.Outgoing, capture.DirectionUnknown
	for name, test := range map[string]struct {
		client, server string
		directions     [2]capture.Direction // of the client's and the server's packets
		echo           [2]capture.Direction // of the same on another interface
		want           [2]bool
	}{
		"nothing said":      {"10.0.0.1:4", "10.0.0.2:9000", [2]capture.Direction{}, [2]capture.Direction{}, [2]bool{}},
		"a call":            {"10.0.0.1:4", "10.0.0.2:9000", [2]capture.Direction{out, in}, [2]capture.Direction{}, [2]bool{true, false}},
		"a request":         {"10.0.0.1:4", "10.0.0.2:9000", [2]capture.Direction{in, out}, [2]capture.Direction{}, [2]bool{false, true}},
		"one way only":      {"10.0.0.1:4", "10.0.0.2:9000", [2]capture.Direction{out, unknown}, [2]capture.Direction{}, [2]bool{true, false}},
		"on the loopback":   {"127.0.0.1:4", "127.0.0.1:9000", [2]capture.Direction{in, in}, [2]capture.Direction{}, [2]bool{true, true}},
		"from a sidecar":    {"127.0.0.6:4", "10.0.0.2:9000", [2]capture.Direction{in, in}, [2]capture.Direction{}, [2]bool{true, true}},
		"forwarded by node": {"10.0.0.1:4", "10.0.0.2:9000", [2]capture.Direction{in, in}, [2]capture.Direction{out, out}, [2]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000)
			w.addr = [2]netip.AddrPort{netip.MustParseAddrPort(test.client), netip.MustParseAddrPort(test.server)}
			w.handshake(ms)
			w.data(client, "ask")
			w.data(server, "tell")
			for i := range w.frames {
				side := client
				if w.frames[i].Src == w.addr[server] {
					side = server
				}
				w.frames[i].Direction = test.directions[side]
				if test.echo != ([2]capture.Direction{}) {
					w.echo(i, 2).Direction = test.echo[side]
				}
			}
			if got := track(w.frames).conns[0].Local; got != test.want {
				t.Errorf("local %v, want %v", got, test.want)
			}
		})
	}
}
