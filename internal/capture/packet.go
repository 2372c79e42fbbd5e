package capture

import (
	"net/netip"
	"time"
)

// Time is a moment in nanoseconds since 1970, as captures count it. Zero is unknown.
type Time int64

// At is the Time of t.
func At(t time.Time) Time { return Time(t.UnixNano()) }

// Time is t as a time.Time, in UTC.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// Sub is how long after u t is; negative when clocks stepped.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add is the moment d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// LinkType says how a packet's bytes begin, by the numbers of tcpdump.org/linktypes.html.
type LinkType uint32

// Link types that package frame decodes.
const (
	LinkNull     LinkType = 0 // BSD loopback, family in host byte order
	LinkEthernet LinkType = 1
	LinkRawBSD   LinkType = 12 // raw IP where 101 is not used
	LinkRawOpen  LinkType = 14 // the same, by OpenBSD
	LinkRaw      LinkType = 101
	LinkLoop     LinkType = 108 // OpenBSD loopback, family in network byte order
	LinkSLL      LinkType = 113 // Linux "any", first version
	LinkIPv4     LinkType = 228
	LinkIPv6     LinkType = 229
	LinkSLL2     LinkType = 276 // Linux "any", with interface
)

// Packet is one captured packet.
type Packet struct {
	// Number counts from 1 through all files of a capture, as Wireshark does for one.
	Number uint64
	Time   Time
	Link   LinkType
	// Interface is the index of the interface in the capture, -1 if the file does not say.
	Interface int
	// Data are the bytes that were captured, valid until the next packet is read.
	Data []byte
	// Length is the packet's length on the wire, in bytes; larger than len(Data) when it
	// was cut.
	Length int
	// Process is who sent or received it; zero where the capture does not say.
	Process Process
	// Direction of the packet, where the file says it beside the packet's bytes.
	Direction Direction
}

// Process is a process and thread of the captured machine.
type Process struct {
	PID, TID uint32 // zero is unknown
	Name     string
}

// Direction says which way a packet went at the machine that captured it.
type Direction uint8

// Directions. Only "any" captures, live ones, and flags of pcapng packets tell.
const (
	DirectionUnknown Direction = iota
	Incoming
	Outgoing
)

// Transport is an IP protocol number.
type Transport uint8

// Transports that carry what we look at.
const (
	TCP Transport = 6
	UDP Transport = 17
)

// Flags are TCP's.
type Flags uint8

// TCP flags, as on the wire.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
)

// Has says whether all of f2 are set.
func (f Flags) Has(f2 Flags) bool { return f&f2 == f2 }

// Frame is a packet whose headers were understood.
type Frame struct {
	Number    uint64
	Time      Time
	Interface int
	Direction Direction
	Process   Process
	// Src and Dst are without zones; IPv4 in IPv6 is unmapped.
	Src, Dst  netip.AddrPort
	Transport Transport
	// Payload are the transport's bytes that were captured, valid as long as the
	// packet's; Length is how many there were on the wire.
	Payload []byte
	Length  int
	// ID is the IP identification (IPv4; zero for IPv6): the same packet seen on two
	// interfaces has the same.
	ID uint16
	// TCP alone:
	Seq, Ack uint32
	Flags    Flags
	Window   uint16 // unscaled
	Options  Options
}

// Options are the TCP options that matter. Those of SYN packets are zero elsewhere.
type Options struct {
	MSS         uint16 // zero: not given
	WindowScale int8   // -1: not given
	SACK        bool   // permitted
	Timestamps  bool   // Value and Echo are set
	Value, Echo uint32
	// SACKs says that the packet acknowledges selectively; DSACK that the first block
	// reports a duplicate (RFC 2883).
	SACKs, DSACK bool
}
