package trap

import (
	"fmt"
	"net/netip"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// maxPeers bounds the addresses that a rule tells apart.
const maxPeers = 4096

// peers knows addresses by the names that people give them, and where the captured
// service answers: connections say it themselves only in captures that tell directions.
type peers struct {
	names    table[netip.AddrPort, string]
	services table[netip.AddrPort, struct{}]
	newest   netip.AddrPort // of services
	named    netip.AddrPort // the last that was given a name
}

func newPeers() peers {
	return peers{names: newTable[netip.AddrPort, string](maxPeers), services: newTable[netip.AddrPort, struct{}](maxPeers)}
}

// learn takes the names of those that were called on a new connection: of those that
// matter to rules about connections, at hardly any cost to all others.
func (p *peers) learn(r *attribution.Request) {
	if own := r.Server(); own != p.newest {
		p.services.at(own)
		p.newest = own
	}
	for i := range r.Links {
		if x := r.Links[i].Exchange; x.Index == 0 {
			p.name(x.Server(), r.Links[i].Peer)
		}
	}
}

func (p *peers) name(addr netip.AddrPort, name string) {
	if name == "" || addr == p.named || p.names.rows[addr] != nil {
		return
	}
	if row := p.names.at(addr); row != nil {
		*row = name
		p.named = addr
	}
}

// of is the name of an address, or the address.
func (p *peers) of(addr netip.AddrPort) string {
	if name := p.names.rows[addr]; name != nil {
		return plain(*name)
	}
	return addr.String()
}

// withName is an address with its name, where one of several behind the name is meant.
func (p *peers) withName(addr netip.AddrPort) string {
	if name := p.of(addr); name != addr.String() {
		return fmt.Sprintf("%s (%s)", addr, name)
	}
	return addr.String()
}

// serves says whether the captured service answers at an address.
func (p *peers) serves(addr netip.AddrPort) bool { return p.services.rows[addr] != nil }

// metadataAddrs are where metadata services answer.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("169.254.170.2"),
	netip.MustParseAddr("169.254.170.23"), netip.MustParseAddr("fd00:ec2::23"),
}

func isMetadata(addr netip.Addr) bool {
	for _, a := range metadataAddrs {
		if a == addr {
			return true
		}
	}
	return false
}

// shared is RFC 6598's address space, which carriers and some clusters use inside.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// isOutside says whether an address is reached through address translation.
func isOutside(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !shared.Contains(addr)
}

// inbound says whether others opened the connection to the captured machine.
func inbound(c *capture.Conn) bool { return c.Local[capture.Server] && !c.Local[capture.Client] }

// connected says whether the handshake was seen, and succeeded.
func connected(c *capture.Conn) bool { return len(c.SYNs) > 0 && c.SYNACK.Seen() }

// ignored says whether the server never answered the SYN, which was sent again: one
// alone may be the capture's last packet.
func ignored(c *capture.Conn) bool {
	return len(c.SYNs) > 1 && !c.SYNACK.Seen() && !refused(c) &&
		c.SYNs[len(c.SYNs)-1].Time.Sub(c.SYNs[0].Time) >= synAgainLeast
}

// refused says whether the server answered the SYN with a reset.
func refused(c *capture.Conn) bool {
	return len(c.SYNs) > 0 && !c.SYNACK.Seen() && c.Reset && c.ClosedBy == capture.Server
}

// synPackets are the packets of a handshake's SYNs.
func synPackets(c *capture.Conn) []uint64 {
	var p []uint64
	for _, m := range c.SYNs {
		p = append(p, m.Packet)
	}
	return p
}
