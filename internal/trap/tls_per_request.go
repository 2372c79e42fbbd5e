package trap

import (
	"fmt"
	"net/netip"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// tlsPerRequest sees TLS handshakes for a request or two.
type tlsPerRequest struct {
	reuse   reuse
	resumed table[netip.AddrPort, uint64]
}

func newTLSPerRequest() Rule {
	return &tlsPerRequest{reuse: newReuse(), resumed: newTable[netip.AddrPort, uint64](maxPeers)}
}

func (*tlsPerRequest) ID() string { return "tls-per-request" }

func (p *tlsPerRequest) Exchange(x *capture.Exchange) {
	if x.TLS != nil && x.TLS.Resumed && x.Op == "handshake" {
		if n := p.resumed.at(x.Server()); n != nil {
			*n++
		}
	}
}

func (p *tlsPerRequest) Conn(c *capture.Conn) {
	if c.Protocol == capture.TLS {
		p.reuse.conn(c, carried(c))
	}
}

func (p *tlsPerRequest) Request(r *attribution.Request) { p.reuse.request(r, attribution.TLS) }

func (p *tlsPerRequest) Findings(s Scene) []Finding {
	var found []Finding
	for _, in := range []bool{false, true} {
		list, sum := p.reuse.wasteful(in)
		if len(list) == 0 {
			continue
		}
		resumed := uint64(0)
		for _, who := range list {
			if n := p.resumed.rows[who]; n != nil {
				resumed += *n
			}
		}
		found = append(found, Finding{
			ID: p.ID(), Severity: sum.charge.severity(s), Cost: sum.charge.cost(s), Evidence: sum.evidence.sorted(),
			Title: fmt.Sprintf("%s for %s to %s, of which %d resumed a session; %s.",
				count(sum.short, "TLS handshake", "TLS handshakes"), count(sum.requests, "request", "requests"), p.reuse.named(list), resumed, sum.charge.onAverage(s)),
			Fix:       "Keep connections open in a pool; where that cannot be, resume sessions (session tickets shared by all replicas).",
			Reference: "https://www.rfc-editor.org/rfc/rfc8446#section-2.2",
		})
	}
	return found
}
