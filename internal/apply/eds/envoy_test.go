package eds

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/apply"
)

// bootstrap makes an Envoy with the clusters a and b. It takes the ADS
// configuration, the source of endpoints, and the host and port of taper.
const bootstrap = `
node: {id: test-envoy, cluster: test}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
dynamic_resources: {%[1]s}
static_resources:
  clusters:
  - name: a
    type: EDS
    lb_policy: LEAST_REQUEST
    eds_cluster_config: {service_name: service-a, eds_config: {resource_api_version: V3, %[2]s}}
  - name: b
    type: EDS
    eds_cluster_config: {service_name: service-b, eds_config: {resource_api_version: V3, %[2]s}}
  - name: taper
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: taper
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[3]s, port_value: %[4]s}}}}]}]
`

// source reaches taper, and tries again soon: by default Envoy waits up to 30 s.
const source = `{api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: taper,
  retry_policy: {retry_back_off: {base_interval: 0.05s, max_interval: 0.2s}}}}]}`

// realEnvoy is an Envoy process and its admin interface.
type realEnvoy struct {
	t     *testing.T
	admin string
}

func startEnvoy(t *testing.T, taper string, ads bool) *realEnvoy {
	t.Helper()
	binary, err := exec.LookPath("envoy")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatalf("%v: this test needs Envoy", err)
		}
		t.Skipf("%v: install Envoy, or add its directory to PATH", err)
	}
	host, port, err := net.SplitHostPort(taper)
	if err != nil {
		t.Fatal(err)
	}
	dynamic, from := "", "api_config_source: "+source
	if ads {
		dynamic, from = "ads_config: "+source, "ads: {}"
	}
	dir := t.TempDir()
	config, admin, output := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin"), filepath.Join(dir, "log")
	if err := os.WriteFile(config, fmt.Appendf(nil, bootstrap, dynamic, from, host, port), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-c", config, "--admin-address-path", admin, "--log-path", output,
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if text, err := os.ReadFile(output); t.Failed() && err == nil {
			t.Logf("log of Envoy:\n%s", text)
		}
	})
	e := &realEnvoy{t: t}
	waitFor(t, "Envoy's admin interface", func() bool {
		address, err := os.ReadFile(admin)
		e.admin = string(address)
		return err == nil && e.admin != ""
	})
	return e
}

func (e *realEnvoy) get(path string) []byte {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.admin+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return body
}

// weights returns the weights that Envoy balances a cluster by, by address.
func (e *realEnvoy) weights(cluster string) map[string]uint32 {
	e.t.Helper()
	var clusters struct {
		Statuses []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address struct {
					Socket struct {
						Address string `json:"address"`
						Port    int    `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
				Weight uint32 `json:"weight"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal(e.get("/clusters?format=json"), &clusters); err != nil {
		e.t.Fatal(err)
	}
	weights := map[string]uint32{}
	for _, c := range clusters.Statuses {
		for _, h := range c.Hosts {
			if c.Name == cluster {
				weights[net.JoinHostPort(h.Address.Socket.Address, fmt.Sprint(h.Address.Socket.Port))] = h.Weight
			}
		}
	}
	return weights
}

// expect waits until Envoy balances the cluster by exactly these weights.
func (e *realEnvoy) expect(cluster string, a apply.Assignment) {
	e.t.Helper()
	var diff string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if diff = cmp.Diff(map[string]uint32(a.Weights), e.weights(cluster)); diff == "" {
			return
		}
	}
	e.t.Fatalf("Envoy's weights of cluster %s (-want +got):\n%s", cluster, diff)
}

// updates is how many responses with endpoints of the cluster Envoy has taken.
func (e *realEnvoy) updates(cluster string) string {
	e.t.Helper()
	return strings.TrimSpace(string(e.get("/stats?filter=^cluster." + cluster + ".update_success$")))
}

// connected tells whether Envoy believes that any of its streams is up.
func (e *realEnvoy) connected() bool {
	e.t.Helper()
	return strings.Contains(string(e.get("/stats?filter=control_plane.connected_state")), ": 1")
}

func TestRealEnvoy(t *testing.T) {
	for name, ads := range map[string]bool{"stream per cluster": false, "ads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, stop := serve(t, "127.0.0.1:0")
			a, b := assignment("service-a", 100, 300, 4_000_000_000), assignment("service-b", 1, 1)
			a.Endpoints[0].Address, a.Weights["[::1]:80"] = "[::1]:80", a.Weights["10.0.0.1:80"]
			delete(a.Weights, "10.0.0.1:80")
			mustApply(t, s, a)
			mustApply(t, s, b)
			envoy := startEnvoy(t, s.Addr(), ads)
			envoy.expect("a", a)
			envoy.expect("b", b)

			before := envoy.updates("a")
			mustApply(t, s, a)
			b = assignment("service-b", 5, 7, 9)
			mustApply(t, s, b)
			envoy.expect("b", b)
			expectStatus(t, s, "service-b", Status{Version: s.Status("service-b").Version, Subscribers: 1, Acked: 1})
			if after := envoy.updates("a"); after != before || before == "" {
				t.Errorf("updates of cluster a were %q and are %q, want no other through b", before, after)
			}

			if !envoy.connected() {
				t.Error("Envoy has weights, and says that it has no stream")
			}
			stop()
			waitFor(t, "Envoy to notice that taper is gone", func() bool { return !envoy.connected() })
			envoy.expect("a", a)
			envoy.expect("b", b)

			again, _, _ := serve(t, s.Addr())
			expectStatus(t, again, "service-a", Status{Subscribers: 1})
			b = assignment("service-b", 70, 30)
			mustApply(t, again, b)
			envoy.expect("b", b)
			envoy.expect("a", a) // not applied in this run, and kept
		})
	}
}

// Envoy takes what passes Apply. These are the addresses and weights that one
// might doubt.
func TestRealEnvoyTakesWhatApplyTakes(t *testing.T) {
	t.Parallel()
	s, _, _ := serve(t, "127.0.0.1:0")
	envoy := startEnvoy(t, s.Addr(), false)
	for _, address := range []string{"0.0.0.0:80", "[::]:80", "224.0.0.1:80", "255.255.255.255:65535", "[fe80::1]:1", "[::ffff:1.2.3.4]:80"} {
		a := one(address)
		a.Service, a.Weights[address] = "service-a", 1<<32-1
		mustApply(t, s, a)
		waitFor(t, "Envoy's answer to "+address, func() bool {
			status := s.Status("service-a")
			return status.Acked == 1 || len(status.Rejected) > 0
		})
		if status := s.Status("service-a"); status.Acked != 1 {
			t.Errorf("%s: %+v", address, status)
		}
		envoy.expect("a", a)
	}
}
