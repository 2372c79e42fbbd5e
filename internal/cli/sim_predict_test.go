package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// pods are a service of which all is known: it is simulated.
var pods = []float64{0.003, 0.003, 0.006, 0.012} // mean demands, in CPU-seconds

const (
	podRate    = 400.0
	podProxies = 8
	podWindow  = 20 * time.Second
)

func simulatePods(t *testing.T, seed uint64, seconds float64) *sim.Result {
	t.Helper()
	kind, err := policy.Find("least-request")
	if err != nil {
		t.Fatal(err)
	}
	s := &sim.Service{Proxies: podProxies, Arrivals: sim.Poisson{{Rate: podRate}}, WarmUp: 10, Measure: seconds}
	for i, demand := range pods {
		s.Servers = append(s.Servers, sim.Server{Address: podAddress(i), Cores: 2, Demand: sim.NewLogNormal(demand, 0.8)})
	}
	r, err := sim.Run(t.Context(), sim.Trial{Service: s, NewPolicy: kind.New, Seed: seed, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func podAddress(i int) string { return fmt.Sprintf("10.0.0.%d:8080", i+1) }

// rememberingStore answers as a Prometheus that has scraped the pods for some windows.
type rememberingStore struct {
	windows []*sim.Result
	began   time.Time

	mu    sync.Mutex
	asked []string // method and path
}

func startRememberingStore(t *testing.T, windows int) (*rememberingStore, string) {
	t.Helper()
	s := &rememberingStore{}
	for n := range windows {
		s.windows = append(s.windows, simulatePods(t, uint64(n+1), podWindow.Seconds()))
	}
	s.began = time.Now()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *rememberingStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	at, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if err != nil || r.Header.Get("Authorization") != "Bearer hunter2" {
		http.Error(w, "no time, or not allowed", http.StatusBadRequest)
		return
	}
	var series []map[string]any
	// A window is found by how long before the test it ended; the question is some
	// milliseconds to seconds younger than the store.
	if ago := int(s.began.Sub(time.Unix(int64(at), 0))/podWindow + 1); ago <= len(s.windows) {
		window := s.windows[len(s.windows)-max(1, ago)]
		for i := range pods {
			value := window.Servers[i].CPU
			if strings.Contains(r.FormValue("query"), "istio_requests_total") {
				value = float64(window.Servers[i].Served) / window.Seconds
			}
			for kind, v := range map[string]float64{"value": value, "time": at - 5} {
				series = append(series, map[string]any{
					"metric": map[string]string{"pod": fmt.Sprintf("pod-%d", i+1), "taper_reading": kind},
					"value":  []any{at, strconv.FormatFloat(v, 'g', -1, 64)},
				})
			}
		}
	}
	if series == nil {
		series = []map[string]any{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": series}})
}

// predictConfig is that of taper balance.
func predictConfig(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var endpoints strings.Builder
	for i := range pods {
		fmt.Fprintf(&endpoints, "  - {address: %q, name: pod-%d}\n", podAddress(i), i+1)
	}
	path := filepath.Join(dir, "balance.yaml")
	text := fmt.Sprintf(`interval: 10s
source:
  promql:
    url: %s
    bearerTokenFile: %s
    window: %s
    cpu: {selector: container_cpu_usage_seconds_total}
    requests: {selector: istio_requests_total}
services:
- name: shop
  capacity: 2
  endpoints:
%s- name: other
  endpoints: [{address: "10.9.9.9:80"}]
`, url, token, podWindow, endpoints.String())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// executed is what a command said and ended with.
type executed struct {
	out, errOut string
	code        int
}

func execute(ctx context.Context, cmd *cobra.Command, args ...string) executed {
	var out, errOut bytes.Buffer
	cmd.SetArgs(append([]string{}, args...)) // of none, cobra would take the process's
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetIn(strings.NewReader(""))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(command.WrongFlag)
	code := command.Exit(&errOut, "taper", cmd.ExecuteContext(ctx))
	return executed{out.String(), errOut.String(), code}
}

// From a store that remembers to intervals, with the truth known: the service is
// simulated. A snapshot gives the same prediction.
func TestSimPredictFromAStore(t *testing.T) {
	t.Parallel()
	store, url := startRememberingStore(t, 6)
	config, snapshot := predictConfig(t, url), filepath.Join(t.TempDir(), "shop.json")
	flags := []string{"--json", "--draws", "10", "--proxies", strconv.Itoa(podProxies), "--policy", "least-request"}
	got := execute(t.Context(), newSimPredict(), append(flags, "--config", config, "--service", "shop", "--for", "2m", "--save", snapshot)...)
	if got.code != command.ExitDone || got.errOut != "" {
		t.Fatalf("exit code %d: %s", got.code, got.errOut)
	}
	var p report.Prediction
	if err := json.Unmarshal([]byte(got.out), &p); err != nil {
		t.Fatal(err)
	}
	if p.Service != "shop" || p.Strategy != "least-latency" || p.Observed.Evidence != "cpu" || p.Observed.Windows != 6 || len(p.Warnings) != 0 {
		t.Errorf("it predicts about %s %s: %+v %q", p.Service, p.Strategy, p.Observed, p.Warnings)
	}
	truth := simulatePods(t, 99, 2000)
	held := 0
	for what, pair := range map[string]struct {
		e  report.Estimate
		is float64
	}{
		"p50": {*p.Arms[0].P50, 1000 * truth.Latency.Quantile(0.5)},
		"p99": {*p.Arms[0].P99, 1000 * truth.Latency.Quantile(0.99)},
		"CPU": {p.Arms[0].CPU, truth.CPU()},
	} {
		if pair.e.Low <= pair.is && pair.is <= pair.e.High {
			held++
		} else {
			t.Logf("today's %s is %.4g, and predicted %.4g to %.4g", what, pair.is, pair.e.Low, pair.e.High)
		}
	}
	if held < 2 {
		t.Errorf("%d of 3 intervals hold the truth", held)
	}
	if about := p.About(); about.Against.P99.Tells() != report.Better || about.Against.CPU.Tells() != report.Better {
		t.Errorf("endpoints that differ by 4 times have nothing to gain: %+v", about.Against)
	}
	for _, asked := range store.asked {
		if asked != "POST /api/v1/query" {
			t.Errorf("the store was asked %s", asked)
		}
	}
	kept, err := os.ReadFile(snapshot)
	if err != nil || strings.Contains(string(kept), "hunter2") {
		t.Errorf("the snapshot: %v, %d bytes", err, len(kept))
	}
	again := execute(t.Context(), newSimPredict(), append(flags, snapshot)...)
	if diff := cmp.Diff(got.out, again.out); diff != "" {
		t.Errorf("the snapshot predicts something else (-store +snapshot):\n%s\n%s", diff, again.errOut)
	}
}

func TestSimPredictUsage(t *testing.T) {
	t.Parallel()
	_, url := startRememberingStore(t, 3)
	config := predictConfig(t, url)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("kind: Scenario\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":         {nil, 2, "either a snapshot or --config FILE; see taper sim predict --help"},
		"both":            {[]string{bad, "--config", config}, 2, "either a snapshot or --config FILE"},
		"two snapshots":   {[]string{bad, bad}, 2, "one snapshot, and 2 are named"},
		"no snapshot":     {[]string{filepath.Join(dir, "none.json")}, 2, "none.json: no such file"},
		"a folder":        {[]string{dir}, 2, "is a directory"},
		"bad snapshot":    {[]string{bad}, 2, `bad.yaml: kind is "Scenario"`},
		"no config":       {[]string{"--config", filepath.Join(dir, "none.yaml")}, 2, "none.yaml: no such file"},
		"service":         {[]string{bad, "--service", "shop"}, 2, "--service chooses among the services of --config"},
		"which service":   {[]string{"--config", config}, 2, "there are 2 services: name one of shop, other"},
		"unknown service": {[]string{"--config", config, "--service", "web"}, 2, `unknown service "web": it is one of shop, other`},
		"span":            {[]string{"--config", config, "--for", "-1m"}, 2, "--for is -1m0s"},
		"short span":      {[]string{"--config", config, "--service", "shop", "--for", "1s"}, 2, "1s is 0 windows of 20s"},
		"few windows":     {[]string{"--config", config, "--service", "shop", "--for", "40s"}, 1, "observed over 2 windows of 20s: it takes 3"},
		"no memory of it": {[]string{"--config", config, "--service", "shop", "--for", "2m", "--draws", "2000"}, 2, "2000 draws"},
		"p50 alone":       {[]string{bad, "--p50", "5ms"}, 2, "both of --p50 and --p99"},
		"p99 below p50":   {[]string{bad, "--p50", "5ms", "--p99", "4ms"}, 2, "p99 the longer"},
		"proxies":         {[]string{bad, "--proxies", "-1"}, 2, "--proxies is -1"},
		"policy":          {[]string{bad, "--policy", "fastest"}, 2, `--policy: unknown policy "fastest": it is one of random`},
		"sigma":           {[]string{bad, "--sigma", "9"}, 2, "sigma is 9"},
		"flag":            {[]string{"--nonsense"}, 2, "unknown flag"},
		"save":            {[]string{"--config", config, "--service", "shop", "--for", "1m", "--save", filepath.Join(dir, "no", "file")}, 1, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t.Context(), newSimPredict(), tt.args...)
			if got.code != tt.code || !strings.Contains(got.errOut, tt.says) || got.out != "" {
				t.Errorf("exit code %d, said %q, want %d and %q", got.code, got.errOut, tt.code, tt.says)
			}
			if strings.Count(got.errOut, "\n") != 1 || strings.Contains(got.errOut, "hunter2") {
				t.Errorf("it said %q, want one line without secrets", got.errOut)
			}
		})
	}
}

// A store that fails is an error with its address, and no prediction.
func TestSimPredictWithoutAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "down for repair", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	got := execute(t.Context(), newSimPredict(), "--config", predictConfig(t, server.URL), "--service", "shop")
	if got.code != command.ExitFailed || !strings.Contains(got.errOut, server.URL) || strings.Contains(got.errOut, "hunter2") {
		t.Errorf("exit code %d: %s", got.code, got.errOut)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("Ctrl-C"))
	_, url := startRememberingStore(t, 3)
	if got := execute(ctx, newSimPredict(), "--config", predictConfig(t, url), "--service", "shop", "--for", "1m"); got.code != command.ExitFailed || !strings.Contains(got.errOut, "context canceled") {
		t.Errorf("interrupted: exit code %d: %s", got.code, got.errOut)
	}
}
