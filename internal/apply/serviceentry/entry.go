package serviceentry

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Entry is what one generated ServiceEntry says: the endpoints of one port of one
// service, with their weights.
type Entry struct {
	// Namespace and Service name the Kubernetes Service.
	Namespace, Service string
	// Host is the service's name in the mesh, such as fib.demo.svc.cluster.local.
	Host string
	Port Port
	// Owner is the policy: the entry goes when it goes.
	Owner metav1.OwnerReference
	// Endpoints are in the order in which they are written.
	Endpoints []Endpoint
}

// Port is a port of the service.
type Port struct {
	// Name is the port's name in the Service. A port without one cannot be written:
	// Istio wants a name in an entry, and matches endpoints to ports by it.
	Name string
	// Protocol is what Istio takes the port to speak: HTTP, HTTP2, GRPC, …
	Protocol string
	Number   uint32
}

// Endpoint is one pod behind the port. Istio takes nothing of it from the pod: what
// is not copied here is lost for subsets, locality failover and mutual TLS.
type Endpoint struct {
	// Address is the IP address under which istiod itself knows the pod.
	Address    string
	TargetPort uint32
	// Weight is at least 1.
	Weight uint32
	// Locality is region/zone/subzone, in the very form in which istiod writes it;
	// empty when the node has none.
	Locality string
	// Network is the pod's network in a mesh of several; empty otherwise.
	Network        string
	ServiceAccount string
	// Node is where the pod runs: istiod makes it a label, by which traffic can be
	// kept near. Empty when unknown.
	Node string
	// Labels are those of the pod. They are not changed.
	Labels map[string]string
}

// Name is the name of the generated object. Neither a service nor a port has a dot
// in its name, so that no two of them share one; "port" is empty for a port without
// a name.
func Name(service, port string) string {
	if port == "" {
		return "taper-" + service
	}
	return "taper-" + service + "." + port
}

// Host is the name of a Kubernetes service in the mesh.
func Host(service, namespace, clusterDomain string) string {
	return service + "." + namespace + ".svc." + clusterDomain
}

// maxEndpoints is what Istio's schema allows.
const maxEndpoints = 4096

// check refuses what the API server or istiod would refuse or misread, so that the
// cause is named here.
func (e *Entry) check() error {
	switch {
	case e.Namespace == "" || e.Service == "" || e.Host == "":
		return fmt.Errorf("namespace %q, service %q or host %q is empty", e.Namespace, e.Service, e.Host)
	case e.Port.Name == "":
		return fmt.Errorf("port %d of service %s has no name, without which Istio takes no weights for it; name it in the Service", e.Port.Number, e.Service)
	case !isPort(e.Port.Number):
		return fmt.Errorf("port %q has number %d; want 1 to 65535", e.Port.Name, e.Port.Number)
	case e.Owner.UID == "" || e.Owner.Name == "":
		return errors.New("the owner has no name or no UID")
	case len(e.Endpoints) > maxEndpoints:
		return fmt.Errorf("%d endpoints; Istio allows %d in one entry: split the service", len(e.Endpoints), maxEndpoints)
	}
	seen := make(map[string]bool, len(e.Endpoints))
	for i := range e.Endpoints {
		ep := &e.Endpoints[i]
		if err := ep.check(); err != nil {
			return err
		}
		if seen[ep.Address] {
			return fmt.Errorf("endpoint %s is there twice", ep.Address)
		}
		seen[ep.Address] = true
	}
	return nil
}

func (ep *Endpoint) check() error {
	if _, err := netip.ParseAddr(ep.Address); err != nil || strings.Contains(ep.Address, "%") {
		return fmt.Errorf("endpoint %q is not an IP address", ep.Address)
	}
	if ep.Weight == 0 {
		return fmt.Errorf("endpoint %s has weight 0; want at least 1", ep.Address)
	}
	if !isPort(ep.TargetPort) {
		return fmt.Errorf("endpoint %s has target port %d; want 1 to 65535", ep.Address, ep.TargetPort)
	}
	return nil
}

func isPort(n uint32) bool { return 1 <= n && n <= 65535 }
