package frame

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"taper.dev/taper/internal/capture"
)

// Headers by hand, so that what the decoder is told is independent of it. Each function
// puts a header before what follows.

var big = binary.BigEndian

var (
	v4Client, v4Server = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	v6Client, v6Server = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
)

func udpBytes(src, dst uint16, payload string) []byte {
	b := big.AppendUint16(nil, src)
	b = big.AppendUint16(b, dst)
	b = big.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0xba, 0xad) // a bad checksum, as everywhere here
	return append(b, payload...)
}

func tcpBytes(src, dst uint16, seq, ack uint32, flags capture.Flags, options []byte, payload string) []byte {
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	b := big.AppendUint16(nil, src)
	b = big.AppendUint16(b, dst)
	b = big.AppendUint32(b, seq)
	b = big.AppendUint32(b, ack)
	b = append(b, byte(5+len(options)/4)<<4, byte(flags))
	b = big.AppendUint16(b, 502)
	b = append(b, 0xba, 0xad, 0, 0)
	return append(append(b, options...), payload...)
}

// ipv4Bytes: more and at are a fragment's; options are padded.
func ipv4Bytes(protocol capture.Transport, id uint16, more bool, at int, options []byte, body []byte) []byte {
	for len(options)%4 != 0 {
		options = append(options, 0)
	}
	header := 20 + len(options)
	b := append([]byte{}, 0x40|byte(header/4), 0)
	b = big.AppendUint16(b, uint16(header+len(body)))
	b = big.AppendUint16(b, id)
	part := uint16(at / 8)
	if more {
		part |= 0x2000
	}
	b = big.AppendUint16(b, part)
	b = append(b, 64, byte(protocol), 0xba, 0xad)
	b = append(b, v4Client.AsSlice()...)
	b = append(b, v4Server.AsSlice()...)
	return slices.Concat(b, options, body)
}

func ipv6Bytes(next byte, body []byte) []byte {
	b := append([]byte{}, 0x60, 0, 0, 0)
	b = big.AppendUint16(b, uint16(len(body)))
	b = append(b, next, 64)
	b = append(b, v6Client.AsSlice()...)
	b = append(b, v6Server.AsSlice()...)
	return append(b, body...)
}

// extension is an IPv6 extension header of 8 + 8·more bytes.
func extension(next byte, more int, body []byte) []byte {
	b := append([]byte{next, byte(more)}, make([]byte, 6+8*more)...)
	if len(b) >= 8 {
		b[2], b[3] = 1, byte(4+8*more) // PadN, for those that hold options
	}
	return append(b, body...)
}

func fragmentHeader(next byte, id uint32, more bool, at int, body []byte) []byte {
	part := uint16(at)
	if more {
		part |= 1
	}
	b := big.AppendUint16([]byte{next, 0}, part)
	return append(big.AppendUint32(b, id), body...)
}

func ethernetBytes(kind uint16, body []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	return append(big.AppendUint16(b, kind), body...)
}

func tag(kind uint16, body []byte) []byte {
	return append(big.AppendUint16([]byte{0, 42}, kind), body...)
}

func sllBytes(packetType, kind uint16, body []byte) []byte {
	b := big.AppendUint16(nil, packetType)
	b = append(b, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0)
	return append(big.AppendUint16(b, kind), body...)
}

func sll2Bytes(packetType byte, kind uint16, iface uint32, body []byte) []byte {
	b := big.AppendUint16(nil, kind)
	b = append(b, 0, 0)
	b = big.AppendUint32(b, iface)
	b = append(b, 0, 1, packetType, 6, 2, 0, 0, 0, 0, 1, 0, 0)
	return append(b, body...)
}

func packet(link capture.LinkType, data []byte) *capture.Packet {
	return &capture.Packet{Number: 7, Time: 1e9, Link: link, Interface: 3, Data: data, Length: len(data)}
}

// decode decodes one packet with a new decoder.
func decode(p *capture.Packet) (capture.Frame, Verdict) {
	var f capture.Frame
	v := New().Decode(p, &f)
	return f, v
}
