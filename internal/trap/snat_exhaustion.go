package trap

import (
	"fmt"
	"net/netip"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// fewSNAT connections that nobody answers are packets that were lost.
const fewSNAT = 3

// snatExhaustion sees connections to one outside address fail now and then, while others
// to it succeed: address translation has no port left for them.
type snatExhaustion struct {
	outside table[netip.AddrPort, dialled]
	peers   peers
}

// dialled is how opening connections to one address went.
type dialled struct {
	opened, silent uint64
	packets        evidence
}

func newSNATExhaustion() Rule {
	return &snatExhaustion{outside: newTable[netip.AddrPort, dialled](maxPeers), peers: newPeers()}
}

func (*snatExhaustion) ID() string { return "snat-exhaustion" }

func (n *snatExhaustion) Conn(c *capture.Conn) {
	addr := c.Addr[capture.Server]
	if c.Transport != capture.TCP || len(c.SYNs) == 0 || inbound(c) || !isOutside(addr.Addr()) {
		return
	}
	row := n.outside.at(addr)
	switch {
	case row == nil:
	case connected(c):
		row.opened++
	case ignored(c):
		row.silent++
		row.packets.add(synPackets(c)...)
	}
}

func (n *snatExhaustion) Request(r *attribution.Request) { n.peers.learn(r) }

func (n *snatExhaustion) Findings(s Scene) []Finding {
	var found []Finding
	for addr, row := range n.outside.rows {
		// When nothing ever answers, the address is blocked or gone.
		if row.silent < fewSNAT || row.opened == 0 {
			continue
		}
		found = append(found, Finding{
			ID: n.ID(), Severity: High, Evidence: row.packets.sorted(),
			Title: fmt.Sprintf("%d of %d connections to the outside address %s got no answer to their SYN, while the others did: translation (SNAT) may have run out of ports.",
				row.silent, row.silent+row.opened, n.peers.withName(addr)),
			Fix:       "Look at the NAT's own counters (AWS: ErrorPortAllocation, Azure: SNAT connection count); keep connections in a pool, give it more addresses, or use a private endpoint.",
			Reference: "https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html",
		})
	}
	return inOrder(found)
}
