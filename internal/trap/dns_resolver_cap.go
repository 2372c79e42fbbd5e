package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// resolverCap is what the resolver of a VPC takes from one network interface, in
	// packets a second.
	resolverCap = 1024
	// lostShare of a second's queries is more than networks lose.
	lostShare = 0.01
	// capSeconds bounds how late a query may be known to be unanswered: look-ups are
	// given up after a minute of silence.
	capSeconds = 128
	// maxResolvers bounds the resolvers that are told apart.
	maxResolvers = 16
)

// dnsResolverCap sees a VPC's resolver asked for more than it takes, and then silent.
type dnsResolverCap struct {
	resolvers table[netip.Addr, load]
	charge    charge
}

// load is a resolver's newest seconds, and what of them was over the cap.
type load struct {
	seconds  [capSeconds]second
	over     uint64 // seconds over the cap with loss
	lost     uint64 // queries in them
	peak     uint64
	evidence evidence
}

type second struct {
	at            int64
	queries, lost uint64
	packet        uint64 // of the first lost one
}

func newDNSResolverCap() Rule {
	return &dnsResolverCap{resolvers: newTable[netip.Addr, load](maxResolvers)}
}

func (*dnsResolverCap) ID() string { return "dns-resolver-cap" }

// isVPCResolver says whether an address can be the resolver of an AWS VPC: the second
// address of its network, or the link-local ones.
func isVPCResolver(a netip.Addr) bool {
	if a.Is4() {
		b := a.As4()
		return b[3] == 2 && !a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{169, 254, 169, 253})
	}
	return a == vpcResolver6
}

var vpcResolver6 = netip.MustParseAddr("fd00:ec2::253")

func (d *dnsResolverCap) Exchange(x *capture.Exchange) {
	if x.DNS == nil || x.Conn.Transport != capture.UDP || !isVPCResolver(x.Server().Addr()) {
		return
	}
	l := d.resolvers.at(x.Server().Addr())
	if l == nil {
		return
	}
	l.add(x.Request.First, unheard(x))
	for _, again := range x.DNS.Resent {
		l.add(again, false)
	}
}

// unheard says whether a query was lost: it was asked again, or never answered.
func unheard(x *capture.Exchange) bool { return !x.Answered() || len(x.DNS.Resent) > 0 }

func (l *load) add(m capture.Mark, lost bool) {
	at := int64(m.Time) / int64(time.Second)
	s := &l.seconds[uint64(at)%capSeconds]
	if s.at != at {
		if at < s.at {
			return // known too late
		}
		l.judge(s)
		*s = second{at: at}
	}
	s.queries++
	if lost {
		s.lost++
		if s.packet == 0 || m.Packet < s.packet {
			s.packet = m.Packet
		}
	}
}

// judge takes a second that has ended.
func (l *load) judge(s *second) {
	if s.queries > resolverCap && float64(s.lost) >= lostShare*float64(s.queries) {
		l.over++
		l.lost += s.lost
		l.peak = max(l.peak, s.queries)
		l.evidence.add(s.packet)
	}
}

func (d *dnsResolverCap) Request(r *attribution.Request) {
	if len(d.resolvers.rows) == 0 {
		return
	}
	d.charge.add(waited(r, func(l *attribution.Link) bool {
		x := l.Exchange
		return l.Cause == attribution.DNS && unheard(x) && isVPCResolver(x.Server().Addr())
	}, sameName, attribution.DNS))
}

func (d *dnsResolverCap) Findings(s Scene) []Finding {
	var all []Finding
	for addr, l := range d.resolvers.rows {
		for i := range l.seconds {
			l.judge(&l.seconds[i])
			l.seconds[i] = second{}
		}
		if l.over == 0 {
			continue
		}
		all = append(all, Finding{
			// Who loses a question waits for seconds.
			ID: d.ID(), Severity: High, Cost: d.charge.cost(s), Evidence: l.evidence.sorted(),
			Title: fmt.Sprintf("The VPC's resolver %s was asked up to %d times a second, over its limit of %d for each network interface, and left %d queries unanswered in %s; %s.",
				addr, l.peak, resolverCap, l.lost, count(l.over, "second", "seconds"), d.charge.atCost(s)),
			Fix:       "Cache look-ups on the node (node-local DNS), drop needless ones (ndots), and spread DNS servers over nodes.",
			Reference: "https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html#vpc-dns-limits",
		})
	}
	return inOrder(all)
}
