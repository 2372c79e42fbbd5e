package frame

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
)

// EtherTypes.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8 // IEEE 802.1ad
	etherOld1 = 0x9100 // stacked tags before that standard
	etherOld2 = 0x9200
)

// maxTags bounds stacked VLAN tags.
const maxTags = 4

// Packet types of cooked captures (LINUX_SLL_ in libpcap).
const (
	cookedHost = iota
	cookedBroadcast
	cookedMulticast
	cookedOther
	cookedOutgoing
)

// arpNetlink is the hardware type of netlink messages, which have no EtherType.
const arpNetlink = 824

// link decodes from the link layer on.
func (d *Decoder) link(p *capture.Packet, f *capture.Frame) Verdict {
	s := span{p.Data, max(p.Length, len(p.Data))}
	switch p.Link {
	case capture.LinkEthernet:
		if len(s.data) < 14 {
			return s.short()
		}
		return d.ethernet(be16(s.data[12:]), s.after(14), f)
	case capture.LinkSLL2:
		return d.cooked2(s, f)
	case capture.LinkSLL:
		return d.cooked(s, f)
	case capture.LinkRaw, capture.LinkRawBSD, capture.LinkRawOpen, capture.LinkIPv4, capture.LinkIPv6:
		return d.ip(s, f)
	case capture.LinkNull, capture.LinkLoop:
		return d.loopback(s, f)
	}
	return Undecoded
}

// ethernet decodes what follows an EtherType.
func (d *Decoder) ethernet(kind uint16, s span, f *capture.Frame) Verdict {
	for tags := 0; ; tags++ {
		switch kind {
		case etherIPv4:
			return d.ipv4(s, f)
		case etherIPv6:
			return d.ipv6(s, f)
		case etherVLAN, etherQinQ, etherOld1, etherOld2:
		default:
			return Undecoded
		}
		if tags == maxTags {
			return Undecoded
		}
		if len(s.data) < 4 {
			return s.short()
		}
		kind = be16(s.data[2:])
		s = s.after(4)
	}
}

// cooked decodes the first version of Linux's cooked capture header.
func (d *Decoder) cooked(s span, f *capture.Frame) Verdict {
	if len(s.data) < 16 {
		return s.short()
	}
	if be16(s.data[2:]) == arpNetlink {
		return Undecoded
	}
	setDirection(be16(s.data), f)
	return d.ethernet(be16(s.data[14:]), s.after(16), f)
}

// cooked2 decodes the second version, which has the interface.
func (d *Decoder) cooked2(s span, f *capture.Frame) Verdict {
	if len(s.data) < 20 {
		return s.short()
	}
	if be16(s.data[8:]) == arpNetlink {
		return Undecoded
	}
	f.Interface = int(be32(s.data[4:]))
	setDirection(uint16(s.data[10]), f)
	return d.ethernet(be16(s.data), s.after(20), f)
}

func setDirection(kind uint16, f *capture.Frame) {
	switch kind {
	case cookedHost, cookedBroadcast, cookedMulticast:
		f.Direction = capture.Incoming
	case cookedOutgoing:
		f.Direction = capture.Outgoing
	case cookedOther:
		f.Direction = capture.DirectionUnknown
	}
}

// loopback decodes BSD's header: an address family in some byte order, whose number for
// IPv6 differs between systems.
func (d *Decoder) loopback(s span, f *capture.Frame) Verdict {
	if len(s.data) < 4 {
		return s.short()
	}
	family := binary.LittleEndian.Uint32(s.data)
	if family > 0xffff {
		family = be32(s.data)
	}
	switch family {
	case 2:
		return d.ipv4(s.after(4), f)
	case 10, 23, 24, 28, 30: // Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS
		return d.ipv6(s.after(4), f)
	}
	return Undecoded
}
