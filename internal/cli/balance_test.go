package cli

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/fleet/emulated"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/lab/store/embedded"
	"taper.dev/taper/internal/model"
)

const (
	fast = "127.0.3.1:8080"
	slow = "127.0.3.2:8080"
)

// standaloneBed is what a team without Kubernetes has: endpoints, an Envoy, a
// store, and load.
type standaloneBed struct {
	eds, store string
	proxies    *proxy.Group
	load       *load.Generator
}

func newStandaloneBed(t *testing.T) *standaloneBed {
	t.Helper()
	envoy := need(t, "envoy", `run "make tools"`)
	members := []fleet.Member{
		{Endpoint: model.Endpoint{Address: fast, Name: "fast", Capacity: 2}, Fib: 25},
		{Endpoint: model.Endpoint{Address: slow, Name: "slow", Capacity: 2}, Fib: 29},
	}
	endpoints, err := emulated.Start(members, emulated.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endpoints.Close() })
	metrics := httptest.NewServer(exporter.New(endpoints))
	t.Cleanup(metrics.Close)
	store, err := embedded.Start(embedded.Config{Targets: []string{metrics.URL}, ScrapeEvery: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	bed := &standaloneBed{eds: freeAddress(t), store: store.URL()}
	bed.proxies, err = proxy.Start(t.Context(), proxy.Config{
		Binary: envoy, Count: 1, EDS: bed.eds, Arms: []proxy.Arm{{Name: "shop", Policy: proxy.LeastRequest}}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bed.proxies.Close() })
	return bed
}

// freeAddress is one that nothing listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (bed *standaloneBed) startLoad(t *testing.T) {
	t.Helper()
	g, err := load.Start(t.Context(), load.Plan{
		Targets: bed.proxies.Addresses(), Host: "shop", Path: "/", Rate: 80, Timeout: 10 * time.Second, MaxInFlight: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	bed.load = g
}

// weights are those that Envoy has.
func (bed *standaloneBed) weights(ctx context.Context, t *testing.T) map[string]uint32 {
	t.Helper()
	all, err := bed.proxies.Weights(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func writeConfig(t *testing.T, bed *standaloneBed, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "balance.yaml")
	text := fmt.Sprintf(`
listen: %s
interval: 1s
stateFile: %s
source: %s
services:
- name: shop
  strategy: equal-load
  capacity: 2
  endpoints: [{address: %q, name: fast}, {address: %q, name: slow}]
`, bed.eds, filepath.Join(t.TempDir(), "state.json"), source, fast, slow)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// taper balance gives a real Envoy weights learnt from a store; SIGTERM leaves
// them there, and a restart goes on from them.
func TestBalanceDrivesEnvoy(t *testing.T) {
	bed := newStandaloneBed(t)
	config := writeConfig(t, bed, fmt.Sprintf(`{promql: {url: %q, window: 2s, label: pod,
  cpu: {selector: container_cpu_usage_seconds_total}, requests: {selector: istio_requests_total}}}`, bed.store))
	p := start(t, "balance", "--config", config)
	waitFor(t, "Envoy to have endpoints", func(ctx context.Context) bool { return len(bed.weights(ctx, t)) == 2 })
	bed.startLoad(t)
	waitFor(t, "the fast endpoint to get most requests", func(ctx context.Context) bool {
		w := bed.weights(ctx, t)
		return w[fast] > 3*w[slow]
	})

	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != command.ExitDone {
		t.Errorf("exit code %d after SIGTERM, want %d", code, command.ExitDone)
	}
	left := bed.weights(t.Context(), t)
	if left[fast] <= 3*left[slow] {
		t.Errorf("after SIGTERM Envoy has %v", left)
	}
	m, err := bed.load.Measure(t.Context(), time.Second)
	if err != nil || m.Errors > 0 || m.Requests == 0 {
		t.Errorf("without taper: %+v, %v", m, err)
	}

	start(t, "balance", "--config", config)
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		if w := bed.weights(t.Context(), t); w[fast] <= 2*w[slow] {
			t.Fatalf("the restart gave Envoy %v, it had %v", w, left)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The same without any store: requests in flight, from Envoy itself.
func TestBalanceByEnvoysOwnStatistics(t *testing.T) {
	bed := newStandaloneBed(t)
	config := writeConfig(t, bed, fmt.Sprintf(`{envoy: {admin: [%q]}}`, bed.proxies.Admins()[0]))
	start(t, "balance", "--config", config)
	waitFor(t, "Envoy to have endpoints", func(ctx context.Context) bool { return len(bed.weights(ctx, t)) == 2 })
	bed.startLoad(t)
	waitFor(t, "the fast endpoint to get most requests", func(ctx context.Context) bool {
		w := bed.weights(ctx, t)
		return w[fast] > 2*w[slow]
	})
}

func TestBalanceCheck(t *testing.T) {
	bed := newStandaloneBed(t)
	source := `{promql: {url: %q, window: 2s, label: pod, cpu: {selector: %s}}}`
	config := writeConfig(t, bed, fmt.Sprintf(source, bed.store, "container_cpu_usage_seconds_total"))
	waitFor(t, "the store to have rates", func(context.Context) bool {
		p := start(t, "balance", "--config", config, "--check")
		return p.exit() == command.ExitDone && strings.HasPrefix(p.stdout.String(), "shop: 2 of 2 endpoints measured\n")
	})
	// Half of the endpoints are too few.
	config = writeConfig(t, bed, fmt.Sprintf(source, bed.store, `'container_cpu_usage_seconds_total{pod="fast"}'`))
	p := start(t, "balance", "--config", config, "--check", "--json")
	if code := p.exit(); code != command.ExitCheck {
		t.Errorf("exit code %d, want %d", code, command.ExitCheck)
	}
	if out := p.stdout.String(); !strings.Contains(out, `"cpu_cores": null`) || !strings.Contains(out, `"covered": false`) {
		t.Errorf("it printed %s", out)
	}
}

// A store that is away is named in one line, the loop goes on, and Envoy has its
// endpoints all the same.
func TestBalanceWithAStoreThatIsAway(t *testing.T) {
	bed := newStandaloneBed(t)
	config := writeConfig(t, bed, `{promql: {url: "http://user:hunter2@127.0.0.1:1", cpu: {selector: cpu}}}`)
	p := start(t, "balance", "--config", config)
	waitFor(t, "the store to be named", func(context.Context) bool { return strings.Contains(p.said(), "127.0.0.1:1") })
	waitFor(t, "Envoy to have endpoints", func(ctx context.Context) bool { return len(bed.weights(ctx, t)) == 2 })
	if strings.Contains(p.said(), "hunter2") {
		t.Error("the log holds the password")
	}
}

func TestBalanceNamesAPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := writeConfig(t, &standaloneBed{eds: taken.Addr().String()}, `{envoy: {admin: ["http://127.0.0.1:1"]}}`)
	p := start(t, "balance", "--config", config)
	if code := p.exit(); code != command.ExitFailed {
		t.Errorf("exit code %d, want %d", code, command.ExitFailed)
	}
	if said := p.said(); !strings.Contains(said, taken.Addr().String()) || strings.Count(said, "\n") != 1 {
		t.Errorf("it said %q, want one line with the address", said)
	}
}
