package attribution

import (
	"net/netip"
	"slices"
	"strconv"

	"taper.dev/taper/internal/capture"
)

// role is what an exchange is to the captured machine.
type role uint8

const (
	roleForeign role = iota // between two other machines
	roleRequest
	roleCall
	roleNeither // of the machine, but tells nothing: a handshake that a client began
)

// sidecar is where Istio's proxy connects from when it hands a request to the service.
var sidecar = netip.AddrFrom4([4]byte{127, 0, 0, 6})

// maxAddresses bounds the addresses and ports that roles remembers.
const maxAddresses = 1 << 16

// roles tells requests from calls.
type roles struct {
	given []netip.AddrPort
	// directed says that the capture tells which addresses are local.
	directed bool
	// seen counts how often an address asked and answered, of exchanges without a
	// direction; local are the addresses that were learned from it.
	seen  map[netip.Addr]*deeds
	local map[netip.Addr]bool
	// outside and proxied say that exchanges came from another machine, and from a
	// sidecar.
	outside, proxied bool
	// sidecars says that some came from where sidecars connect from.
	sidecars bool
	// better are the ends where something is answered in clear.
	better map[netip.AddrPort]bool
	// served are the ports on which requests were answered.
	served map[netip.Addr]map[uint16]bool
	how    string
	judged [judgedConns]judged
}

// judgedConns bounds the connections of which it is remembered what roles made of them.
const judgedConns = 256

// judged is which ends of a connection are local, as long as no more addresses are.
type judged struct {
	conn           *capture.Conn
	directions     [2]bool
	known          int // local addresses
	client, server bool
	understood     bool
}

// judgement is where what is made of an exchange's connection is remembered, and whether
// it is.
func (r *roles) judgement(x *capture.Exchange) (j *judged, made bool) {
	j = &r.judged[x.Conn.ID%judgedConns]
	return j, j.conn == x.Conn && j.directions == x.Conn.Local && j.known == len(r.local)
}

type deeds struct{ asked, answered uint64 }

func newRoles(given []netip.AddrPort) *roles {
	r := &roles{
		given: slices.Clone(given), seen: map[netip.Addr]*deeds{}, local: map[netip.Addr]bool{},
		better: map[netip.AddrPort]bool{}, served: map[netip.Addr]map[uint16]bool{},
	}
	for i, end := range r.given {
		r.given[i] = netip.AddrPortFrom(end.Addr().Unmap(), end.Port())
		r.local[r.given[i].Addr()] = true
	}
	return r
}

// observe finds out what exchanges that were noted say about the capture, before any of
// them is judged.
func (r *roles) observe(all []arrival) {
	if len(r.given) == 0 && !r.directed {
		r.learn()
	}
	if r.outside && !r.sidecars {
		return
	}
	for _, x := range all {
		client, server := r.sides(x.Exchange)
		if server && !client {
			r.outside = true
		}
		if server && client && x.Client().Addr() == sidecar {
			r.proxied = true
		}
	}
}

// note notes what an exchange says about addresses.
func (r *roles) note(x *capture.Exchange) {
	r.sidecars = r.sidecars || x.Client().Addr() == sidecar
	if j, made := r.judgement(x); made && r.directed && (j.understood || !understood(x)) {
		return
	}
	if local := x.Conn.Local; local[capture.Client] || local[capture.Server] {
		r.directed = true
		for side, is := range local {
			if a := x.Conn.Addr[side].Addr(); is && !r.local[a] && len(r.local) < maxAddresses {
				r.local[a] = true
			}
		}
	} else if len(r.given) == 0 {
		r.deeds(x.Client().Addr()).asked++
		r.deeds(x.Server().Addr()).answered++
	}
	if understood(x) && !r.better[x.Server()] && len(r.better) < maxAddresses {
		r.better[x.Server()] = true
	}
}

// deeds are those of an address. Addresses beyond the bound share one entry, which is
// never taken for local.
func (r *roles) deeds(a netip.Addr) *deeds {
	d := r.seen[a]
	if d == nil {
		if len(r.seen) >= maxAddresses {
			a = netip.Addr{}
			if d = r.seen[a]; d != nil {
				return d
			}
		}
		d = &deeds{}
		r.seen[a] = d
	}
	return d
}

// learn finds the local addresses of a capture without directions: those that both
// answer and ask. Without any, it is the one that takes part in most exchanges, and of
// two that take part in as many the one that answers.
func (r *roles) learn() {
	var hub netip.Addr
	var most deeds
	both := false
	for a, d := range r.seen {
		if !a.IsValid() || a.IsLoopback() {
			continue
		}
		if d.asked > 0 && d.answered > 0 {
			r.local[a], both = true, true
		}
		sum, best := d.asked+d.answered, most.asked+most.answered
		if sum > best || sum == best && (d.answered > most.answered || d.answered == most.answered && a.Less(hub)) {
			hub, most = a, *d
		}
	}
	switch {
	case both:
		r.how = "the capture has no directions: the address that both answers and asks was taken for the service's"
	case len(r.local) > 0, !hub.IsValid():
	default:
		r.local[hub] = true
		r.how = "the capture has no directions and no address both answers and asks: " + hub.String() +
			", which takes part in most exchanges, was taken for the service's; --service says otherwise"
	}
}

// sides says which ends of an exchange are local.
func (r *roles) sides(x *capture.Exchange) (client, server bool) {
	j, made := r.judgement(x)
	if !made {
		*j = judged{conn: x.Conn, directions: x.Conn.Local, known: len(r.local)}
		j.client = r.isLocal(x, capture.Client)
		if len(r.given) > 0 {
			j.server = r.isGiven(x.Server())
		} else {
			j.server = r.isLocal(x, capture.Server)
		}
	}
	j.understood = j.understood || understood(x)
	return j.client, j.server
}

func (r *roles) isLocal(x *capture.Exchange, side capture.Side) bool {
	a := x.Conn.Addr[side].Addr()
	return x.Conn.Local[side] || r.local[a] || a.IsLoopback()
}

func (r *roles) isGiven(s netip.AddrPort) bool {
	return slices.ContainsFunc(r.given, func(g netip.AddrPort) bool {
		return g.Addr() == s.Addr() && (g.Port() == 0 || g.Port() == s.Port())
	})
}

// of is the role of an exchange. Closed content is a request only where nothing is
// answered in clear, neither at that end nor behind a sidecar.
func (r *roles) of(x *capture.Exchange) role {
	client, server := r.sides(x)
	switch {
	case len(r.given) > 0 && server && (!client || r.loopbackIsRequest(x)), server && !client:
		return r.inbound(x)
	case server && client:
		if r.loopbackIsRequest(x) {
			return r.inbound(x)
		}
		return roleCall
	case client:
		return roleCall
	}
	return roleForeign
}

// loopbackIsRequest says whether an exchange with both ends local is a request.
func (r *roles) loopbackIsRequest(x *capture.Exchange) bool {
	if x.Client().Addr() == sidecar {
		return true
	}
	return !r.outside && !r.proxied && x.Protocol != capture.DNS
}

func (r *roles) inbound(x *capture.Exchange) role {
	if x.Protocol == capture.TLS && x.Op == "handshake" {
		return roleNeither
	}
	if !understood(x) && (r.better[x.Server()] || r.proxied && x.Client().Addr() != sidecar) {
		return roleNeither
	}
	r.serve(x.Server())
	return roleRequest
}

// understood says whether an exchange's content was understood.
func understood(x *capture.Exchange) bool {
	return x.Protocol != capture.TLS && x.Protocol != capture.Turns
}

func (r *roles) serve(s netip.AddrPort) {
	ports := r.served[s.Addr()]
	if ports == nil {
		if len(r.served) >= maxAddresses {
			return
		}
		ports = map[uint16]bool{}
		r.served[s.Addr()] = ports
	}
	if !ports[s.Port()] {
		ports[s.Port()] = true
	}
}

// pod is what an address stands for: itself when requests are answered at it, else the
// zero address, which may be any of the machine's.
func (r *roles) pod(a netip.Addr) netip.Addr {
	if a.IsLoopback() || r.served[a] == nil {
		return netip.Addr{}
	}
	return a
}

func (r *roles) services() []Service {
	var all []Service
	for a, ports := range r.served {
		s := Service{Addr: a}
		for p := range ports {
			s.Ports = append(s.Ports, p)
		}
		slices.Sort(s.Ports)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Service) int { return a.Addr.Compare(b.Addr) })
	return all
}

// recognised says in words how requests were told from calls.
func (r *roles) recognised() string {
	switch {
	case len(r.given) > 0:
		return "requests are what the " + strconv.Itoa(len(r.given)) + " given service addresses answer"
	case r.how != "":
		return r.how
	case r.proxied:
		return "requests are what the sidecar hands to the service over the loopback"
	case r.directed && r.outside:
		return "the capture says which addresses are local; requests are what those answer for others"
	case len(r.served) > 0:
		return "nothing comes from another machine: requests are what is answered on the loopback"
	}
	return "no address answers requests in this capture"
}
