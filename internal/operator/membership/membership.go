// Package membership finds out which endpoints a Service has, as istiod sees
// them: EndpointSlices, pods and the localities of nodes go in, [Membership]
// comes out.
//
// Start with [Resolve], which is pure and says the same as istiod's registry of
// Kubernetes services: an entry's endpoint replaces the one that istiod knows only
// where address, port and locality are the same to the letter. Services that
// cannot be balanced are refused with a [Refusal] that says why.
//
// [PodIndex] and [NodeIndex] follow the cluster for it. They keep little of each
// object, because a cluster has many: see [Pod].
package membership

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Membership is who is behind a service now.
type Membership struct {
	// Ports are those to be balanced, in the service's order.
	Ports []Port
	// Members are sorted by the pod's name, then by address. No two of them have the
	// same address and target port for one port.
	Members []Member
	// Unknown counts the ready pods that were left out because nothing is known of
	// them yet. istiod leaves them out as well. They join when their pod is seen.
	Unknown int
}

// Port is a port of the service that is to be balanced.
type Port struct {
	// Name is empty for the only port of a service that did not name it.
	Name string
	// Protocol is in Istio's words: HTTP, HTTP2, GRPC, GRPC-Web, or for a port that
	// was asked for by name also TCP, TLS, HTTPS, Mongo, Redis, MySQL, HTTP_PROXY;
	// empty when Istio finds out from the bytes.
	Protocol string
	Number   uint32
}

// Member is an address at which a pod takes requests.
//
// A pod is one member; but two, with the same pod, when service and pod have both
// IP families and istiod's dual stack is off, which is its default: Envoy then
// balances over two endpoints. Both may be given the pod's whole samples: shares
// come out right, since that doubles the service's load and its capacity alike.
type Member struct {
	Pod *Pod
	// Address is the IP address under which istiod knows the endpoint: the pod's first
	// address where istiod joins both families, else that of the slice.
	Address string
	// TargetPorts are the pod's port for each of Membership.Ports; 0 where the pod
	// does not serve that port. They are shared between members and must not be
	// changed.
	TargetPorts []uint32
	// Locality is region/zone/subzone in the form that istiod gives it; empty when
	// neither pod nor node says.
	Locality string
	// Network is the pod's network in a mesh of several; empty otherwise.
	Network string
}

// Input is what the cluster says about one service. Nothing of it is changed.
type Input struct {
	Service *corev1.Service
	// Slices are the EndpointSlices of the service, of both families, in any order.
	Slices []*discoveryv1.EndpointSlice
	// Pod returns the pod of that name in the service's namespace; nil when unknown.
	Pod func(name string) *Pod
	// Locality returns the locality of a node, region/zone/subzone; empty when
	// unknown.
	Locality func(node string) string
	// Ports are the names asked for; empty for all HTTP and gRPC ports.
	Ports []string

	// DualStack tells that istiod runs with ISTIO_DUAL_STACK=true.
	DualStack bool
	// Network is the network of pods that are not labelled with theirs: the label
	// topology.istio.io/network of the namespace that istiod runs in. Networks that
	// are given by address in meshNetworks are not known here.
	Network string
}

// Resolve tells who is behind a service, and through which ports. Its errors are
// of type *[Refusal]. Equal inputs, in whatever order the slices are, give equal
// answers.
//
// It follows istiod's pilot/pkg/serviceregistry/kube/controller/endpointslice.go.
// Ready endpoints are members, and only those: publishNotReadyAddresses makes all
// of them ready, in the slice already; those that terminate are not ready.
func Resolve(in Input) (Membership, error) {
	if refusal := refuseService(in.Service); refusal != nil {
		return Membership{}, refusal
	}
	ports, refusal := choosePorts(in.Service, in.Ports)
	if refusal != nil {
		return Membership{}, refusal
	}
	g := gather{in: in, ports: ports, found: make(map[endpointKey]int, countEndpoints(in.Slices))}
	for _, slice := range newestFirst(in.Slices) {
		if refusal := g.add(slice); refusal != nil {
			return Membership{}, refusal
		}
	}
	members := g.members()
	if refusal := refuseSize(in.Service, ports, members); refusal != nil {
		return Membership{}, refusal
	}
	return Membership{Ports: ports, Members: members, Unknown: len(g.unknown)}, nil
}
