package trap

import (
	"fmt"
	"net/netip"
	"strings"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// maxOwnNames bounds the names by which others call the service that are kept.
const maxOwnNames = 256

// hairpin sees a pod that calls its own service and is sent back to itself, where the
// network drops what comes from its own address.
type hairpin struct {
	own     table[string, struct{}]     // names and addresses by which others call the service
	names   table[netip.Addr, string]   // first ones that DNS said
	pods    table[netip.Addr, struct{}] // addresses at which the service answers
	ignored table[netip.AddrPort, silence]
}

// silence is connections to an address that nobody answered.
type silence struct {
	conns    uint64
	local    bool       // as the capture says
	client   netip.Addr // the last one
	evidence evidence
}

func newHairpin() Rule {
	return &hairpin{
		own: newTable[string, struct{}](maxOwnNames), names: newTable[netip.Addr, string](maxPeers), pods: newTable[netip.Addr, struct{}](maxOwnNames),
		ignored: newTable[netip.AddrPort, silence](maxPeers),
	}
}

func (*hairpin) ID() string { return "hairpin" }

func (h *hairpin) Exchange(x *capture.Exchange) {
	if x.DNS == nil {
		return
	}
	for _, a := range x.DNS.Addresses {
		if row := h.names.at(a); row != nil && *row == "" {
			*row = x.Target
		}
	}
}

func (h *hairpin) Conn(c *capture.Conn) {
	if c.Transport != capture.TCP || !ignored(c) {
		return
	}
	if row := h.ignored.at(c.Addr[capture.Server]); row != nil {
		row.conns++
		row.local = row.local || c.Local[capture.Client]
		row.client = c.Addr[capture.Client].Addr()
		row.evidence.add(synPackets(c)...)
	}
}

func (h *hairpin) Request(r *attribution.Request) {
	h.pods.at(r.Server().Addr())
	if r.Authority != "" {
		h.own.at(hostOf(r.Authority))
	}
}

// hostOf is an authority without its port.
func hostOf(authority string) string {
	if a, err := netip.ParseAddrPort(authority); err == nil {
		return a.Addr().String()
	}
	host, _, _ := strings.Cut(strings.ToLower(authority), ":")
	return strings.TrimSuffix(host, ".")
}

// isOwn says whether an address is that of the service itself.
func (h *hairpin) isOwn(addr netip.Addr, p *Pod) bool {
	if h.own.rows[addr.String()] != nil {
		return true
	}
	row := h.names.rows[addr]
	if row == nil {
		return false
	}
	// cart, cart.shop and cart.shop.svc are short for cart.shop.svc.cluster.local.
	name := *row
	for i := range len(name) + 1 {
		if (i == len(name) || name[i] == '.') && h.own.rows[name[:i]] != nil {
			return true
		}
	}
	// A pod of the deployment cart is cart-7d9f8b6c5d-x2x4z.
	service, rest, _ := strings.Cut(name, ".")
	return p != nil && strings.HasPrefix(p.Name, service+"-") && strings.HasPrefix(rest, p.Namespace+".svc")
}

func (h *hairpin) Findings(s Scene) []Finding {
	var found []Finding
	for addr, row := range h.ignored.rows {
		fromPod := row.local || h.pods.rows[row.client] != nil
		if !fromPod || row.client != addr.Addr() && !h.isOwn(addr.Addr(), s.Config.Pod) {
			continue
		}
		name := addr.String()
		if n := h.names.rows[addr.Addr()]; n != nil {
			name = *n
		}
		found = append(found, Finding{
			ID: h.ID(), Severity: High, Evidence: row.evidence.sorted(),
			Title: fmt.Sprintf("The pod called its own service (%s) and got no answer on %s: what is sent back to it is dropped.",
				plain(name), count(row.conns, "connection", "connections")),
			Fix:       "Turn hairpin mode on for the pod's network (kubelet --hairpin-mode=hairpin-veth, or the CNI plugin's hairpinMode), or call localhost.",
			Reference: "https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/#a-pod-fails-to-reach-itself-via-the-service-ip",
		})
	}
	return inOrder(found)
}
