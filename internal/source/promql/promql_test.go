package promql

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/model"
)

const (
	cpuSelector      = `container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"}`
	requestsSelector = `istio_requests_total{reporter="destination"}`
)

var endpoints = []model.Endpoint{
	{Address: "10.0.0.1:8080", Name: "fib-1"},
	{Address: "10.0.0.2:8080"},
	{Address: "10.0.0.3:8080"}, {Address: "10.0.0.3:9090"},
}

func TestQueries(t *testing.T) {
	for name, test := range map[string]struct {
		metric      Metric
		label       string
		window      time.Duration
		value, time string
	}{
		"counter": {
			Metric{cpuSelector, Counter}, "pod", 2 * time.Minute,
			`sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"}[2m]))`,
			`max by (pod) (timestamp(container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"}))`,
		},
		"gauge, a short window": {
			Metric{"cpu_usage", Gauge}, "instance", 1500 * time.Millisecond,
			`sum by (instance) (avg_over_time(cpu_usage[1s500ms]))`,
			`max by (instance) (timestamp(cpu_usage))`,
		},
		"a comment is not passed on": {
			Metric{"up # [1h]) or vector(1", ""}, "pod", time.Minute,
			`sum by (pod) (rate(up[1m]))`, `max by (pod) (timestamp(up))`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := newQueries("cpu", test.metric, test.label, test.window)
			if err != nil || q.value != test.value || q.time != test.time {
				t.Errorf("%+v, %v\nwant %s\nand  %s", q, err, test.value, test.time)
			}
		})
	}
}

func TestNewRejects(t *testing.T) {
	valid := func() Config {
		return Config{URL: "http://127.0.0.1:9090", Window: time.Minute, CPU: Metric{Selector: cpuSelector}}
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(valid()); err != nil {
		t.Fatalf("the valid configuration: %v", err)
	}
	for name, test := range map[string]struct {
		change func(*Config)
		fails  string
	}{
		"no URL":        {func(c *Config) { c.URL = "" }, "want http://HOST:PORT"},
		"no scheme":     {func(c *Config) { c.URL = "prometheus:9090" }, "want http://HOST:PORT"},
		"bad password":  {func(c *Config) { c.URL = "http://user:secret/secret@prometheus" }, "want http://HOST:PORT"},
		"two users":     {func(c *Config) { c.URL = "http://user:secret@h"; c.BearerTokenFile = "token" }, "want one of them"},
		"no CA file":    {func(c *Config) { c.CAFile = "/nowhere/ca.pem" }, "/nowhere/ca.pem"},
		"empty CA file": {func(c *Config) { c.CAFile = empty }, "has no certificate"},
		"window":        {func(c *Config) { c.Window = 0 }, "window 0s is too short"},
		"label":         {func(c *Config) { c.Label = "pod) or (up" }, `label "pod) or (up"`},
		"nothing":       {func(c *Config) { c.CPU = Metric{} }, "at least one"},
		"type":          {func(c *Config) { c.CPU.Type = "histogram" }, `cpu: metric type "histogram" is unknown; want counter or gauge`},
		"syntax":        {func(c *Config) { c.CPU.Selector = `cpu{pod=~"fib-.*"` }, "unexpected end of input"},
		"expression":    {func(c *Config) { c.CPU.Selector = `rate(cpu[1m])` }, "this is of type instant vector; want a plain series selector"},
		"range":         {func(c *Config) { c.CPU.Selector = `cpu[1m]` }, "this is of type range vector; want a plain series selector"},
		"injection":     {func(c *Config) { c.CPU.Selector = `cpu) or (up` }, "unexpected right parenthesis"},
		"offset":        {func(c *Config) { c.Requests.Selector = `cpu offset 5m` }, "requests selector \"cpu offset 5m\": offset and @"},
		"at":            {func(c *Config) { c.CPU.Selector = `cpu @ start()` }, "offset and @"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid()
			test.change(&cfg)
			_, err := New(cfg)
			if err == nil || !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v; want an error with %q and no secret", err, test.fails)
			}
		})
	}
}

// store answers each query with a fixed vector and remembers what it was asked.
type store struct {
	answers map[string]string // result arrays by query
	mu      sync.Mutex
	asked   []string
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	s.mu.Lock()
	s.asked = append(s.asked, query)
	s.mu.Unlock()
	result, ok := s.answers[query]
	if !ok || r.URL.Path != "/api/v1/query" || r.FormValue("time") != "" {
		http.Error(w, "not expected", http.StatusTeapot)
		return
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
}

// series is one element of a vector; all were evaluated at second 2000.
func series(pod string, value string) string {
	name, _ := json.Marshal(pod)
	return fmt.Sprintf(`{"metric":{"pod":%s},"value":[2000,%q]}`, name, value)
}

func collect(t *testing.T, cfg Config) (model.Snapshot, error) {
	t.Helper()
	cfg.Window = time.Minute
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return s.Collect(ctx, endpoints)
}

func TestCollect(t *testing.T) {
	s := &store{answers: map[string]string{
		"sum by (pod) (rate(" + cpuSelector + "[1m]))": strings.Join([]string{
			series("fib-1", "1.5"), series("10.0.0.2", "NaN"), series("10.0.0.3", "9"), series("10.0.0.3:9090", "-1"), series("", "7"), series("fib-99", "7")}, ","),
		"max by (pod) (timestamp(" + cpuSelector + "))": strings.Join([]string{
			series("fib-1", "1990.123"), series("10.0.0.2", "1991"), series("10.0.0.3", "1992"), series("10.0.0.3:9090", "1993"), series("", "1994")}, ","),
		"sum by (pod) (rate(" + requestsSelector + "[1m]))":  series("fib-1", "0") + "," + series("10.0.0.2", "5"),
		"max by (pod) (timestamp(" + requestsSelector + "))": series("fib-1", "1995"),
	}}
	server := httptest.NewServer(s)
	defer server.Close()

	got, err := collect(t, Config{URL: server.URL, CPU: Metric{Selector: cpuSelector}, Requests: Metric{Selector: requestsSelector}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)) }
	want := model.Snapshot{
		"10.0.0.1:8080": {CPU: model.Reading{Value: 1.5, At: at(1990.123)}, Requests: model.Reading{Value: 0, At: at(1995)}},
		"10.0.0.2:8080": {CPU: model.Reading{Value: math.NaN(), At: at(1991)}}, // requests without a time are missing
		"10.0.0.3:9090": {CPU: model.Reading{Value: -1, At: at(1993)}},         // :8080 would share the host's series
	}
	same := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if len(s.asked) != 4 {
		t.Errorf("asked %d times: %q", len(s.asked), s.asked)
	}
	for _, selector := range []string{cpuSelector, requestsSelector} {
		time := slices.Index(s.asked, "max by (pod) (timestamp("+selector+"))")
		value := slices.Index(s.asked, "sum by (pod) (rate("+selector+"[1m]))")
		if time < 0 || value < time {
			t.Errorf("%s: the value was asked for before its time: %q", selector, s.asked)
		}
	}
}

func TestCollectNothing(t *testing.T) {
	s := &store{answers: map[string]string{
		"sum by (pod) (rate(up[1m]))":  "",
		"max by (pod) (timestamp(up))": series("fib-1", "1999"),
	}}
	server := httptest.NewServer(s)
	defer server.Close()
	cfg := Config{URL: server.URL, CPU: Metric{Selector: "up"}}
	if got, err := collect(t, cfg); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v; want an empty snapshot: missing is not zero", got, err)
	}
	s.answers["sum by (pod) (rate(up[1m]))"] = series("web-1", "1")
	s.answers["max by (pod) (timestamp(up))"] = series("web-1", "1999")
	got, err := collect(t, cfg)
	if want := `label "pod" names none of the endpoints: it says "web-1"; want fib-1 or 10.0.0.1:8080 or 10.0.0.1`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, %v; want an error with %q", got, err, want)
	}
}
