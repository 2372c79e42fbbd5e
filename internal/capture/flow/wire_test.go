package flow

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

var (
	clientAddr = netip.MustParseAddrPort("10.0.0.1:40000")
	serverAddr = netip.MustParseAddrPort("10.0.0.2:9000")
)

// start is when captures of tests begin.
const start = capture.Time(1_700_000_000_000_000_000)

// wire writes the frames of one connection, by hand: each call of a side's function is a
// frame at the time that at says.
type wire struct {
	frames  []capture.Frame
	now     time.Duration
	addr    [2]netip.AddrPort
	seq     [2]uint32 // next to send
	id      [2]uint16
	mss     uint16
	stamped bool
}

// newWire is a connection whose sides begin at these sequence numbers.
func newWire(client, server uint32) *wire {
	return &wire{
		addr: [2]netip.AddrPort{clientAddr, serverAddr},
		seq:  [2]uint32{client, server}, id: [2]uint16{100, 200}, mss: 1460,
	}
}

// at sets the time of the next frames, since the start.
func (w *wire) at(d time.Duration) *wire { w.now = d; return w }

// frame adds a frame with what the state says, and returns it to be changed.
func (w *wire) frame(s capture.Side, flags capture.Flags, payload string) *capture.Frame {
	w.id[s]++
	w.frames = append(w.frames, capture.Frame{
		Number: uint64(len(w.frames) + 1), Time: start.Add(w.now),
		Src: w.addr[s], Dst: w.addr[s.Other()], Transport: capture.TCP,
		Payload: []byte(payload), Length: len(payload), ID: w.id[s],
		Seq: w.seq[s], Ack: w.seq[s.Other()], Flags: flags, Window: 500,
		Options: capture.Options{WindowScale: -1, Timestamps: w.stamped},
	})
	w.seq[s] += uint32(len(payload))
	if flags&(capture.SYN|capture.FIN) != 0 {
		w.seq[s]++
	}
	return &w.frames[len(w.frames)-1]
}

// handshake takes one round trip of d, seen at the client.
func (w *wire) handshake(d time.Duration) *wire {
	for i, flags := range []capture.Flags{capture.SYN, capture.SYN | capture.ACK} {
		f := w.frame(capture.Side(i), flags, "")
		f.Options.MSS, f.Options.WindowScale, f.Options.SACK = w.mss, 7, true
		if i == 0 {
			f.Ack = 0
			w.now += d
		}
	}
	w.ack(capture.Client)
	return w
}

func (w *wire) data(s capture.Side, payload string) *capture.Frame {
	return w.frame(s, capture.ACK|capture.PSH, payload)
}

func (w *wire) ack(s capture.Side) *capture.Frame { return w.frame(s, capture.ACK, "") }

func (w *wire) fin(s capture.Side) *capture.Frame { return w.frame(s, capture.ACK|capture.FIN, "") }

// again adds a frame once more, with a new IP id, as its sender's stack would.
func (w *wire) again(i int) *capture.Frame {
	f := w.frames[i]
	s := capture.Client
	if f.Src == w.addr[capture.Server] {
		s = capture.Server
	}
	w.id[s]++
	f.ID, f.Time, f.Number = w.id[s], start.Add(w.now), uint64(len(w.frames)+1)
	w.frames = append(w.frames, f)
	return &w.frames[len(w.frames)-1]
}

// echo adds a frame once more as another interface sees it.
func (w *wire) echo(i, iface int) *capture.Frame {
	f := w.frames[i]
	f.Interface, f.Time, f.Number = iface, start.Add(w.now), uint64(len(w.frames)+1)
	w.frames = append(w.frames, f)
	return &w.frames[len(w.frames)-1]
}

// lose takes the last frame out of the capture.
func (w *wire) lose() { w.frames = w.frames[:len(w.frames)-1] }

// told is what a Tracker told, and what its parsers were given.
type told struct {
	exchanges []*capture.Exchange
	conns     []*capture.Conn
	stalls    []capture.Stall
	advances  []capture.Time
	talks     map[uint64]*talk
	stats     capture.Stats
}

func (s *told) Exchange(x *capture.Exchange) { s.exchanges = append(s.exchanges, x) }
func (s *told) Stall(x *capture.Stall)       { s.stalls = append(s.stalls, *x) }
func (s *told) Conn(c *capture.Conn)         { s.conns = append(s.conns, c) }
func (s *told) Advance(t capture.Time)       { s.advances = append(s.advances, t) }

// talk is what one parser was given.
type talk struct {
	sink     *told
	emit     capture.Emit
	conn     *capture.Conn
	protocol string
	bytes    [2]strings.Builder
	missing  [2]int
	// script is what came in which order, such as "C3 S-2": sides, bytes, missing bytes.
	script []string
	marks  []capture.Mark
	closed int
}

func (k *talk) Chunk(c capture.Chunk) capture.Handover {
	side := "CS"[c.Side : c.Side+1]
	if c.Missing > 0 {
		k.missing[c.Side] += c.Missing
		k.bytes[c.Side].WriteString(strings.Repeat("?", min(c.Missing, 1<<16)))
		k.script = append(k.script, fmt.Sprintf("%s-%d", side, c.Missing))
	}
	if len(c.Data) > 0 {
		k.bytes[c.Side].Write(c.Data)
		k.script = append(k.script, fmt.Sprintf("%s%d", side, len(c.Data)))
	}
	k.marks = append(k.marks, c.Mark)
	return capture.Handover{}
}

func (k *talk) Close()       { k.closed++ }
func (k *talk) Lost() uint64 { return 0 }

// listener is a protocol that takes any connection and writes down what is said.
func (s *told) listener(name string) capture.Protocol {
	return capture.Protocol{
		Name:      name,
		Recognise: func([]byte) capture.Recognition { return capture.Perhaps },
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			k := &talk{sink: s, emit: emit, conn: c, protocol: name}
			s.talks[c.ID] = k
			return k
		},
	}
}

// track gives frames to a Tracker whose parsers only listen; those on port 9000 do so
// from the first byte on.
func track(frames []capture.Frame) *told {
	sink := &told{talks: map[uint64]*talk{}}
	p := sink.listener("listener")
	p.Ports = []uint16{serverAddr.Port()}
	return sink.run(frames, []capture.Protocol{p}, Options{})
}

func (s *told) run(frames []capture.Frame, protocols []capture.Protocol, o Options) *told {
	t := New(protocols, s, o)
	for i := range frames {
		// A copy that is spoilt after use, since nobody may hold on to it.
		f := frames[i]
		f.Payload = append([]byte(nil), f.Payload...)
		t.Frame(&f)
		for j := range f.Payload {
			f.Payload[j] = 0xdb
		}
	}
	t.Finish()
	t.AddTo(&s.stats)
	return s
}
