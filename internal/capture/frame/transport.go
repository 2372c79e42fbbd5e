package frame

import (
	"net/netip"

	"taper.dev/taper/internal/capture"
)

const (
	tcpHeader = 20
	udpHeader = 8
)

// transport decodes TCP or UDP, of a whole IP packet.
func transport(t capture.Transport, s span, src, dst netip.Addr, f *capture.Frame) Verdict {
	f.Transport = t
	switch t {
	case capture.TCP:
		return tcp(s, src, dst, f)
	case capture.UDP:
		return udp(s, src, dst, f)
	}
	return Undecoded
}

func udp(s span, src, dst netip.Addr, f *capture.Frame) Verdict {
	b := s.data
	if len(b) < udpHeader {
		return s.short()
	}
	length := int(be16(b[4:]))
	if length == 0 || length > s.length {
		length = s.length // a jumbogram, or the IP header knows better
	}
	if length < udpHeader {
		return Malformed
	}
	f.Src = netip.AddrPortFrom(src, be16(b))
	f.Dst = netip.AddrPortFrom(dst, be16(b[2:]))
	f.Payload = b[udpHeader:min(len(b), length)]
	f.Length = length - udpHeader
	f.Seq, f.Ack, f.Flags, f.Window = 0, 0, 0, 0
	f.Options = capture.Options{}
	return Decoded
}

func tcp(s span, src, dst netip.Addr, f *capture.Frame) Verdict {
	b := s.data
	if len(b) < tcpHeader {
		return s.short()
	}
	header := int(b[12]>>4) * 4
	if header < tcpHeader || header > s.length {
		return Malformed
	}
	f.Src = netip.AddrPortFrom(src, be16(b))
	f.Dst = netip.AddrPortFrom(dst, be16(b[2:]))
	f.Seq, f.Ack = be32(b[4:]), be32(b[8:])
	f.Flags = capture.Flags(b[13]) & (capture.FIN | capture.SYN | capture.RST | capture.PSH | capture.ACK)
	f.Window = be16(b[14:])
	captured := min(header, len(b))
	tcpOptions(b[tcpHeader:captured], f)
	f.Payload = b[captured:]
	f.Length = s.length - header
	return Decoded
}

// TCP options.
const (
	optEnd        = 0
	optNop        = 1
	optMSS        = 2
	optScale      = 3
	optPermitted  = 4
	optSACK       = 5
	optTimestamps = 8
)

// maxScale is the largest shift of a window (RFC 7323, 2.3).
const maxScale = 14

// tcpOptions reads as many options as are there; a broken one ends the list.
func tcpOptions(b []byte, f *capture.Frame) {
	o := &f.Options
	*o = capture.Options{}
	syn := f.Flags.Has(capture.SYN)
	if syn {
		o.WindowScale = -1
	}
	// What Linux sends on all but SYN: two paddings, then the timestamps.
	if len(b) == 12 && be32(b) == optNop<<24|optNop<<16|optTimestamps<<8|10 {
		o.Timestamps, o.Value, o.Echo = true, be32(b[4:]), be32(b[8:])
		return
	}
	for len(b) > 0 {
		switch b[0] {
		case optEnd:
			return
		case optNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return
		}
		value := b[2:b[1]]
		switch kind := b[0]; {
		case kind == optMSS && syn && len(value) == 2:
			o.MSS = be16(value)
		case kind == optScale && syn && len(value) == 1:
			o.WindowScale = int8(min(value[0], maxScale))
		case kind == optPermitted && syn:
			o.SACK = true
		case kind == optTimestamps && len(value) == 8:
			o.Timestamps, o.Value, o.Echo = true, be32(value), be32(value[4:])
		case kind == optSACK && len(value) >= 8:
			o.SACKs, o.DSACK = true, duplicate(value, f.Ack)
		}
		b = b[b[1]:]
	}
}

// duplicate says whether the first SACK block reports bytes that came twice: it lies below
// the acknowledgement or within the second block (RFC 2883, 4).
func duplicate(blocks []byte, ack uint32) bool {
	from, to := be32(blocks), be32(blocks[4:])
	if int32(to-ack) <= 0 {
		return true
	}
	if len(blocks) < 16 {
		return false
	}
	from2, to2 := be32(blocks[8:]), be32(blocks[12:])
	return int32(from-from2) >= 0 && int32(to2-to) >= 0
}
