package trap

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// pinnedCalls on one connection, over pinnedTime, are more than a client makes before
	// another connection or replica would have come into play.
	pinnedCalls = 100
	pinnedTime  = time.Minute
	// maxTargets bounds the names that are told apart.
	maxTargets = 1024
)

// connectionPinning sees that all calls of HTTP/2 to a name go over one connection: it
// was balanced when it was opened, and stays with one pod of several.
type connectionPinning struct {
	targets   table[string, target]     // by the peer's name
	addresses table[string, int]        // most addresses in an answer of DNS, by name
	names     table[netip.Addr, string] // first ones that DNS said
}

// target is a peer that speaks HTTP/2.
type target struct {
	conn        uint64
	several     bool // connections
	addr        netip.AddrPort
	authority   string
	protocol    string
	calls       uint64
	first, last capture.Mark
}

func newConnectionPinning() Rule {
	return &connectionPinning{
		targets: newTable[string, target](maxTargets), addresses: newTable[string, int](maxPeers),
		names: newTable[netip.Addr, string](maxPeers),
	}
}

func (*connectionPinning) ID() string { return "connection-pinning" }

func (p *connectionPinning) Exchange(x *capture.Exchange) {
	if x.DNS == nil || len(x.DNS.Addresses) == 0 {
		return
	}
	if n := p.addresses.at(x.Target); n != nil {
		*n = max(*n, len(x.DNS.Addresses))
	}
	for _, a := range x.DNS.Addresses {
		if row := p.names.at(a); row != nil && *row == "" {
			*row = x.Target
		}
	}
}

func (p *connectionPinning) Request(r *attribution.Request) {
	for i := range r.Links {
		p.call(r.Links[i].Exchange, r.Links[i].Peer)
	}
}

func (p *connectionPinning) Orphan(o *attribution.Orphan) { p.call(o.Exchange, o.Peer) }

func (p *connectionPinning) call(x *capture.Exchange, peer string) {
	if x.Protocol != capture.GRPC && x.Protocol != capture.HTTP2 {
		return
	}
	t := p.targets.at(peer)
	if t == nil {
		return
	}
	if t.calls == 0 {
		t.conn, t.addr, t.authority, t.protocol, t.first = x.Conn.ID, x.Server(), x.Authority, x.Protocol, x.Request.First
	}
	t.calls++
	t.several = t.several || t.conn != x.Conn.ID
	t.last = x.Request.First
}

// inWords is a protocol as people write it.
func inWords(protocol string) string {
	if protocol == capture.GRPC {
		return "gRPC"
	}
	return "HTTP/2"
}

// replicas says why a name stands for several pods: DNS lists them, or it is a service's
// name, which stands for all of them. Of anything else there may be one.
func (p *connectionPinning) replicas(t *target) string {
	name := hostOf(t.authority)
	if said := p.names.rows[t.addr.Addr()]; said != nil {
		name = *said
	}
	if n := p.addresses.rows[name]; n != nil && *n > 1 {
		return fmt.Sprintf("though DNS lists %d addresses", *n)
	}
	if strings.Contains(name+".", ".svc.") {
		return "so that one pod of the service gets all of them"
	}
	return ""
}

func (p *connectionPinning) Findings(Scene) []Finding {
	var found []Finding
	for peer, t := range p.targets.rows {
		lasted := t.last.Time.Sub(t.first.Time)
		why := p.replicas(t)
		if t.several || t.calls < pinnedCalls || lasted < pinnedTime || why == "" {
			continue
		}
		found = append(found, Finding{
			ID: p.ID(), Severity: Low, Evidence: evidence{t.first.Packet, t.last.Packet},
			Title: fmt.Sprintf("All %d %s calls to %s in %s went over one connection to %s, %s.",
				t.calls, inWords(t.protocol), plain(peer), span(lasted), t.addr, why),
			Fix:       "Balance per request: client-side round robin over a headless service's addresses, or a proxy that understands HTTP/2; or end connections from time to time (MAX_CONNECTION_AGE).",
			Reference: "https://kubernetes.io/blog/2018/11/07/grpc-load-balancing-on-kubernetes-without-tears/",
		})
	}
	return inOrder(found)
}
