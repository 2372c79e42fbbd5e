package capture

import (
	"net/netip"
	"time"
)

// Side is one end of a connection.
type Side uint8

// Sides.
const (
	Client Side = iota
	Server
)

// Other is the other side.
func (s Side) Other() Side { return 1 - s }

// String is "client" or "server".
func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// Mark is a moment and the packet that shows it. A zero Packet means not seen.
type Mark struct {
	Time   Time
	Packet uint64
}

// Seen says whether there is such a packet.
func (m Mark) Seen() bool { return m.Packet != 0 }

// Conn is one TCP connection, or the datagrams between two UDP ports.
type Conn struct {
	// ID counts connections from 1 in the order in which they were first seen.
	ID        uint64
	Transport Transport
	// Addr are the two ends, indexed by Side.
	Addr [2]netip.AddrPort
	// Local says which ends belong to the captured machine. Both are local on the
	// loopback; neither is when the capture does not tell.
	Local [2]bool
	// Process is the process at the local end; zero if the capture does not say.
	Process Process
	// Protocol is what it speaks, as an Exchange says it; "" while not recognised.
	Protocol string

	// First and Last are the first and last packet seen.
	First, Last Mark
	// SYNs are the client's first and repeated SYN packets (at most MaxSYNs are kept),
	// SYNACK is the server's first answer and Established the client's ACK of it. All are
	// empty when the capture began later: then Mid is set.
	SYNs        []Mark
	SYNACK      Mark
	Established Mark
	Mid         bool
	// Closed is the first FIN or RST, ClosedBy who sent it, Reset whether it was an RST.
	// Not seen: the connection was open at the end of the capture, or fell silent.
	Closed   Mark
	ClosedBy Side
	Reset    bool
	// RTT is the least round trip seen, from data or SYN to its acknowledgement by the
	// other end as far as the point of capture can see; 0 is unknown.
	RTT time.Duration
	// MSS is the largest segment that each side announced; 0 is unknown.
	MSS [2]uint16

	// By the side that sent: packets with payload, bytes of payload (each counted once),
	// bytes that the capture lacks, packets that carried bytes again, and packets that
	// came too early.
	Packets       [2]uint64
	Bytes         [2]uint64
	MissingBytes  [2]uint64
	Retransmitted [2]uint64
	Reordered     [2]uint64

	// Upgraded is the question that HTTP/1.1 left to HTTP/2 when the connection changed
	// over to it ("Upgrade: h2c"): the answer comes on stream 1. Nil otherwise.
	Upgraded *Exchange

	// Exchanges counts the exchanges that it carried.
	Exchanges uint64
}

// MaxSYNs bounds how many repeated SYNs a Conn keeps.
const MaxSYNs = 8

// StallKind says why a connection lost time.
type StallKind uint8

// Kinds of stalls. They overlap neither within a side nor with each other.
const (
	// StallTimeout: bytes were sent again by timer, nothing having told of the loss.
	StallTimeout StallKind = iota + 1
	// StallFast: bytes were sent again after duplicate acknowledgements.
	StallFast
	// StallTail: the last bytes before a silence were sent again early (tail loss probe).
	StallTail
	// StallZeroWindow: the receiver had no room.
	StallZeroWindow
	// StallDelayedACK: a small segment waited for the acknowledgement of the one before
	// (Nagle), which the receiver delayed.
	StallDelayedACK
	// StallSlowStart: after idling the sender sent in growing bursts, a round trip apart.
	StallSlowStart
)

// String is the kind's name in the field.
func (k StallKind) String() string {
	return [...]string{"unknown", "retransmission timeout", "fast retransmit", "tail loss probe", "zero window", "delayed acknowledgement", "slow start after idle"}[k]
}

// Stall is time in which a connection wanted to send and could not.
type Stall struct {
	Conn *Conn
	Kind StallKind
	// Sender is the side whose bytes were late.
	Sender Side
	// From is when the bytes were first sent, or sending stopped; To is when the bytes
	// were sent again, or sending went on.
	From, To Mark
	// Tries counts how often the same bytes were sent again; only for retransmissions,
	// of which each is told as a Stall of its own, that begins with the one before.
	Tries int
	// Bytes is the size of the segment, on the wire.
	Bytes int
	// Full says that the segment was as large as the connection's segments come.
	Full bool
	// Idle is how long the connection had been idle before; StallSlowStart only.
	Idle time.Duration
}

// Duration is how long the stall was.
func (s *Stall) Duration() time.Duration { return s.To.Time.Sub(s.From.Time) }

// Stats counts what a capture held, and what was given up.
type Stats struct {
	Packets, Bytes uint64
	First, Last    Time
	// Truncated packets were cut by the snap length in their payload.
	Truncated uint64
	// Duplicates are packets seen before on another interface.
	Duplicates uint64
	// Undecoded packets are neither TCP nor UDP over IP; Malformed ones broke a rule.
	Undecoded, Malformed uint64
	// Fragments that could not be put together.
	Fragments uint64
	// Backwards counts packets whose time lies before the packet's before it, by more
	// than a second.
	Backwards uint64
	// Conns counts connections, Mid those that began before the capture, and GivenUp
	// those that were forgotten early to bound memory.
	Conns, Mid, GivenUp uint64
	// MissingBytes of TCP streams were not in the capture, Retransmitted and Reordered
	// count packets.
	MissingBytes, Retransmitted, Reordered uint64
	// Exchanges by protocol, Unanswered those without an answer in the capture, and
	// Unparsed the bytes of streams whose protocol's parser lost its way.
	Exchanges  map[string]uint64
	Unanswered uint64
	Unparsed   uint64
	// Damage says, in words, what ended the reading of a file early; none is empty.
	Damage []string
}
