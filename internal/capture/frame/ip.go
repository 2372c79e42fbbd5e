package frame

import (
	"net/netip"

	"taper.dev/taper/internal/capture"
)

// IP protocols that are not transports: extension headers of IPv6.
const (
	extHopByHop    = 0
	extRouting     = 43
	extFragment    = 44
	extAuth        = 51
	extDestination = 60
)

const (
	ipv4Header = 20
	ipv6Header = 40
)

func (d *Decoder) ipv4(s span, f *capture.Frame) Verdict {
	b := s.data
	if len(b) < ipv4Header {
		return s.short()
	}
	header := int(b[0]&0x0f) * 4
	if b[0]>>4 != 4 || header < ipv4Header {
		return Malformed
	}
	total := int(be16(b[2:]))
	if total == 0 || total > s.length {
		// Zero: the network card would have cut the segment and set it. Beyond what was on
		// the wire: nonsense, or a cut capture that was written anew.
		total = s.length
	}
	if total < header {
		return Malformed
	}
	if len(b) < header {
		return s.short()
	}
	// What lies behind the total is padding.
	s = span{b[:min(len(b), total)], total}
	f.ID = be16(b[4:])
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	part := be16(b[6:])
	if part&0x3fff == 0 {
		return transport(capture.Transport(b[9]), s.after(header), src, dst, f)
	}
	return d.fragment(piece{
		key:   datagram{src: src, dst: dst, id: uint32(f.ID), protocol: b[9], iface: f.Interface},
		start: int(part&0x1fff) * 8,
		more:  part&0x2000 != 0,
		body:  s.after(header),
	}, f)
}

func (d *Decoder) ipv6(s span, f *capture.Frame) Verdict {
	b := s.data
	if len(b) < ipv6Header {
		return s.short()
	}
	if b[0]>>4 != 6 {
		return Malformed
	}
	f.ID = 0
	total := int(be16(b[4:])) + ipv6Header
	if total == ipv6Header || total > s.length {
		total = s.length // zero is a jumbogram, or a segment that was not offloaded yet
	}
	src, dst := address16(b[8:24]), address16(b[24:40])
	s = span{b[:min(len(b), total)], total}
	return d.extensions(b[6], s.after(ipv6Header), src, dst, f)
}

// address16 is an IPv6 address; one that stands for an IPv4 address is that.
func address16(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)).Unmap() }

// extensions goes through IPv6's extension headers. Each is at least 8 bytes, so there are
// as many rounds as the packet has room for.
func (d *Decoder) extensions(next byte, s span, src, dst netip.Addr, f *capture.Frame) Verdict {
	for {
		size := 8
		switch next {
		case extHopByHop, extRouting, extDestination, extAuth, extFragment:
		default:
			return transport(capture.Transport(next), s, src, dst, f)
		}
		b := s.data
		if len(b) < 8 {
			return s.short()
		}
		switch next {
		case extAuth:
			size = (int(b[1]) + 2) * 4
		case extFragment:
			if part := be16(b[2:]); part&0xfff9 != 0 {
				return d.fragment(piece{
					key:   datagram{src: src, dst: dst, id: be32(b[4:]), protocol: b[0], iface: f.Interface},
					start: int(part &^ 7),
					more:  part&1 != 0,
					body:  s.after(8),
				}, f)
			}
			// Neither an offset nor more to come: the packet is whole.
		default:
			size = (int(b[1]) + 1) * 8
		}
		if size < 8 || len(b) < size {
			return s.short()
		}
		next, s = b[0], s.after(size)
	}
}
