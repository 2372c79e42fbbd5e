package attribution

import "net/netip"

// Options configure a Linker. The zero value is usable.
type Options struct {
	// Service are the addresses that answer requests, for captures that do not say which
	// machine they are of; port 0 is any port. Empty: learned from the capture.
	Service []netip.AddrPort
	// Pending bounds the exchanges that wait to be attributed; 0 is DefaultPending.
	Pending int
}

// DefaultPending is how many exchanges wait to be attributed at most.
const DefaultPending = 200_000

// Summary is what a Linker says when the capture has ended.
type Summary struct {
	// Services are the addresses that answered requests, and on which ports, in order.
	Services []Service
	// Requests, Links and Orphans count what was told to the Sink.
	Requests, Links, Orphans uint64
	// Foreign counts exchanges between two machines neither of which is the captured one.
	Foreign uint64
	// Late counts exchanges that became known after the time around them was decided, and
	// Early how often that time was decided with less than all being known, to bound
	// memory.
	Late, Early uint64
	// Open is how many requests were open at once, on average over the time of requests.
	Open float64
	// Certainties counts requests by how sure their links are.
	Certainties map[Certainty]uint64
	// Recognised says in words how requests were told from calls.
	Recognised string
	// Refusals say in words which claims the capture cannot carry, and why.
	Refusals []string
}

// Service is an address that answered requests.
type Service struct {
	Addr  netip.Addr
	Ports []uint16 // in order
}
