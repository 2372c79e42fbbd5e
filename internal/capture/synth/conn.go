package synth

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// conn is a TCP connection between the service and somebody.
type conn struct {
	addr [2]netip.AddrPort
	seq  [2]uint32
	// acked is what each side acknowledged last.
	acked [2]uint32
	// local is the side of the service.
	local capture.Side
	busy  bool
	// lastData is when the last segment with data was there, lost ones included.
	lastData capture.Time
}

// sent is the first packet of a message.
type sent struct {
	packet uint64
	at     capture.Time
}

const (
	// resendAfter is Linux's least retransmission timeout.
	resendAfter = 200 * time.Millisecond
	// apart is the time between the segments of a message, and acknowledged how soon the
	// service's machine acknowledges.
	apart        = 4 * time.Microsecond
	acknowledged = 15 * time.Microsecond
)

// arrive finds a connection for a request, or has its client open one.
func (s *simulation) arrive(ready func(*conn)) {
	if s.plan.Clients > 0 {
		for _, c := range s.inbound {
			if !c.busy {
				ready(c)
				return
			}
		}
	}
	client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(s.ports >> 14 & 0xff), 7}), s.port())
	c := s.newConn(client, ServiceAddr, capture.Server)
	s.inbound = append(s.inbound, c)
	s.open3(c, func() { ready(c) })
}

func (s *simulation) port() uint16 {
	s.ports++
	return uint16(1<<15 + s.ports%(1<<14))
}

func (s *simulation) newConn(client, server netip.AddrPort, local capture.Side) *conn {
	return &conn{addr: [2]netip.AddrPort{client, server}, seq: [2]uint32{s.rand.Uint32(), s.rand.Uint32()}, local: local, busy: true}
}

// open3 shakes hands, and returns the first packet.
func (s *simulation) open3(c *conn, ready func()) (syn uint64) {
	syn = s.segment(c, capture.Client, capture.SYN)
	c.seq[capture.Client]++
	answer := acknowledged
	if c.local == capture.Client {
		answer = max(acknowledged, s.plan.RoundTrip)
	}
	s.after(answer, func() {
		s.segment(c, capture.Server, capture.SYN|capture.ACK)
		c.seq[capture.Server]++
		back := acknowledged
		if c.local == capture.Server {
			back = max(acknowledged, s.plan.RoundTrip)
		}
		s.after(back, func() {
			s.segment(c, capture.Client, capture.ACK)
			s.after(time.Microsecond, ready)
		})
	})
	return syn
}

// close ends a connection, by somebody.
func (s *simulation) close(c *conn, by capture.Side) {
	c.busy = true
	s.after(acknowledged, func() {
		s.segment(c, by, capture.FIN|capture.ACK)
		c.seq[by]++
		s.after(acknowledged, func() {
			s.segment(c, by.Other(), capture.FIN|capture.ACK)
			c.seq[by.Other()]++
			s.after(acknowledged, func() { s.segment(c, by, capture.ACK) })
		})
	})
	if c.local == capture.Server {
		s.inbound = without(s.inbound, c)
	}
}

func without(list []*conn, c *conn) []*conn {
	for i := range list {
		if list[i] == c {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}

// send sends a message now: began is told its first packet, done when the last byte is
// at the captured machine or has left it.
func (s *simulation) send(c *conn, by capture.Side, message []byte, began func(sent), done func()) {
	ends := time.Duration(0)
	base := c.seq[by]
	for offset := 0; offset < len(message); offset += segmentSize {
		part := message[offset:min(offset+segmentSize, len(message))]
		seq, at, lost := base+uint32(offset), time.Duration(offset/segmentSize)*apart, s.spoil.Float64() < s.plan.Loss
		first := offset == 0
		deliver := func() {
			packet := s.put(c, by, capture.PSH|capture.ACK, seq, part)
			if first && began != nil {
				began(sent{packet: packet, at: s.now})
				began = nil
			}
		}
		if lost {
			if c.local == by {
				s.afterOrNow(at, deliver)
			}
			at += resendAfter
		}
		s.afterOrNow(at, deliver)
		ends = max(ends, at)
	}
	c.seq[by] += uint32(len(message))
	s.afterOrNow(ends, func() {
		c.lastData = s.now
		back := acknowledged
		if c.local == by {
			back = max(acknowledged, s.plan.RoundTrip)
		}
		s.after(back, func() {
			if c.acked[by.Other()] != c.seq[by] { // no data carried it meanwhile
				s.segment(c, by.Other(), capture.ACK)
			}
		})
		done()
	})
}

func (s *simulation) afterOrNow(d time.Duration, do func()) {
	if d == 0 {
		do()
		return
	}
	s.after(d, do)
}

// segment puts a packet without data on the wire.
func (s *simulation) segment(c *conn, by capture.Side, flags capture.Flags) uint64 {
	return s.put(c, by, flags, c.seq[by], nil)
}

func (s *simulation) put(c *conn, by capture.Side, flags capture.Flags, seq uint32, data []byte) uint64 {
	segment := segment{
		src: c.addr[by], dst: c.addr[by.Other()], transport: capture.TCP, flags: flags,
		seq: seq, window: windowAlways, payload: data, outgoing: by == c.local,
	}
	if flags.Has(capture.ACK) {
		segment.ack = c.seq[by.Other()]
		c.acked[by] = segment.ack
	}
	return s.wire(&segment)
}

// wire captures a packet as the plan spoils it, and returns its number; 0 when it is
// missed.
func (s *simulation) wire(segment *segment) uint64 {
	if s.err != nil || s.spoil.Float64() < s.plan.Missed {
		return 0
	}
	s.ids++
	segment.id = s.ids
	s.buffer = appendPacket(s.buffer[:0], s.plan.Link, segment)
	first, times := s.number+1, 1
	if s.spoil.Float64() < s.plan.Doubled {
		times = 2
	}
	for i := range times {
		s.number++
		s.packet = capture.Packet{
			Number: s.number, Time: s.now.Add(time.Duration(i) * time.Microsecond), Link: s.plan.Link, Interface: i,
			Data: s.buffer, Length: len(s.buffer),
		}
		if s.plan.Snap > 0 && len(s.buffer) > s.plan.Snap {
			s.packet.Data = s.buffer[:s.plan.Snap]
		}
		if s.err = s.emit(&s.packet); s.err != nil {
			return 0
		}
	}
	return first
}
