package synth

import (
	"encoding/binary"
	"net/netip"

	"taper.dev/taper/internal/capture"
)

// segment is a packet to be.
type segment struct {
	src, dst  netip.AddrPort
	transport capture.Transport
	flags     capture.Flags
	seq, ack  uint32
	window    uint16
	id        uint16
	payload   []byte
	outgoing  bool // as the service's machine sees it
}

const (
	ifindex      = 2
	tcpHeader    = 20
	synOptions   = 8 // MSS and window scale
	segmentSize  = 1448
	windowAlways = 501
)

// appendPacket appends the bytes of a packet as the link type has them.
func appendPacket(b []byte, link capture.LinkType, s *segment) []byte {
	v6 := s.src.Addr().Is6()
	b = appendLink(b, link, s, v6)
	transport := tcpHeader
	if s.transport == capture.UDP {
		transport = 8
	} else if s.flags.Has(capture.SYN) {
		transport += synOptions
	}
	length := transport + len(s.payload)
	if v6 {
		b = append(b, 0x60, 0, 0, 0, byte(length>>8), byte(length), byte(s.transport), 64)
	} else {
		length += 20
		b = append(b, 0x45, 0, byte(length>>8), byte(length), byte(s.id>>8), byte(s.id), 0x40, 0, 64, byte(s.transport), 0, 0)
	}
	b = append(b, s.src.Addr().AsSlice()...)
	b = append(b, s.dst.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, s.src.Port())
	b = binary.BigEndian.AppendUint16(b, s.dst.Port())
	if s.transport == capture.UDP {
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(s.payload)))
		b = append(b, 0, 0)
		return append(b, s.payload...)
	}
	b = binary.BigEndian.AppendUint32(b, s.seq)
	b = binary.BigEndian.AppendUint32(b, s.ack)
	b = append(b, byte(transport/4)<<4, byte(s.flags))
	b = binary.BigEndian.AppendUint16(b, s.window)
	b = append(b, 0, 0, 0, 0)
	if s.flags.Has(capture.SYN) {
		b = append(b, 2, 4, segmentSize>>8, segmentSize&0xff, 1, 3, 3, 7)
	}
	return append(b, s.payload...)
}

func appendLink(b []byte, link capture.LinkType, s *segment, v6 bool) []byte {
	etherType := []byte{0x08, 0x00}
	if v6 {
		etherType = []byte{0x86, 0xdd}
	}
	switch link {
	case capture.LinkEthernet:
		b = append(b, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2)
		return append(b, etherType...)
	case capture.LinkSLL2:
		direction := byte(0)
		if s.outgoing {
			direction = 4
		}
		b = append(b, etherType...)
		b = append(b, 0, 0, 0, 0, 0, ifindex, 0, 1, direction, 6, 2, 0, 0, 0, 0, 1, 0, 0)
		return b
	default: // raw IP
		return b
	}
}
