package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// istioNamespace is where istiod keeps its own objects.
const istioNamespace = "istio-system"

// plainMesh turns mutual TLS off: an Envoy without Istio's agent has no keys.
const plainMesh = "enableAutoMtls: false\n"

// IstiodConfig says what is special about an istiod.
type IstiodConfig struct {
	// Mesh is a MeshConfig in YAML; one without mutual TLS when empty.
	Mesh string
	// Env has more of the environment, as NAME=value: istiod's feature flags.
	Env []string
}

// Istiod is a running istiod. Envoys connect without TLS.
type Istiod struct {
	*Server
	// XDS is the address that Envoys ask, host:port; it serves ADS only.
	XDS string
	// DebugURL is the base of /debug/endpointz, /debug/syncz and so on.
	DebugURL string
	// MetricsURL is where istiod's own metrics are.
	MetricsURL string

	cluster *Cluster
}

// StartIstiod runs an istiod on the cluster and returns when it is ready. Istio's
// CRDs must be there: see [Cluster.InstallIstioCRDs]. It may be called more than once.
func (c *Cluster) StartIstiod(ctx context.Context, config IstiodConfig) (*Istiod, error) {
	if err := c.ensureNamespace(ctx, istioNamespace); err != nil {
		return nil, err
	}
	ports := make([]int, 3)
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	xds, debug, metrics := loopback(ports[0]), loopback(ports[1]), loopback(ports[2])
	name := c.nameIstiod()
	meshFile := filepath.Join(c.dir, name+".mesh.yaml")
	if err := os.WriteFile(meshFile, []byte(cmp.Or(config.Mesh, plainMesh)), 0o600); err != nil {
		return nil, fmt.Errorf("configuring %s: %w", name, err)
	}
	kubeconfig, err := c.KubeconfigFor(Admin)
	if err != nil {
		return nil, err
	}
	s := &Server{
		name: name,
		path: "pilot-discovery",
		args: []string{
			"discovery",
			"--kubeconfig=" + kubeconfig,
			"--meshConfig=" + meshFile,
			"--grpcAddr=" + xds, "--httpAddr=" + debug, "--monitoringAddr=" + metrics,
			"--secureGRPCAddr=", "--httpsAddr=", "--ctrlz_port=0",
		},
		env: slices.Concat(os.Environ(), []string{
			"POD_NAME=" + name, "POD_NAMESPACE=" + istioNamespace,
			"PILOT_ENABLE_METADATA_EXCHANGE=false", // a filter that plain Envoy lacks
		}, config.Env),
		probe: probe(http.DefaultClient, "http://"+debug+"/ready"),
	}
	if err := c.run(ctx, s); err != nil {
		return nil, err
	}
	return &Istiod{
		Server: s, XDS: xds, DebugURL: "http://" + debug, MetricsURL: "http://" + metrics + "/metrics", cluster: c,
	}, nil
}

func (c *Cluster) nameIstiod() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.istiods++
	return fmt.Sprintf("istiod-%d", c.istiods)
}
