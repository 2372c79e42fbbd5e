package trap

import (
	"fmt"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// fewRaces can be packets that were lost as others are.
const fewRaces = 2

// dnsConntrack sees that the kernel drops one of two questions that leave a port at the
// same time: both make an entry for the connection, and the second one loses.
type dnsConntrack struct {
	pairs    lookupPairs
	queries  uint64
	races    uint64
	raced    recent[uint64]
	charge   charge
	evidence evidence
}

func newDNSConntrack() Rule { return &dnsConntrack{raced: newRecent[uint64](maxRepeats)} }

func (*dnsConntrack) ID() string { return "dns-conntrack-race" }

func (d *dnsConntrack) Exchange(x *capture.Exchange) {
	if !isLookup(x) {
		return
	}
	d.queries++
	if d.pairs.raced(x) {
		d.races++
		d.raced.add(x.Request.First.Packet)
		d.evidence.add(x.Request.First.Packet, x.DNS.Resent[0].Packet)
	}
	d.pairs.add(x)
}

func (d *dnsConntrack) Request(r *attribution.Request) {
	if d.races == 0 {
		return
	}
	d.charge.add(spent(r, func(l *attribution.Link) bool {
		return l.Cause == attribution.DNS && d.raced.has(l.Exchange.Request.First.Packet)
	}, attribution.DNS))
}

func (d *dnsConntrack) Findings(s Scene) []Finding {
	if d.races < fewRaces {
		return nil
	}
	d.charge.longest = max(d.charge.longest, resendAfter)
	return []Finding{{
		ID: d.ID(), Severity: d.charge.severity(s), Cost: d.charge.cost(s), Evidence: d.evidence.sorted(),
		Title: fmt.Sprintf("%d of %d look-ups lost their packet to their twin (A and AAAA from one port) and were asked again after 5 s; %s.",
			d.races, d.queries, d.charge.atCost(s)),
		Fix:       "Run node-local DNS, or set the resolver option single-request-reopen, or use a kernel of 5.0 or later.",
		Reference: "https://github.com/kubernetes/kubernetes/issues/56903",
	}}
}
