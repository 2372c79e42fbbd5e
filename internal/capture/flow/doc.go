// Package flow makes connections of frames: each packet once, each side's bytes in
// order, and what went wrong on the way.
//
// Start at [Tracker.Frame]. A frame goes through these, each in a file of its own:
//
//	key.go         which connection; table.go finds it
//	duplicates.go  the same packet, seen on another interface
//	conn.go        who is client, what is local, which process
//	handshake.go   SYN to FIN, and when a connection begins anew
//	ack.go         what the other side acknowledges: round trips, windows, lost captures
//	stream.go      bytes in order; early.go holds those that came too early
//	resent.go      bytes that come again, and why: a stall
//	delayed.go, slowstart.go   the other stalls
//	recognise.go   which protocol; parse.go gives its parser the bytes
//	silence.go     forgets connections
//
// # What counts as what
//
// A packet is a duplicate when connection, direction, IP id, sequence numbers, flags,
// length, window and timestamps are those of one seen shortly before; see duplicates.go
// for how a retransmission is told from it.
//
// Bytes that come late, below the highest sequence number seen, count as reordered when
// their timestamp is older than that of the packet that showed the gap; without one, when
// they come within half a round trip of it, or within 3 ms with less than three duplicate
// acknowledgements: no sender can have repaired a loss by then. Else they count as
// retransmitted, as do bytes that were seen before.
//
// A gap is given up, and its bytes are told as missing, when the other side acknowledges
// it, since then they arrived and were only not captured. The acknowledgement may
// overtake the bytes within a capture, so a pure one must stand for 5 ms or 16 packets
// of the connection; one that comes with payload counts at once, because what the other
// side says next may answer the missing bytes.
//
// The round trip of a connection is the sum of what each side takes to answer at least,
// seen from the point of capture, which is somewhere between them.
package flow
