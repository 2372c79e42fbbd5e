// Package capture is the vocabulary of packet captures: what a file of packets says
// about the conversations of a machine, from bytes to exchanges.
//
// The stages are packages below this one, which do not see each other; dissect puts
// them in a row:
//
//	pcapfile   bytes → Packet         pcap, pcapng, compressed, several files as one
//	live       interface → Packet     capturing by ourselves
//	frame      Packet → Frame         link layer, IP, TCP and UDP headers
//	flow       Frame → Conn, Chunk    connections, bytes in order, what went wrong
//	http1 …    Chunk → Exchange       one package per protocol
//	dissect    Packet → Sink          all of them in a row
//
// What comes out are three kinds of facts, told to a [Sink]: an [Exchange] is one
// question and its answer, a [Conn] is what carried exchanges, a [Stall] is time that a
// connection lost. Nothing here knows which exchange caused which: that is package
// attribution's.
//
// Captures are streams, and larger than memory: a fact is told once and then forgotten,
// buffers are bounded, and what was given up is counted in [Stats].
//
// Secrets end here: parsers keep neither credentials nor cookies, query strings,
// literals or bodies, so that no output can show them.
package capture
