package proxy

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/apply/eds"
	"taper.dev/taper/internal/model"
)

var update = flag.Bool("update", false, "write the golden file")

// The configuration as Envoy gets it. The bytes of protojson vary, so values are
// compared.
func TestBootstrap(t *testing.T) {
	for name, config := range map[string]Config{
		"bootstrap": {Arms: []Arm{{Name: "least-latency"}, {Name: "round-robin", Policy: RoundRobin}}},
		"ads":       {Arms: []Arm{{Name: "fib.demo", Cluster: "outbound|8080||fib.demo.svc.cluster.local"}}, ADS: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev3.Node{Id: "lab-01", Cluster: "lab"}
			b, err := bootstrap(node, netip.MustParseAddrPort("127.0.0.1:18000"), config)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.ValidateAll(); err != nil {
				t.Errorf("Envoy would refuse it: %v", err)
			}
			text, err := protojson.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, filepath.Join("testdata", name+".json"), decode(t, text))
		})
	}
}

func checkGolden(t *testing.T, golden string, got any) {
	t.Helper()
	if *update {
		indented, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(indented, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, want), got); diff != "" {
		t.Errorf("%s (-want +got), -update to accept:\n%s", golden, diff)
	}
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWrongConfigs(t *testing.T) {
	valid := Config{Count: 1, EDS: "127.0.0.1:18000", Arms: []Arm{{Name: "a"}}}
	for name, test := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"none":           {func(c *Config) { c.Count = 0 }, "at least 1"},
		"no arms":        {func(c *Config) { c.Arms = nil }, "at least 1"},
		"same names":     {func(c *Config) { c.Arms = append(c.Arms, c.Arms[0]) }, `"a"`},
		"reserved name":  {func(c *Config) { c.Arms[0].Name = controlPlane }, controlPlane},
		"same clusters":  {func(c *Config) { c.Arms = append(c.Arms, Arm{Name: "b", Cluster: "a"}) }, `"b"`},
		"name as server": {func(c *Config) { c.EDS = "taper:18000" }, "IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid
			cfg.Arms = append([]Arm(nil), valid.Arms...)
			test.spoil(&cfg)
			if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// startGroup runs real Envoys on taper's EDS server.
func startGroup(t *testing.T, count int) (*Group, *eds.Server) {
	t.Helper()
	binary, err := exec.LookPath("envoy")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatalf("%v: run \"make tools\"", err)
		}
		t.Skipf("%v: run \"make tools\"", err)
	}
	server, err := eds.Listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	g, err := Start(t.Context(), Config{
		Binary: binary, Count: count, EDS: server.Addr(), Arms: []Arm{{Name: "one"}, {Name: "other", Policy: RoundRobin}}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g, server
}

func TestArmsAreToldApartByHost(t *testing.T) {
	g, server := startGroup(t, 2)
	endpoint, stop := listen(t)
	defer stop()
	weights := model.Weights{endpoint: 7}
	if err := server.Apply(t.Context(), apply.Assignment{Service: "one", Endpoints: []model.Endpoint{{Address: endpoint}}, Weights: weights}); err != nil {
		t.Fatal(err)
	}
	if err := g.AwaitEndpoints(t.Context(), "one", 1); err != nil {
		t.Fatal(err)
	}
	all, err := g.Weights(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range all {
		if !maps.Equal(got, weights) {
			t.Errorf("Envoy %d balances by %v, want %v", i, got, weights)
		}
	}
	if g.Version() == "" || len(g.Admins()) != 2 {
		t.Errorf("version %q, admin interfaces %v", g.Version(), g.Admins())
	}
	for host, want := range map[string]int{"one": http.StatusOK, "other": http.StatusServiceUnavailable, "nobody": http.StatusNotFound} {
		if got := status(t, g.Addresses()[1], host); got != want {
			t.Errorf("host %s: status %d, want %d", host, got, want)
		}
	}
}

// listen answers every request on a loopback address.
func listen(t *testing.T) (address string, stop func()) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	return l.Addr().String(), func() { server.Close() }
}

func status(t *testing.T, address, host string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestAnEnvoyThatDiesIsNamed(t *testing.T) {
	g, _ := startGroup(t, 2)
	if err := g.Err(); err != nil {
		t.Fatalf("while all run: %v", err)
	}
	if err := syscall.Kill(g.envoys[1].process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.envoys[1].process.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a killed Envoy does not end")
	}
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "lab-02") {
		t.Errorf("got %v, want lab-02 named", err)
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Kill(g.envoys[0].process.PID(), 0); err == nil {
		t.Error("an Envoy runs on after Close")
	}
}
