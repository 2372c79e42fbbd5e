package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/proxy"
)

// Envoys says which clients of the mesh to start.
type Envoys struct {
	// Name tells groups of Envoys of one istiod apart; client when empty.
	Name string
	// Namespace is that of the clients' pods.
	Namespace string
	// Count is their number, at least 1.
	Count int
	// Arms are what they send requests to: see [Outbound].
	Arms []proxy.Arm
	// Locality is where they are; unknown when nil.
	Locality *corev3.Locality
}

// Outbound is the way to a port of a service: requests with the Host header
// SERVICE.NAMESPACE take it. It has no retries, where a sidecar would have two.
func Outbound(namespace, service string, port int) proxy.Arm {
	return proxy.Arm{
		Name:    service + "." + namespace,
		Cluster: fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", port, service, namespace),
	}
}

// StartEnvoys runs Envoys as sidecars of clients, and returns when they listen.
// Endpoints may come later. The cluster's Close ends them, if nobody has before.
func (i *Istiod) StartEnvoys(ctx context.Context, e Envoys) (*proxy.Group, error) {
	envoy, err := process.Lookup("envoy", lookupHint)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(e.Name, "client")
	dir := filepath.Join(i.cluster.dir, i.name+"."+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("a folder for the Envoys %q of %s, each group needs a name: %w", name, i.name, err)
	}
	group, err := proxy.Start(ctx, proxy.Config{
		Binary: envoy,
		Count:  e.Count,
		EDS:    i.XDS,
		ADS:    true,
		Arms:   e.Arms,
		Node:   func(n int) *corev3.Node { return e.node(name, n) },
		Dir:    dir,
	})
	if err != nil {
		return nil, err
	}
	i.cluster.watch(group.Err, func() { group.Close() })
	return group, nil
}

// firstClient is the address of the first client; those of others follow. None of
// them is in use: to istiod an address is a sidecar's name.
var firstClient = netip.MustParseAddr("10.9.240.1")

// node is who a sidecar says it is: type, address, pod and domain.
func (e Envoys) node(name string, n int) *corev3.Node {
	address := firstClient.As4()
	address[2] += byte(n / 250)
	address[3] += byte(n % 250)
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~%s-%d.%s~%s.svc.cluster.local",
			netip.AddrFrom4(address), name, n, e.Namespace, e.Namespace),
		Cluster:  name + "." + e.Namespace,
		Locality: e.Locality,
	}
}
