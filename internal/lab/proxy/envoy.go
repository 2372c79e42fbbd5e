package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/model"
)

const (
	// adminDeadline bounds one question to the admin interface.
	adminDeadline = 5 * time.Second
	// adminBytes bounds the answer; thousands of endpoints stay below it.
	adminBytes = 16 << 20
)

// envoy is one running Envoy.
type envoy struct {
	node     string
	process  *process.Process
	admin    string // base URL
	listener string // host:port
	version  string
}

// startEnvoy starts an Envoy with its files in dir, and waits until it listens.
func startEnvoy(ctx context.Context, id *corev3.Node, server netip.AddrPort, config Config, dir string) (*envoy, error) {
	node := id.Id
	b, err := bootstrap(id, server, config)
	if err != nil {
		return nil, fmt.Errorf("configuring envoy %s: %w", node, err)
	}
	text, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("configuring envoy %s: %w", node, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of envoy %s: %w", node, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "envoy.json"), text, 0o644); err != nil {
		return nil, fmt.Errorf("configuring envoy %s: %w", node, err)
	}
	p, err := process.Start(process.Spec{
		Name: "envoy " + node,
		Path: config.Binary,
		Args: []string{
			"--config-path", "envoy.json",
			"--admin-address-path", adminFile,
			"--concurrency", "1",
			"--disable-hot-restart", // needs shared memory, and a number that differs
			"--log-level", "warning",
		},
		Dir: dir,
		Log: filepath.Join(dir, "envoy.log"),
	})
	if err != nil {
		return nil, err
	}
	e := &envoy{node: node, process: p}
	probe := func(ctx context.Context) error { return e.learn(ctx, filepath.Join(dir, adminFile)) }
	if err := process.Await(ctx, p, probe, startDeadline); err != nil {
		p.Stop(stopGrace)
		return nil, err
	}
	return e, nil
}

// adminFile is where Envoy writes the address of its admin interface.
const adminFile = "admin.address"

// learn asks a starting Envoy where it listens, and fails until it does.
func (e *envoy) learn(ctx context.Context, adminPath string) error {
	address, err := os.ReadFile(adminPath)
	if err != nil {
		return fmt.Errorf("reading where the admin interface is: %w", err)
	}
	e.admin = "http://" + strings.TrimSpace(string(address))
	var info adminv3.ServerInfo
	if err := e.ask(ctx, "/server_info", &info); err != nil {
		return err
	}
	if info.State != adminv3.ServerInfo_LIVE {
		return fmt.Errorf("its state is %s, not LIVE", info.State)
	}
	e.version = release(info.Version)
	var listeners adminv3.Listeners
	if err := e.ask(ctx, "/listeners?format=json", &listeners); err != nil {
		return err
	}
	for _, l := range listeners.ListenerStatuses {
		if l.Name == listenerName {
			e.listener, err = hostPort(l.LocalAddress)
			return err
		}
	}
	return fmt.Errorf("it has no listener %q yet", listenerName)
}

// release takes "1.40.0" out of "COMMIT/1.40.0/Clean/RELEASE/BoringSSL".
func release(version string) string {
	if parts := strings.Split(version, "/"); len(parts) > 1 {
		return parts[1]
	}
	return version
}

func (e *envoy) awaitEndpoints(ctx context.Context, cluster string, n int) error {
	err := process.Await(ctx, e.process, func(ctx context.Context) error {
		weights, err := e.weights(ctx, cluster)
		if err == nil && len(weights) != n {
			err = fmt.Errorf("cluster %s has %d endpoints, want %d", cluster, len(weights), n)
		}
		return err
	}, endpointsDeadline)
	return err
}

// weights reads what the cluster's endpoints weigh.
func (e *envoy) weights(ctx context.Context, cluster string) (model.Weights, error) {
	var clusters adminv3.Clusters
	if err := e.ask(ctx, "/clusters?format=json", &clusters); err != nil {
		return nil, err
	}
	for _, c := range clusters.ClusterStatuses {
		if c.Name != cluster {
			continue
		}
		weights := make(model.Weights, len(c.HostStatuses))
		for _, h := range c.HostStatuses {
			address, err := hostPort(h.Address)
			if err != nil {
				return nil, fmt.Errorf("envoy %s, cluster %s: %w", e.node, cluster, err)
			}
			weights[address] = h.Weight
		}
		return weights, nil
	}
	return nil, fmt.Errorf("envoy %s has no cluster %q", e.node, cluster)
}

func hostPort(a *corev3.Address) (string, error) {
	s := a.GetSocketAddress()
	if s == nil {
		return "", fmt.Errorf("address %v is not of a socket", a)
	}
	return net.JoinHostPort(s.Address, strconv.FormatUint(uint64(s.GetPortValue()), 10)), nil
}

// ask gets an answer of the admin interface. It names an Envoy that has died.
func (e *envoy) ask(ctx context.Context, path string, answer proto.Message) error {
	err := e.tryAsk(ctx, path, answer)
	if err == nil {
		return nil
	}
	if died := e.process.Err(); died != nil {
		return died
	}
	return fmt.Errorf("asking envoy %s for %s: %w", e.node, path, err)
}

func (e *envoy) tryAsk(ctx context.Context, path string, answer proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, adminDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.admin+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, adminBytes))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	// A newer Envoy may say more than is known here.
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, answer)
}
