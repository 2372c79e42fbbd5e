package synth

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/capture"
)

// Script is a capture written by hand, packet by packet, for what a Plan does not do.
// Times are since its beginning; those of one Talk are said in order.
type Script struct {
	// Resolver is who is asked for names.
	Resolver netip.AddrPort
	// Link is how packets begin from now on: as in "any" captures of today (SLL2), which
	// tell directions, unless it is changed.
	Link capture.LinkType

	start   capture.Time
	packets []capture.Packet
	ids     uint16
}

// NewScript begins a capture of the machine of ServiceAddr.
func NewScript() *Script {
	return &Script{Resolver: ResolverAddr, Link: capture.LinkSLL2, start: capture.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
}

// Time is the moment so long after the beginning.
func (s *Script) Time(at time.Duration) time.Time { return s.start.Add(at).Time() }

// Capture is what was written so far, in the order of time.
func (s *Script) Capture() *Capture {
	packets := slices.Clone(s.packets)
	slices.SortStableFunc(packets, func(a, b capture.Packet) int { return cmp.Compare(a.Time, b.Time) })
	for i := range packets {
		packets[i].Number = uint64(i + 1)
	}
	return &Capture{packets: packets}
}

func (s *Script) put(at time.Duration, g *segment) {
	s.ids++
	g.id = s.ids
	g.outgoing = g.src.Addr() == ServiceAddr.Addr()
	data := appendPacket(nil, s.Link, g)
	s.packets = append(s.packets, capture.Packet{
		Time: s.start.Add(at), Link: s.Link, Interface: 0, Data: data, Length: len(data),
	})
}

// Ask is a question to DNS at a time, and its answer after took, with the addresses, or
// that there is no such name if there are none or they are not valid. It is not answered
// if took is negative.
func (s *Script) Ask(at, took time.Duration, from netip.AddrPort, id uint16, name string, v6 bool, found ...netip.Addr) {
	family := uint16(typeA)
	if v6 {
		family = typeAAAA
	}
	s.put(at, &segment{src: from, dst: s.Resolver, transport: capture.UDP, payload: question(id, name, family)})
	if took >= 0 {
		missing := !slices.ContainsFunc(found, netip.Addr.IsValid)
		s.put(at+took, &segment{src: s.Resolver, dst: from, transport: capture.UDP, payload: answer(id, name, family, missing, found...)})
	}
}

// Talk is a TCP connection in a script.
type Talk struct {
	script *Script
	addr   [2]netip.AddrPort
	seq    [2]uint32
	window [2]uint16
}

// Dial opens a connection: its SYN is at a time, the rest a round trip later.
func (s *Script) Dial(at, roundTrip time.Duration, client, server netip.AddrPort) *Talk {
	t := s.Knock(at, client, server)
	t.Accept(at, roundTrip)
	return t
}

// Knock sends a SYN that nobody answers: with the Talk it is sent again, or accepted.
func (s *Script) Knock(at time.Duration, client, server netip.AddrPort) *Talk {
	t := &Talk{
		script: s, addr: [2]netip.AddrPort{client, server}, window: [2]uint16{windowAlways, windowAlways},
		// Differs from one connection to the next, also between the same ports.
		seq: [2]uint32{uint32(len(s.packets)+1) * 1_000_003, uint32(len(s.packets)+1) * 2_000_003},
	}
	t.flags(at, capture.Client, capture.SYN)
	t.seq[capture.Client]++
	return t
}

// Knock sends the SYN again.
func (t *Talk) Knock(at time.Duration) {
	t.put(at, capture.Client, capture.SYN, t.seq[capture.Client]-1, nil)
}

// Accept answers a SYN that was sent at a time, half a round trip later, and has the client
// acknowledge that.
func (t *Talk) Accept(at, roundTrip time.Duration) {
	t.flags(at+roundTrip/2, capture.Server, capture.SYN|capture.ACK)
	t.seq[capture.Server]++
	t.flags(at+roundTrip, capture.Client, capture.ACK)
}

// Send sends data in segments that follow each other closely.
func (t *Talk) Send(at time.Duration, by capture.Side, data []byte) {
	for len(data) > 0 {
		n := min(segmentSize, len(data))
		t.put(at, by, capture.PSH|capture.ACK, t.seq[by], data[:n])
		t.seq[by] += uint32(n)
		data = data[n:]
		at += apart
	}
}

// SendAgain sends data again that was the last to be sent.
func (t *Talk) SendAgain(at time.Duration, by capture.Side, data []byte) {
	t.put(at, by, capture.PSH|capture.ACK, t.seq[by]-uint32(len(data)), data)
}

// Acknowledge sends a packet without data.
func (t *Talk) Acknowledge(at time.Duration, by capture.Side) { t.flags(at, by, capture.ACK) }

// AcknowledgeUpTo acknowledges all but the last bytes.
func (t *Talk) AcknowledgeUpTo(at time.Duration, by capture.Side, missing int) {
	g := t.segment(by, capture.ACK, t.seq[by], nil)
	g.ack -= uint32(missing)
	t.script.put(at, g)
}

// Window says how much room a side has from now on, in units of 128 bytes, and
// acknowledges.
func (t *Talk) Window(at time.Duration, by capture.Side, size uint16) {
	t.window[by] = size
	t.flags(at, by, capture.ACK)
}

// Finish sends a FIN, Reset an RST.
func (t *Talk) Finish(at time.Duration, by capture.Side) {
	t.flags(at, by, capture.FIN|capture.ACK)
	t.seq[by]++
}

// Reset sends an RST.
func (t *Talk) Reset(at time.Duration, by capture.Side) { t.flags(at, by, capture.RST|capture.ACK) }

func (t *Talk) flags(at time.Duration, by capture.Side, flags capture.Flags) {
	t.put(at, by, flags, t.seq[by], nil)
}

func (t *Talk) put(at time.Duration, by capture.Side, flags capture.Flags, seq uint32, data []byte) {
	t.script.put(at, t.segment(by, flags, seq, data))
}

func (t *Talk) segment(by capture.Side, flags capture.Flags, seq uint32, data []byte) *segment {
	g := &segment{
		src: t.addr[by], dst: t.addr[by.Other()], transport: capture.TCP, flags: flags,
		seq: seq, window: t.window[by], payload: data,
	}
	if flags.Has(capture.ACK) {
		g.ack = t.seq[by.Other()]
	}
	return g
}

// Get is an HTTP request as captures carry it, Answer its answer.
func Get(method, path, host, agent string, body []byte) []byte {
	return request(method, path, host, agent, "", body)
}

// Answer is an HTTP response.
func Answer(status int, body []byte) []byte { return response(status, body) }

// Credentials is the answer of a metadata service with credentials that end then.
func Credentials(expire time.Time) []byte { return response(200, credentials(expire)) }
