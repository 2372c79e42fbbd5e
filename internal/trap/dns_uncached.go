package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// fewRepeats are what the processes of a pod ask for at its start.
	fewRepeats = 5
	// repeatShare of the look-ups, and repeatsPerRequest, are exceeded by who keeps no
	// answer, not by two processes that each keep theirs.
	repeatShare       = 0.5
	repeatsPerRequest = 0.2
	// maxNames bounds the names that are told apart, maxRepeats the repeated look-ups
	// that wait for their request.
	maxNames   = 4096
	maxRepeats = 8192
)

// dnsUncached sees that a name is asked for again while the answer still holds.
type dnsUncached struct {
	names    table[question, answers]
	asked    uint64
	repeated uint64
	repeats  recent[uint64] // by the packet of the question
	charge   charge
	evidence evidence
}

type question struct {
	client     netip.Addr
	kind, name string
}

// answers are those to one question.
type answers struct {
	until           capture.Time
	ttl             time.Duration
	asked, repeated uint64
}

func newDNSUncached() Rule {
	return &dnsUncached{names: newTable[question, answers](maxNames), repeats: newRecent[uint64](maxRepeats)}
}

func (*dnsUncached) ID() string { return "dns-uncached" }

func (d *dnsUncached) Exchange(x *capture.Exchange) {
	// A truncated answer is asked for again over TCP, as it must.
	if !isLookup(x) || !exists(x) || x.DNS.Truncated {
		return
	}
	row := d.names.at(question{x.Client().Addr(), x.DNS.Type, x.Target})
	if row == nil {
		return
	}
	d.asked++
	row.asked++
	if x.Start() < row.until {
		d.repeated++
		row.repeated++
		d.repeats.add(x.Request.First.Packet)
		d.evidence.add(x.Request.First.Packet)
		return
	}
	row.until, row.ttl = x.End().Add(x.DNS.TTL), x.DNS.TTL
}

func (d *dnsUncached) Request(r *attribution.Request) {
	if d.repeated == 0 {
		return
	}
	d.charge.add(spent(r, func(l *attribution.Link) bool {
		return l.Cause == attribution.DNS && d.repeats.has(l.Exchange.Request.First.Packet)
	}, attribution.DNS))
}

func (d *dnsUncached) Findings(s Scene) []Finding {
	if d.repeated < fewRepeats || float64(d.repeated) <= repeatShare*float64(d.asked) ||
		float64(d.repeated) <= repeatsPerRequest*float64(s.Requests) {
		return nil
	}
	var worst question
	var most answers
	for q, a := range d.names.rows {
		if a.repeated > most.repeated || a.repeated == most.repeated && q.name+q.kind < worst.name+worst.kind {
			worst, most = q, *a
		}
	}
	return []Finding{{
		ID: d.ID(), Severity: d.charge.severity(s), Cost: d.charge.cost(s), Evidence: d.evidence.sorted(),
		Title: fmt.Sprintf("%d of %d look-ups asked for what an earlier answer still held (%s %s: %s, though it lives %s); %s.",
			d.repeated, d.asked, worst.kind, plain(worst.name), count(most.asked, "time", "times"), span(most.ttl), d.charge.atCost(s)),
		Fix:       "Cache look-ups: keep connections open, run node-local DNS; on the JVM set networkaddress.cache.ttl (30 s by default).",
		Reference: "https://kubernetes.io/docs/tasks/administer-cluster/nodelocaldns/",
	}}
}
