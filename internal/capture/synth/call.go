package synth

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// call calls somebody for step i of a request, or for none: took is told what happened on
// the wire, done when the answer is there.
func (s *simulation) call(c Call, i int, took func(TrueCall), done func()) {
	s.callWith(c, i, "", took, done)
}

func (s *simulation) callWith(c Call, i int, trace string, took func(TrueCall), done func()) {
	if !c.Resolve {
		s.connected(c, i, trace, took, done)
		return
	}
	names := make([]string, 0, len(c.Search)+1)
	for _, suffix := range c.Search {
		names = append(names, c.Host+"."+suffix)
	}
	s.resolve(append(names, c.Host), c, i, took, func() { s.connected(c, i, trace, took, done) })
}

// resolve asks for names in turn, both families at once; the last one is there.
func (s *simulation) resolve(names []string, c Call, i int, took func(TrueCall), done func()) {
	if len(names) == 0 {
		done()
		return
	}
	from := netip.AddrPortFrom(ServiceAddr.Addr(), s.port())
	waiting := 2
	for n, family := range []uint16{typeA, typeAAAA} {
		id := uint16(s.rand.Uint32())
		packet := s.datagram(from, ResolverAddr, true, question(id, names[0], family))
		asked := s.now
		s.after(c.ResolveTook.draw(s.rand)+s.plan.RoundTrip+time.Duration(n)*time.Microsecond, func() {
			var found netip.Addr
			if len(names) == 1 {
				found = c.Peer.Addr()
			}
			s.datagram(ResolverAddr, from, false, answer(id, names[0], family, len(names) > 1, found))
			took(TrueCall{Cause: DNS, Packet: packet, From: asked, To: s.now, Step: i})
			if waiting--; waiting == 0 {
				s.after(time.Microsecond, func() { s.resolve(names[1:], c, i, took, done) })
			}
		})
	}
}

func (s *simulation) datagram(src, dst netip.AddrPort, outgoing bool, payload []byte) uint64 {
	return s.wire(&segment{src: src, dst: dst, transport: capture.UDP, payload: payload, outgoing: outgoing})
}

// connected finds or opens a connection, and asks.
func (s *simulation) connected(call Call, i int, trace string, took func(TrueCall), done func()) {
	if !call.Fresh {
		for _, c := range s.pools[call.Peer] {
			if !c.busy {
				s.ask(c, call, i, trace, took, done)
				return
			}
		}
	}
	c := s.newConn(netip.AddrPortFrom(ServiceAddr.Addr(), s.port()), call.Peer, capture.Client)
	if !call.Fresh {
		s.pools[call.Peer] = append(s.pools[call.Peer], c)
	}
	begun := s.now
	packet := s.open3(c, func() {
		s.ask(c, call, i, trace, took, done)
	})
	connect := TrueCall{Cause: Connect, Packet: packet, From: begun, Step: i}
	s.after(max(acknowledged, s.plan.RoundTrip)+acknowledged, func() {
		connect.To = s.now
		took(connect)
	})
}

func (s *simulation) ask(c *conn, call Call, i int, trace string, took func(TrueCall), done func()) {
	c.busy = true
	truth := TrueCall{Cause: Called, Step: i}
	if capture.Time(call.Credentials) != 0 || call.Peer.Addr() == metadataAddr {
		truth.Cause = Metadata
	}
	message := request(call.Method, fill(call.Path, s.rand), call.Host, call.UserAgent, trace, filler(call.Sent))
	s.send(c, capture.Client, message, func(first sent) { truth.Packet, truth.From = first.packet, first.at }, func() {
		s.after(call.Took.draw(s.rand)+s.plan.RoundTrip, func() {
			body := filler(call.Got)
			if call.Credentials > 0 {
				body = credentials(s.now.Time().Add(call.Credentials))
			}
			s.send(c, capture.Server, response(200, body), nil, func() {
				truth.To = s.now
				took(truth)
				c.busy = false
				if call.Fresh {
					s.close(c, capture.Client)
				}
				done()
			})
		})
	})
}

// metadataAddr is where instances of most clouds ask about themselves.
var metadataAddr = netip.MustParseAddr("169.254.169.254")
