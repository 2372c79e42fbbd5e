package flow

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// at is a datagram or segment of the i-th of many connections, some time after the start.
func at(i int, transport capture.Transport, after time.Duration) capture.Frame {
	return capture.Frame{
		Number: uint64(i + 1), Time: start.Add(after), Transport: transport, Flags: capture.ACK,
		Src: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 40000), Dst: serverAddr,
		Seq: uint32(after), Payload: []byte("x"), Length: 1, ID: uint16(after/ms) | 1,
	}
}

// answer is a frame's answer, a little later.
func answer(f capture.Frame) capture.Frame {
	f.Src, f.Dst, f.Time = f.Dst, f.Src, f.Time.Add(ms)
	return f
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	const tcp, udp = capture.TCP, capture.UDP
	for name, test := range map[string]struct {
		frames []capture.Frame
		conns  int
		first  int // which connection ends first
	}{
		"nobody is silent for long": {[]capture.Frame{at(1, tcp, 0), at(2, tcp, 9*time.Minute), at(1, tcp, 9*time.Minute), at(2, tcp, 18*time.Minute)}, 2, 1},
		"one is":                    {[]capture.Frame{at(1, tcp, 0), at(2, tcp, time.Second), at(2, tcp, 11*time.Minute), at(2, tcp, 11*time.Minute+ms), at(1, tcp, 12*time.Minute)}, 3, 1},
		"datagrams sooner":          {[]capture.Frame{at(1, tcp, 0), at(2, udp, 0), at(1, tcp, 70*time.Second), at(1, tcp, 71*time.Second), at(2, udp, 72*time.Second)}, 3, 2},
		"answered datagrams soonest": {[]capture.Frame{
			at(1, tcp, 0), at(2, udp, 0), at(3, udp, 0), answer(at(3, udp, 0)), at(2, udp, 12*time.Second), at(2, udp, 13*time.Second),
		}, 3, 3},
		"answered datagrams, asked again": {[]capture.Frame{
			at(2, udp, 0), answer(at(2, udp, 0)), at(2, udp, 5*time.Second), at(2, udp, 15*time.Second), at(2, udp, 30*time.Second),
		}, 1, 2},
		"one packet from the future": {[]capture.Frame{
			at(1, tcp, 0), at(2, tcp, ms), at(3, tcp, 1000*time.Hour), at(1, tcp, 2*ms), at(2, tcp, 3*ms), at(1, tcp, 4*ms),
		}, 3, 1},
		"the clock steps back": {[]capture.Frame{
			at(1, tcp, time.Hour), at(1, tcp, 0), at(2, tcp, ms), at(1, tcp, 2*ms), at(2, tcp, 3*ms),
		}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := track(test.frames)
			if len(s.conns) != test.conns {
				t.Fatalf("%d connections, want %d", len(s.conns), test.conns)
			}
			if want := at(test.first, tcp, 0).Src; s.conns[0].Addr[client] != want {
				t.Errorf("%v ended first, want %v", s.conns[0].Addr[client], want)
			}
		})
	}
}

// TestClosedConnsLinger for late packets, and not for long.
func TestClosedConnsLinger(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000).handshake(ms)
	w.data(client, "a")
	w.fin(client)
	w.fin(server)
	w.at(2 * time.Second).again(4)
	frames := append(w.frames, at(5, capture.TCP, 3*time.Second))
	if s := track(frames); len(s.conns) != 2 || s.conns[0].Last.Time != start.Add(2*time.Second) {
		t.Errorf("connections %+v; want the late packet to belong to the first", s.conns)
	}
	frames = append(frames, at(5, capture.TCP, 10*time.Second), at(5, capture.TCP, 11*time.Second))
	sink := &told{talks: map[uint64]*talk{}}
	tracker := New(nil, sink, Options{})
	for i := range frames {
		tracker.Frame(&frames[i])
	}
	if len(sink.conns) != 1 || sink.conns[0].ID != 1 {
		t.Errorf("connections %+v; want the first to be over before the end", sink.conns)
	}
}

func TestConnsAreBounded(t *testing.T) {
	t.Parallel()
	var frames []capture.Frame
	for i := range 50 {
		frames = append(frames, at(i, capture.TCP, time.Duration(i)*2*time.Second))
	}
	frames = append(frames, at(45, capture.TCP, 102*time.Second), at(99, capture.TCP, 103*time.Second))
	sink := &told{talks: map[uint64]*talk{}}
	tracker := New([]capture.Protocol{deafProtocol()}, sink, Options{MaxConns: 5})
	for i := range frames {
		tracker.Frame(&frames[i])
		if tracker.conns.count > 5 {
			t.Fatalf("%d connections are remembered", tracker.conns.count)
		}
	}
	tracker.Finish()
	tracker.AddTo(&sink.stats)
	if sink.stats.GivenUp != 46 || len(sink.conns) != 51 || sink.stats.Conns != 51 {
		t.Errorf("%d given up of %d; want 46 of 51", sink.stats.GivenUp, sink.stats.Conns)
	}
	// The 46th to the last one that were heard of, of which number 45 was heard last but one.
	var ports []byte
	for _, c := range sink.conns[46:] {
		ports = append(ports, c.Addr[client].Addr().As4()[3])
	}
	if want := []byte{47, 48, 49, 45, 99}; !slices.Equal(ports, want) {
		t.Errorf("those left at the end are %v, want %v", ports, want)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	var frames []capture.Frame
	for i := range 100 {
		frames = append(frames, at(i%3, capture.UDP, time.Duration(i)*100*ms))
	}
	s := track(frames)
	if len(s.advances) < 50 || !slices.IsSorted(s.advances) {
		t.Errorf("%d advances, sorted %v", len(s.advances), slices.IsSorted(s.advances))
	}
	if last := s.advances[len(s.advances)-1]; last <= frames[99].Time {
		t.Errorf("the last one is %v, before the end", last)
	}
	if last := s.advances[len(s.advances)-2]; last > frames[99].Time.Add(-behind) {
		t.Errorf("the last but one is %v, less than %v behind", last, behind)
	}
}

// TestSilentGapIsGivenUp: nothing more is said on a connection whose last bytes were
// acknowledged and not captured, while the capture goes on.
func TestSilentGapIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000).handshake(ms)
	w.data(client, "abc")
	w.data(client, "def")
	w.lose()
	w.ack(server)
	frames := append(w.frames, at(1, capture.UDP, 300*ms), at(1, capture.UDP, 600*ms))
	sink := &told{talks: map[uint64]*talk{}}
	tracker := New([]capture.Protocol{sink.listener("listener")}, sink, Options{})
	tracker.protocols[0].Ports = []uint16{9000}
	for i := range frames {
		tracker.Frame(&frames[i])
	}
	if k := sink.talks[1]; k.missing[client] != 3 || k.marks[1] != (capture.Mark{Time: start.Add(ms), Packet: w.frames[4].Number}) {
		t.Errorf("missing %v, told with %v; want 3 with the acknowledgement", k.missing, k.marks)
	}
}
