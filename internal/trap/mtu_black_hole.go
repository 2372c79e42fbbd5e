package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// blackHoleTries of one full segment are more than chance: with one packet in ten
	// lost, one segment in ten thousand.
	blackHoleTries = 3
	// fewBlackHoles connections may be those of a machine that went away.
	fewBlackHoles = 2
)

// blackHole sees connections on which small packets pass and full ones do not: some link
// on the way has a smaller MTU, and the message that says so is dropped.
type blackHole struct {
	conns    map[uint64]*hole
	order    recent[uint64]
	hits     table[netip.Addr, uint64] // connections, by the other end
	waits    waits
	charge   charge
	bytes    int
	evidence evidence
}

// hole is a connection on which a segment is sent again.
type hole struct {
	full, small int // most tries
	sender      capture.Side
}

func newBlackHole() Rule {
	return &blackHole{
		conns: map[uint64]*hole{}, order: newRecent[uint64](waitingConns), waits: newWaits(),
		hits: newTable[netip.Addr, uint64](maxPeers),
	}
}

func (*blackHole) ID() string { return "mtu-black-hole" }

func (b *blackHole) Stall(s *capture.Stall) {
	if s.Kind != capture.StallTimeout {
		return
	}
	h := b.conns[s.Conn.ID]
	if h == nil {
		h = &hole{}
		if old, full := b.order.replace(s.Conn.ID); full {
			delete(b.conns, old)
		}
		b.conns[s.Conn.ID] = h
	}
	if !s.Full {
		h.small = max(h.small, s.Tries)
		return
	}
	h.full, h.sender = max(h.full, s.Tries), s.Sender
	b.waits.add(s.Conn.ID, s.From.Time, s.To.Time)
	if h.full >= blackHoleTries {
		b.bytes = s.Bytes
		b.evidence.add(s.From.Packet, s.To.Packet)
	}
}

func (b *blackHole) Conn(c *capture.Conn) {
	h := b.conns[c.ID]
	if h == nil {
		return
	}
	delete(b.conns, c.ID)
	// On a path that is dead small segments are sent again, too.
	if h.full < blackHoleTries || h.small > 0 || !(c.Established.Seen() || c.Mid && c.Exchanges > 0) {
		return
	}
	if n := b.hits.at(c.Addr[h.sender.Other()].Addr()); n != nil {
		*n++
	}
}

func (b *blackHole) Request(r *attribution.Request) {
	b.charge.add(b.waits.of(r))
}

func (b *blackHole) Findings(s Scene) []Finding {
	addr, n := most(b.hits, netip.Addr.Compare)
	if n < fewBlackHoles {
		return nil
	}
	b.charge.longest = max(b.charge.longest, time.Second) // 200, 400 and 800 ms
	return []Finding{{
		ID: b.ID(), Severity: b.charge.severity(s), Cost: b.charge.cost(s), Evidence: b.evidence.sorted(),
		Title: fmt.Sprintf("On %d connections to or from %s the handshake and small packets passed, but full segments (%d bytes) were sent again %d times or more; %s.",
			n, addr, b.bytes, blackHoleTries, b.charge.atCost(s)),
		Fix:       "Set the MTU of the pod's network to what the path takes (less the overlay's or VPN's header), or clamp the MSS; let ICMP \"fragmentation needed\" pass.",
		Reference: "https://www.rfc-editor.org/rfc/rfc2923#section-2.1",
	}}
}
