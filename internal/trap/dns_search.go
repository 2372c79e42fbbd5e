package trap

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// fewAmplified look-ups are those of a start, after which a cache may hold.
	fewAmplified = 3
	// wastedShare of the queries is what one name in a hundred does not reach.
	wastedShare = 0.2
	// searchWithin bounds how long a resolver goes through its search list: a few
	// queries, some of them asked again after 5 s.
	searchWithin = 10 * time.Second
	// maxMisses bounds the names without records that are kept of a client, maxSuffixes
	// the suffixes that are told apart, maxLinks the links of a request that are compared.
	maxMisses   = 64
	maxSuffixes = 16
	maxLinks    = 256
)

// dnsSearch sees that a resolver asks for a name with each domain of its search list
// before it asks for the name itself: it has fewer dots than ndots.
type dnsSearch struct {
	clients                    table[netip.Addr, misses]
	queries, wasted, amplified uint64
	suffixes                   []string
	name                       string // the first one
	names                      recent[string]
	charge                     charge
	evidence                   evidence
}

// misses are a client's newest names that do not exist.
type misses struct {
	list [maxMisses]struct {
		name string
		mark capture.Mark
	}
	n int
}

func newDNSSearch() Rule {
	return &dnsSearch{clients: newTable[netip.Addr, misses](maxClients), names: newRecent[string](maxPeers)}
}

func (*dnsSearch) ID() string { return "dns-search-amplification" }

func (d *dnsSearch) Exchange(x *capture.Exchange) {
	if !isLookup(x) || !x.Answered() {
		return
	}
	d.queries++
	switch {
	case x.Status == nameError:
		if m := d.clients.at(x.Client().Addr()); m != nil {
			slot := &m.list[m.n%maxMisses]
			slot.name, slot.mark = x.Target, x.Response.Last
			m.n++
		}
	case x.Status == 0:
		if m := d.clients.rows[x.Client().Addr()]; m != nil {
			d.match(m, x)
		}
	}
}

// match takes the names that were asked for on the way to this one.
func (d *dnsSearch) match(m *misses, x *capture.Exchange) {
	before := d.wasted
	for i := range m.list[:min(m.n, maxMisses)] {
		miss := &m.list[i]
		if !isUnder(miss.name, x.Target) || x.End().Sub(miss.mark.Time) > searchWithin {
			continue
		}
		d.wasted++
		suffix := miss.name[len(x.Target)+1:]
		if len(d.suffixes) < maxSuffixes && !slices.Contains(d.suffixes, suffix) {
			d.suffixes = append(d.suffixes, suffix)
		}
		d.evidence.add(miss.mark.Packet)
		miss.name = ""
	}
	if d.wasted == before {
		return
	}
	d.amplified++
	d.names.add(x.Target)
	if d.name == "" {
		d.name = x.Target
	}
	d.evidence.add(x.Response.Last.Packet)
}

func (d *dnsSearch) Request(r *attribution.Request) {
	links := r.Links[:min(len(r.Links), maxLinks)]
	if !slices.ContainsFunc(links, isMiss) {
		return
	}
	d.charge.add(spent(r, func(l *attribution.Link) bool {
		return isMiss(*l) && slices.ContainsFunc(links, func(base attribution.Link) bool {
			x := base.Exchange
			return base.Cause == attribution.DNS && x.Status == 0 && isUnder(l.Exchange.Target, x.Target)
		})
	}, attribution.DNS))
}

func isMiss(l attribution.Link) bool {
	return l.Cause == attribution.DNS && l.Exchange.Answered() && l.Exchange.Status == nameError
}

func (d *dnsSearch) Findings(s Scene) []Finding {
	if d.amplified < fewAmplified || float64(d.wasted) < wastedShare*float64(d.queries) {
		return nil
	}
	others := ""
	if n := uint64(len(d.names.rows)); n > 1 {
		others = " and " + count(n-1, "other name", "other names")
	}
	return []Finding{{
		ID: d.ID(), Severity: d.charge.severity(s), Cost: d.charge.cost(s), Evidence: d.evidence.sorted(),
		Title: fmt.Sprintf("Look-ups of %s%s went through %s first: %d of %d DNS queries were for nothing; %s.",
			plain(d.name), others, count(uint64(len(d.suffixes)), "search suffix", "search suffixes"), d.wasted, d.queries, d.charge.atCost(s)),
		Fix:       "Write names outside the cluster with a dot at the end, or set ndots to 2 in the pod's dnsConfig.",
		Reference: "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-dns-config",
		Confirmed: d.confirmed(s.Config),
	}}
}

func (d *dnsSearch) confirmed(c Config) string {
	r := resolver(c)
	if r == nil || r.Ndots <= dots(d.name) || len(r.Search) == 0 {
		return ""
	}
	return fmt.Sprintf("ndots is %d and %s has %s, so the %s come first", r.Ndots, plain(d.name),
		count(uint64(dots(d.name)), "dot", "dots"), count(uint64(len(r.Search)), "search domain", "search domains"))
}
