package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// synAgainLeast and synAgainMost are when a SYN is sent again: after 1 s (RFC 6298),
	// in old systems after 3 s.
	synAgainLeast = 900 * time.Millisecond
	synAgainMost  = 3300 * time.Millisecond
	// fewSYNs can be packets that were lost as others are.
	fewSYNs = 2
)

// synLoss sees connections that came to be at the second attempt, a second later.
type synLoss struct {
	conns, opened uint64
	servers       table[netip.AddrPort, uint64]
	peers         peers
	charge        charge
	longest       time.Duration
	evidence      evidence
}

func newSYNLoss() Rule {
	return &synLoss{servers: newTable[netip.AddrPort, uint64](maxPeers), peers: newPeers()}
}

func (*synLoss) ID() string { return "syn-loss" }

// synLost is how long a handshake waited for its SYN to be sent again; 0 is not at all.
func synLost(c *capture.Conn) time.Duration {
	if len(c.SYNs) < 2 || !c.SYNACK.Seen() {
		return 0
	}
	if first := c.SYNs[1].Time.Sub(c.SYNs[0].Time); first < synAgainLeast || first > synAgainMost {
		return 0
	}
	return c.SYNs[len(c.SYNs)-1].Time.Sub(c.SYNs[0].Time)
}

func (l *synLoss) Conn(c *capture.Conn) {
	if connected(c) {
		l.opened++
	}
	lost := synLost(c)
	if lost == 0 {
		return
	}
	l.conns++
	if n := l.servers.at(c.Addr[capture.Server]); n != nil {
		*n++
	}
	l.longest = max(l.longest, lost)
	l.evidence.add(synPackets(c)...)
}

// Request charges it the handshakes of its calls, and that of its own connection, which
// its client waited for before it.
func (l *synLoss) Request(r *attribution.Request) {
	var lost time.Duration
	calls := 0
	l.peers.learn(r)
	if r.Index == 0 {
		if own := synLost(r.Conn); own > 0 {
			lost, calls = own, 1
		}
	}
	for i := range r.Links {
		x := r.Links[i].Exchange
		if x.Index > 0 || synLost(x.Conn) == 0 {
			continue
		}
		syns := x.Conn.SYNs
		lost += within(r, syns[0].Time, syns[len(syns)-1].Time)
		calls++
	}
	l.charge.add(lost, calls)
}

func (l *synLoss) Findings(s Scene) []Finding {
	if l.conns < fewSYNs {
		return nil
	}
	l.charge.longest = max(l.charge.longest, l.longest)
	name, n := most(l.servers, netip.AddrPort.Compare)
	fix := "Look at what drops first packets on the way: network policy, conntrack and accept queues of the other side (ss -ltn, nstat TcpExtListenDrops)."
	if l.peers.serves(name) {
		fix = "Make the service accept sooner and raise its backlog (somaxconn and the listener's own); see nstat TcpExtListenDrops and ListenOverflows."
	}
	return []Finding{{
		ID: l.ID(), Severity: l.charge.severity(s), Cost: l.charge.cost(s), Evidence: l.evidence.sorted(),
		Title: fmt.Sprintf("%d of %d connections were established only when their SYN was sent again, after up to %s (%s with %s); %s.",
			l.conns, l.opened, span(l.longest), count(n, "time", "times"), l.peers.of(name), l.charge.atCost(s)),
		Fix: fix, Reference: "https://www.rfc-editor.org/rfc/rfc6298#section-2",
	}}
}
