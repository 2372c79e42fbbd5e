package trap

import (
	"cmp"
	"net/netip"
	"slices"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// connectionsPerRequest is what a pool stays far below, and who has none exceeds.
	connectionsPerRequest = 0.5
	// fewConnections are a pool that is filled, or one that is emptied.
	fewConnections = 5
	// shortLived connections carried so many requests at most.
	shortLived = 2
	// maxProbes bounds the connections of health checks that are known as such.
	maxProbes = 8192
)

// reuse counts how connections are used again, by server: how many of them were opened,
// carried hardly anything, and were closed. A pool that fills up opens many, too, but
// keeps them.
type reuse struct {
	servers table[netip.AddrPort, served]
	peers   peers
}

type served struct {
	inbound         bool // as the capture says
	short, requests uint64
	charge          charge
	evidence        evidence
}

func newReuse() reuse {
	return reuse{servers: newTable[netip.AddrPort, served](maxPeers), peers: newPeers()}
}

// conn counts a connection that carried so many requests.
func (u *reuse) conn(c *capture.Conn, requests uint64) {
	if requests == 0 {
		return
	}
	row := u.servers.at(c.Addr[capture.Server])
	if row == nil {
		return
	}
	row.inbound = row.inbound || inbound(c)
	row.requests += requests
	if connected(c) && c.Closed.Seen() && requests <= shortLived {
		row.short++
		row.evidence.add(c.SYNs[0].Packet)
	}
}

// request charges a request the slices of one cause to the servers that it called.
func (u *reuse) request(r *attribution.Request, cause attribution.Cause) {
	u.peers.learn(r)
	for _, s := range r.Slices {
		if s.Cause != cause || s.Link < 0 || s.Link >= len(r.Links) {
			continue
		}
		if row := u.servers.at(r.Links[s.Link].Exchange.Server()); row != nil {
			row.charge.add(s.To.Sub(s.From), 1)
		}
	}
}

// wasteful are the servers whose connections are not used again, the worst first, and
// what they cost together.
func (u *reuse) wasteful(inbound bool) (list []netip.AddrPort, sum served) {
	for who, row := range u.servers.rows {
		if (row.inbound || u.peers.serves(who)) != inbound || row.short < fewConnections || float64(row.short) <= connectionsPerRequest*float64(row.requests) {
			continue
		}
		list = append(list, who)
	}
	slices.SortFunc(list, func(a, b netip.AddrPort) int {
		if c := cmp.Compare(u.servers.rows[b].short, u.servers.rows[a].short); c != 0 {
			return c
		}
		return a.Compare(b)
	})
	for _, who := range list {
		row := u.servers.rows[who]
		sum.short += row.short
		sum.requests += row.requests
		sum.charge.merge(row.charge)
		sum.evidence.add(row.evidence...)
	}
	return list, sum
}

// named writes servers: the worst one and how many others.
func (u *reuse) named(list []netip.AddrPort) string {
	name := u.peers.of(list[0])
	var others []string
	for _, who := range list[1:] {
		if other := u.peers.of(who); other != name && !slices.Contains(others, other) && len(others) < maxPeers {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return name
	}
	return name + " and " + count(uint64(len(others)), "other", "others")
}
