// Package proxy runs the client side of the experiment: real Envoys, one worker
// each, as the sidecars of that many clients would be.
//
// Requests come in over HTTP/1.1 at each of [Group.Addresses]. The Host header
// names the [Arm], and so the cluster whose policy chooses the endpoint; which
// endpoints there are and their weights come from an EDS server. Where
// [Config].ADS is set, whole clusters come from a control plane such as istiod.
// Start with [Start]; bootstrap is what each Envoy is configured with.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/model"
)

const (
	// atOnce bounds how many Envoys start at the same time: each keeps a core
	// busy for a while, and all at once would reach their deadlines.
	atOnce = 4
	// startDeadline is far above what a start takes, 0.2 s on an idle machine.
	startDeadline = 30 * time.Second
	// endpointsDeadline is far above what an EDS server takes to push.
	endpointsDeadline = 10 * time.Second
	// stopGrace is more than enough for an Envoy without drain time.
	stopGrace = 2 * time.Second
)

// Policy is how an Envoy chooses among the endpoints of a cluster.
type Policy int

const (
	// LeastRequest is Envoy's with default settings, which is Istio's default: of
	// two random endpoints the one with fewer active requests; with unequal
	// weights, weighted round robin with weights divided by active requests + 1.
	LeastRequest Policy = iota
	// RoundRobin takes weights into account, active requests not.
	RoundRobin
)

func (p Policy) lbPolicy() clusterv3.Cluster_LbPolicy {
	if p == RoundRobin {
		return clusterv3.Cluster_ROUND_ROBIN
	}
	return clusterv3.Cluster_LEAST_REQUEST
}

// Arm is one way to balance.
type Arm struct {
	// Name is the Host header that chooses the arm.
	Name string
	// Policy is ignored with ADS, where the server decides.
	Policy Policy
	// Cluster is what the server calls the arm; Name when empty.
	Cluster string
}

func (a Arm) cluster() string { return cmp.Or(a.Cluster, a.Name) }

// Config says what to start.
type Config struct {
	// Binary is the path of the Envoy executable; see process.Lookup.
	Binary string
	// Count is the number of Envoys, at least 1.
	Count int
	// EDS is the address of the EDS server, an IP address and a port.
	EDS string
	// ADS takes clusters too from that server, all over one aggregated stream.
	ADS bool
	// Node says who the i-th Envoy is to the server; lab-01 and so on when nil.
	Node func(i int) *corev3.Node
	// Arms have different names; there is at least one.
	Arms []Arm
	// Dir is a folder for configurations and logs, used by nobody else.
	Dir string
}

// check says what would be right.
func (c Config) check() (eds netip.AddrPort, err error) {
	if c.Count < 1 {
		return eds, fmt.Errorf("%d proxies: at least 1 is needed", c.Count)
	}
	if len(c.Arms) == 0 {
		return eds, errors.New("no arms: at least 1 is needed")
	}
	names, clusters := map[string]bool{}, map[string]bool{controlPlane: true}
	for _, arm := range c.Arms {
		if arm.Name == "" || names[arm.Name] {
			return eds, fmt.Errorf("arm %q: names must differ and not be empty", arm.Name)
		}
		if clusters[arm.cluster()] {
			return eds, fmt.Errorf("arm %q: clusters must differ, and %q is taken", arm.Name, arm.cluster())
		}
		names[arm.Name], clusters[arm.cluster()] = true, true
	}
	if eds, err = netip.ParseAddrPort(c.EDS); err != nil {
		return eds, fmt.Errorf("EDS server %q: want an IP address and a port: %w", c.EDS, err)
	}
	return eds, nil
}

// Group is a set of running Envoys.
type Group struct {
	envoys []*envoy
}

// Start runs the Envoys and returns once all of them listen. Endpoints may come
// later; see [Group.AwaitEndpoints].
func Start(ctx context.Context, config Config) (*Group, error) {
	eds, err := config.check()
	if err != nil {
		return nil, err
	}
	if config.Node == nil {
		config.Node = func(i int) *corev3.Node {
			return &corev3.Node{Id: fmt.Sprintf("lab-%02d", i+1), Cluster: "lab"}
		}
	}
	g := &Group{envoys: make([]*envoy, config.Count)}
	starting, startCtx := errgroup.WithContext(ctx)
	starting.SetLimit(atOnce)
	for i := range g.envoys {
		starting.Go(func() (err error) {
			dir := filepath.Join(config.Dir, fmt.Sprintf("envoy-%02d", i+1))
			g.envoys[i], err = startEnvoy(startCtx, config.Node(i), eds, config, dir)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Addresses are the host:port that each Envoy takes requests at.
func (g *Group) Addresses() []string {
	addresses := make([]string, len(g.envoys))
	for i, e := range g.envoys {
		addresses[i] = e.listener
	}
	return addresses
}

// Admins are the base URLs of the admin interfaces, in the order of Addresses.
func (g *Group) Admins() []string {
	admins := make([]string, len(g.envoys))
	for i, e := range g.envoys {
		admins[i] = e.admin
	}
	return admins
}

// Version is what the Envoys say of themselves, such as "1.40.0".
func (g *Group) Version() string { return g.envoys[0].version }

// AwaitEndpoints returns when each Envoy has n endpoints in the cluster, and
// fails when that takes too long or an Envoy dies.
func (g *Group) AwaitEndpoints(ctx context.Context, cluster string, n int) error {
	for _, e := range g.envoys {
		if err := e.awaitEndpoints(ctx, cluster, n); err != nil {
			return err
		}
	}
	return nil
}

// Weights are those that each Envoy balances by now, in the order of Addresses.
// A cluster that has no endpoints yet has empty weights.
func (g *Group) Weights(ctx context.Context, cluster string) ([]model.Weights, error) {
	weights := make([]model.Weights, len(g.envoys))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	for i, e := range g.envoys {
		asking.Go(func() (err error) {
			weights[i], err = e.weights(ctx, cluster)
			return err
		})
	}
	return weights, asking.Wait()
}

// Err is not nil once an Envoy has died, and says why.
func (g *Group) Err() error {
	for _, e := range g.envoys {
		if err := e.process.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the Envoys. It returns once they have ended, and may be called
// more than once.
func (g *Group) Close() error {
	var stopping sync.WaitGroup
	for _, e := range slices.Clone(g.envoys) {
		if e != nil {
			stopping.Go(func() { e.process.Stop(stopGrace) })
		}
	}
	stopping.Wait()
	return nil
}
