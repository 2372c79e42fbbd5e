package membership

import (
	"cmp"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	// labelMultiCluster marks the slices that are about a service of several clusters.
	labelMultiCluster = "multicluster.kubernetes.io/service-name"
	// labelDraining takes a pod out of istiod's endpoints when it is not empty.
	labelDraining = "istio.io/draining"
)

// endpointKey identifies an endpoint across slices.
type endpointKey struct {
	pod     string
	address netip.Addr
}

// endpoint is what the slices say of one key.
type endpoint struct {
	pod     *Pod
	address netip.Addr
	written string // the address as the cluster writes it
	// targets are by port; shared by the endpoints of a slice.
	targets []uint32
	ready   bool
}

// gather brings together what the slices of one service say.
type gather struct {
	in    Input
	ports []Port

	endpoints []endpoint
	found     map[endpointKey]int // index in endpoints
	unknown   map[string]struct{} // names of pods
}

func countEndpoints(all []*discoveryv1.EndpointSlice) int {
	n := 0
	for _, slice := range all {
		n += len(slice.Endpoints)
	}
	return n
}

// newestFirst sorts a copy of the list. Where slices contradict each other, because
// an endpoint is on its way from one to another, the newer one is believed.
func newestFirst(all []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(slices.Values(all), func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// add takes in one slice. It is called with newer slices first.
func (g *gather) add(slice *discoveryv1.EndpointSlice) *Refusal {
	if slice.AddressType == discoveryv1.AddressTypeFQDN || slice.Labels[labelMultiCluster] != "" {
		return nil // istiod takes no endpoints from them
	}
	targets := targetPorts(slice, g.ports)
	if targets == nil {
		return nil
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		if !refersToPod(e, g.in.Service.Namespace) {
			if ready {
				// It would be left with a weight next to nothing, and istiod may take it for
				// some pod of the same address.
				return refuse(ReasonNotPods,
					"service %s has an endpoint that is no pod of its namespace: %v in EndpointSlice %s; take it out, or name a service of pods only",
					fullName(g.in.Service), e.Addresses, slice.Name)
			}
			continue
		}
		pod := g.in.Pod(e.TargetRef.Name)
		if pod == nil {
			if ready {
				g.missing(e.TargetRef.Name)
			}
			continue
		}
		for _, address := range g.addresses(slice, e, pod) {
			g.put(pod, address, targets, ready)
		}
	}
	return nil
}

func refersToPod(e *discoveryv1.Endpoint, namespace string) bool {
	return e.TargetRef != nil && e.TargetRef.Kind == "Pod" && e.TargetRef.Namespace == namespace
}

func (g *gather) missing(pod string) {
	if g.unknown == nil {
		g.unknown = make(map[string]struct{})
	}
	g.unknown[pod] = struct{}{}
}

// addresses are those under which istiod knows an endpoint of a slice. With its dual
// stack on, a pod of a service that both have two families is one endpoint, made
// from its IPv4 slice and known by the pod's first address, of whichever family.
func (g *gather) addresses(slice *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint, pod *Pod) []string {
	if !g.in.DualStack || len(pod.IPs) < 2 || len(g.in.Service.Spec.ClusterIPs) < 2 {
		return e.Addresses
	}
	if slice.AddressType == discoveryv1.AddressTypeIPv6 {
		return nil
	}
	return pod.IPs[:1]
}

// put records one endpoint of a slice. One that any slice calls not ready is not
// ready: to be served a moment later does less harm than to be served while down.
func (g *gather) put(pod *Pod, written string, targets []uint32, ready bool) {
	address, err := netip.ParseAddr(written)
	if err != nil {
		return // istiod leaves out what is no IP address
	}
	key := endpointKey{pod.Name, address}
	i, known := g.found[key]
	if !known {
		g.found[key] = len(g.endpoints)
		g.endpoints = append(g.endpoints, endpoint{pod, address, written, targets, ready})
		return
	}
	seen := &g.endpoints[i]
	seen.ready = seen.ready && ready
	seen.targets = fill(seen.targets, targets)
}

// fill returns newer with those ports from older that newer does not have.
func fill(newer, older []uint32) []uint32 {
	var filled []uint32
	for i, port := range older {
		if port == 0 || newer[i] != 0 {
			continue
		}
		if filled == nil {
			filled = slices.Clone(newer)
		}
		filled[i] = port
	}
	if filled == nil {
		return newer
	}
	return filled
}

// targetPorts are the ports of a slice for each of the service's ports to be
// balanced, found by name; 0 where the slice has none, nil when it has none at all.
// Pods whose named target ports differ are in different slices.
func targetPorts(slice *discoveryv1.EndpointSlice, ports []Port) []uint32 {
	targets := make([]uint32, len(ports))
	some := false
	for i, port := range ports {
		for _, p := range slice.Ports {
			if p.Port == nil || *p.Port < 1 || *p.Port > 65535 {
				continue
			}
			if p.Name == nil && port.Name == "" || p.Name != nil && *p.Name == port.Name {
				targets[i], some = uint32(*p.Port), true
				break
			}
		}
	}
	if !some {
		return nil
	}
	return targets
}

// members are the ready endpoints, in order.
func (g *gather) members() []Member {
	slices.SortFunc(g.endpoints, func(a, b endpoint) int {
		return cmp.Or(cmp.Compare(a.pod.Name, b.pod.Name), a.address.Compare(b.address))
	})
	taken := make(map[netip.Addr][][]uint32, len(g.endpoints))
	members := make([]Member, 0, len(g.endpoints))
	for _, e := range g.endpoints {
		if !e.ready || e.pod.Labels[labelDraining] != "" {
			continue
		}
		targets := without(e.targets, taken[e.address])
		if targets == nil {
			continue
		}
		taken[e.address] = append(taken[e.address], targets)
		members = append(members, Member{
			Pod:         e.pod,
			Address:     e.written,
			TargetPorts: targets,
			Locality:    podLocality(e.pod, g.in.Locality),
			Network:     cmp.Or(e.pod.Labels[labelNetwork], g.in.Network),
		})
	}
	return members
}

// without returns the target ports that are not taken by other pods of the same
// address; nil when none is left. Pods on the network of one node share an address,
// and an address may be listed a moment longer for the pod that had it before.
func without(targets []uint32, taken [][]uint32) []uint32 {
	if len(taken) == 0 {
		return targets
	}
	left, some := slices.Clone(targets), false
	for i := range left {
		if slices.ContainsFunc(taken, func(t []uint32) bool { return t[i] == left[i] }) {
			left[i] = 0
		}
		some = some || left[i] != 0
	}
	if !some {
		return nil
	}
	return left
}
