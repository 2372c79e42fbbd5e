package attribution

import (
	"net/netip"
	"strconv"
	"strings"

	"taper.dev/taper/internal/capture"
)

// maxNames bounds the addresses that are remembered with their name.
const maxNames = 1 << 16

// names are the names of addresses, as answers of DNS gave them.
type names struct {
	of map[netip.Addr]string
	// texts are addresses as text.
	texts map[written]string
}

// written is an address, and whether its port goes without saying.
type written struct {
	netip.AddrPort
	own bool
}

func newNames() *names {
	return &names{of: map[netip.Addr]string{}, texts: map[written]string{}}
}

// learn takes an answer's addresses.
func (n *names) learn(x *capture.Exchange) {
	if x.DNS == nil || x.Target == "" {
		return
	}
	for _, a := range x.DNS.Addresses {
		if _, ok := n.of[a]; !ok && len(n.of) >= maxNames {
			clear(n.of)
		}
		n.of[a] = asked(x)
	}
}

// asked is the name that a DNS exchange asked for. Its target is name and type.
func asked(x *capture.Exchange) string {
	name, _, _ := strings.Cut(x.Target, " ")
	return strings.TrimSuffix(name, ".")
}

// peer is who a call went to: the name it asked for, else the name that its address was
// found by, else the address; with the port unless it is the protocol's own.
func (n *names) peer(x *capture.Exchange) string {
	server := x.Server()
	if x.HTTP != nil && x.HTTP.Metadata != nil || x.Protocol == capture.DNS {
		return n.text(server, x.Protocol)
	}
	if host := x.Authority; host != "" {
		return authority(host, server, x.Protocol)
	}
	if name := n.of[server.Addr()]; name != "" {
		return withPort(name, server.Port(), x.Protocol)
	}
	return n.text(server, x.Protocol)
}

// authority is a Host header as a peer. Another port than the protocol's own stays with
// the name.
func authority(host string, server netip.AddrPort, protocol string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return withPort(strings.TrimSuffix(host, "."), server.Port(), protocol)
	}
	if number, err := strconv.ParseUint(host[colon+1:], 10, 16); err == nil && own(uint16(number), protocol) {
		return host[:colon]
	}
	return host
}

func (n *names) text(server netip.AddrPort, protocol string) string {
	key := written{server, own(server.Port(), protocol)}
	text, ok := n.texts[key]
	if ok {
		return text
	}
	if text = server.String(); key.own {
		text = server.Addr().String()
	}
	if len(n.texts) >= maxNames {
		clear(n.texts)
	}
	n.texts[key] = text
	return text
}

func withPort(name string, port uint16, protocol string) string {
	if own(port, protocol) {
		return name
	}
	return name + ":" + strconv.Itoa(int(port))
}

// own says whether a port is a protocol's own, so that it goes without saying.
func own(port uint16, protocol string) bool {
	switch protocol {
	case capture.HTTP, capture.HTTP2, capture.GRPC:
		return port == 80
	case capture.DNS:
		return port == 53
	case capture.TLS:
		return port == 443
	case capture.PostgreSQL:
		return port == 5432
	case capture.MySQL:
		return port == 3306
	case capture.Redis:
		return port == 6379
	}
	return false
}
