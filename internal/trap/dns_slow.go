package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// slowLookup is longer than a cache on the node or in the cluster takes (1 ms), and
	// than most recursions into the internet.
	slowLookup = 100 * time.Millisecond
	// fewSlow look-ups are the first ones of names that no cache holds.
	fewSlow   = 3
	slowShare = 0.01
	// stillWaiting look-ups at the capture's end may yet be answered: resolvers wait 5 s.
	stillWaiting = 5 * time.Second
	maxWaiting   = 64
)

// dnsSlow sees resolvers that answer late, or only when they are asked again.
type dnsSlow struct {
	pairs                lookupPairs
	queries, slow, again uint64
	silent               uint64
	waiting              [maxWaiting]capture.Time // starts of the newest unanswered ones
	raced                recent[uint64]
	charge               charge
	evidence             evidence
}

func newDNSSlow() Rule { return &dnsSlow{raced: newRecent[uint64](maxRepeats)} }

func (*dnsSlow) ID() string { return "dns-slow" }

func (d *dnsSlow) Exchange(x *capture.Exchange) {
	if !isLookup(x) {
		return
	}
	d.queries++
	raced := d.pairs.raced(x)
	d.pairs.add(x)
	if raced {
		d.raced.add(x.Request.First.Packet) // is dns-conntrack-race's
		return
	}
	if !isSlow(x) {
		return
	}
	switch {
	case !x.Answered():
		d.waiting[d.silent%maxWaiting] = x.Start()
		d.silent++
	case len(x.DNS.Resent) > 0:
		d.again++
	default:
		d.slow++
	}
	d.evidence.add(x.Request.First.Packet, x.Response.Last.Packet)
}

func isSlow(x *capture.Exchange) bool {
	return !x.Answered() || x.End().Sub(x.Start()) >= slowLookup
}

func (d *dnsSlow) Request(r *attribution.Request) {
	d.charge.add(waited(r, func(l *attribution.Link) bool {
		return l.Cause == attribution.DNS && isSlow(l.Exchange) && !d.raced.has(l.Exchange.Request.First.Packet)
	}, sameName, attribution.DNS))
}

func (d *dnsSlow) Findings(s Scene) []Finding {
	silent := d.silent
	for _, start := range d.waiting[:min(d.silent, maxWaiting)] {
		if s.Stats.Last.Sub(start) < stillWaiting {
			silent--
		}
	}
	n := d.slow + d.again + silent
	if n < fewSlow || float64(n) < slowShare*float64(d.queries) {
		return nil
	}
	return []Finding{{
		ID: d.ID(), Severity: d.charge.severity(s), Cost: d.charge.cost(s), Evidence: d.evidence.sorted(),
		Title: fmt.Sprintf("%d of %d look-ups were slow: %d took %s or more, %d were answered only when asked again, %d never; %s.",
			n, d.queries, d.slow, span(slowLookup), d.again, silent, d.charge.atCost(s)),
		Fix:       "Look at the resolver's own load and at what it forwards to; give CoreDNS more replicas and CPU, or run node-local DNS.",
		Reference: "https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/",
	}}
}
