package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// raceSlack is how much more than a round trip a race may take: the kernel's and the
	// capture's own time. Without a round trip known it is all.
	raceSlack = time.Millisecond
	// maxRacers bounds the questions whose connection has yet to end.
	maxRacers = 4096
)

// keepaliveRace sees questions on a used connection that cross its end: the server
// closed it as idle while the client took it for another request. It looks at HTTP/1
// alone: other protocols say goodbye before they close, which looks the same.
type keepaliveRace struct {
	pending  map[uint64]capture.Span // by connection
	order    recent[uint64]
	reused   uint64
	hits     uint64
	inbound  bool
	server   netip.AddrPort
	peers    peers
	evidence evidence
}

func newKeepaliveRace() Rule {
	return &keepaliveRace{pending: map[uint64]capture.Span{}, order: newRecent[uint64](maxRacers), peers: newPeers()}
}

func (*keepaliveRace) ID() string { return "keepalive-race" }

func (k *keepaliveRace) Exchange(x *capture.Exchange) {
	if x.Protocol != capture.HTTP || x.Index == 0 {
		return
	}
	k.reused++
	if x.Response.First.Seen() {
		return
	}
	if old, full := k.order.replace(x.Conn.ID); full {
		delete(k.pending, old)
	}
	k.pending[x.Conn.ID] = x.Request
}

func (k *keepaliveRace) Conn(c *capture.Conn) {
	q, ok := k.pending[c.ID]
	if !ok {
		return
	}
	delete(k.pending, c.ID)
	if !c.Closed.Seen() || c.ClosedBy != capture.Server {
		return
	}
	// At the client the end comes within a round trip after the question was sent, at the
	// server within one before it arrives.
	early := q.First.Time.Sub(c.Closed.Time)
	late := c.Closed.Time.Sub(q.Last.Time)
	if within := c.RTT + raceSlack; early > within || late > within {
		return
	}
	k.hits++
	k.inbound = inbound(c)
	k.server = c.Addr[capture.Server]
	k.evidence.add(q.First.Packet, c.Closed.Packet)
}

func (k *keepaliveRace) Request(r *attribution.Request) { k.peers.learn(r) }

func (k *keepaliveRace) Findings(s Scene) []Finding {
	if k.hits == 0 {
		return nil
	}
	fix := "Let the client drop idle connections before the server at " + k.peers.of(k.server) + " does (a shorter idle timeout in the pool), and try idempotent requests again."
	if k.inbound || k.peers.serves(k.server) {
		fix = "Let the service keep idle connections longer than the balancer or proxy before it (AWS ALB: more than 60 s; NGINX: more than its keepalive_timeout for upstreams)."
	}
	return []Finding{{
		ID: k.ID(), Severity: High, Evidence: k.evidence.sorted(),
		Title: fmt.Sprintf("%d of %s on reused connections crossed with the server (%s) closing them, and failed.",
			k.hits, count(k.reused, "request", "requests"), k.peers.of(k.server)),
		Fix: fix, Reference: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
	}}
}
