package membership

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of a [Refusal].
const (
	// ReasonExternalName is a service that is only an alias.
	ReasonExternalName = "ExternalName"
	// ReasonHeadless is a service whose clients choose the pod themselves.
	ReasonHeadless = "Headless"
	// ReasonNoSelector is a service whose endpoints nobody knows to be pods.
	ReasonNoSelector = "NoSelector"
	// ReasonNodeLocal is a service whose clients reach only pods of their own node.
	ReasonNodeLocal = "NodeLocal"
	// ReasonNoPorts is a service none of whose ports is known to carry HTTP or gRPC.
	ReasonNoPorts = "NoPorts"
	// ReasonUnnamedPort is a port without a name, which no ServiceEntry can have.
	ReasonUnnamedPort = "UnnamedPort"
	// ReasonUnknownPort is a port that was asked for and that the service has not.
	ReasonUnknownPort = "UnknownPort"
	// ReasonNotTCP is a port that was asked for and that no Envoy cluster serves.
	ReasonNotTCP = "NotTCP"
	// ReasonNotPods is a service with endpoints that are no pods.
	ReasonNotPods = "NotPods"
	// ReasonTooManyEndpoints is a service that does not fit into one ServiceEntry.
	ReasonTooManyEndpoints = "TooManyEndpoints"
)

// Refusal is an error that says why a service cannot be balanced. It lasts until
// the service, its endpoints or the policy is changed.
type Refusal struct {
	// Reason is one CamelCase word for a condition: one of the constants.
	Reason string
	// Message names what is wrong and what would be right.
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason string, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// fullName is how a service is called in messages.
func fullName(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// refuseService refuses the kinds of service that cannot be balanced.
func refuseService(s *corev1.Service) *Refusal {
	local := s.Spec.InternalTrafficPolicy
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return refuse(ReasonExternalName,
			"service %s is an alias of %s (type ExternalName) and has no endpoints; name a service of type ClusterIP", fullName(s), s.Spec.ExternalName)
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return refuse(ReasonHeadless,
			"service %s is headless (clusterIP: None), so that clients choose the pod and weights have no effect; name one with a cluster IP", fullName(s))
	case len(s.Spec.Selector) == 0:
		return refuse(ReasonNoSelector,
			"service %s has no selector, so that its endpoints are not known to be pods and cannot be measured; name one with a selector", fullName(s))
	case local != nil && *local == corev1.ServiceInternalTrafficPolicyLocal:
		// istiod gives such a client only the endpoints of its own node, and those of a
		// ServiceEntry have no node.
		return refuse(ReasonNodeLocal,
			"service %s has internalTrafficPolicy: Local, so that no client sees the weights; set it to Cluster", fullName(s))
	}
	return nil
}

const (
	// MaxMembers is how many members a service may have.
	MaxMembers = 2000
	// maxEntryBytes is how large a ServiceEntry may become: two thirds of what etcd
	// takes by default, since what is written around the endpoints is not counted.
	maxEntryBytes = 1 << 20
)

// refuseSize refuses what would not fit into one ServiceEntry.
func refuseSize(s *corev1.Service, ports []Port, members []Member) *Refusal {
	if len(members) > MaxMembers {
		return refuse(ReasonTooManyEndpoints,
			"service %s has %d endpoints; at most %d can be balanced: split the service", fullName(s), len(members), MaxMembers)
	}
	for i, port := range ports {
		if size := entryBytes(members, i); size > maxEntryBytes {
			return refuse(ReasonTooManyEndpoints,
				"the %d endpoints of service %s and their labels would take about %d KiB in the ServiceEntry of port %q; it holds at most %d KiB: split the service or give its pods fewer labels",
				len(members), fullName(s), size>>10, port.Name, maxEntryBytes>>10)
		}
	}
	return nil
}

// entryBytes estimates what the members add to the ServiceEntry of a port, as JSON.
func entryBytes(members []Member, port int) int {
	const (
		fields = 128 // names, numbers and punctuation of one endpoint
		quotes = 6   // of one label
	)
	size := 0
	for _, m := range members {
		if m.TargetPorts[port] == 0 {
			continue
		}
		size += fields + len(m.Address) + len(m.Locality) + len(m.Network) + len(m.Pod.ServiceAccount)
		for key, value := range m.Pod.Labels {
			size += quotes + len(key) + len(value)
		}
	}
	return size
}
