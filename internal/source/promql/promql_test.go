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

// ask is the query for values and times, as the source puts it together.
func ask(by, function, selector, window string) string {
	return fmt.Sprintf(`label_replace(sum by (%s) (%s(%s[%s])), "taper_reading", "value", "", "") or label_replace(max by (%s) (timestamp(%s)), "taper_reading", "time", "", "")`,
		by, function, selector, window, by, selector)
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
		"bad query":     {func(c *Config) { c.URL = "http://h/?token=secret;secret" }, "percent-encoded"},
		"two users":     {func(c *Config) { c.URL = "http://user:secret@h"; c.BearerTokenFile = "token" }, "want one of them"},
		"two tokens":    {func(c *Config) { c.BearerToken = NewSecret("secret"); c.BearerTokenFile = "token" }, "want one of them"},
		"user, token":   {func(c *Config) { c.BearerToken = NewSecret("secret"); c.Username = "me" }, "want one of them"},
		"no user":       {func(c *Config) { c.Password = NewSecret("secret") }, "password without a user"},
		"two CAs":       {func(c *Config) { c.CAPEM = []byte("secret"); c.CAFile = empty }, "both a CA and a CA file"},
		"bad CA":        {func(c *Config) { c.CAPEM = []byte("secret") }, "the CA has no certificate"},
		"no CA file":    {func(c *Config) { c.CAFile = "/nowhere/ca.pem" }, "/nowhere/ca.pem"},
		"empty CA file": {func(c *Config) { c.CAFile = empty }, "has no certificate"},
		"window":        {func(c *Config) { c.Window = 0 }, "window 0s is too short"},
		"label":         {func(c *Config) { c.Label = "pod) or (up" }, `label "pod) or (up"`},
		"namespace":     {func(c *Config) { c.NamespaceLabel = "name-space" }, `label "name-space"`},
		"one label":     {func(c *Config) { c.NamespaceLabel = "pod" }, "want two labels"},
		"own label":     {func(c *Config) { c.Label = kindLabel }, "cannot be grouped by"},
		"scale":         {func(c *Config) { c.InFlight = Metric{Selector: "x", Scale: -1} }, "in-flight: scale -1"},
		"NaN scale":     {func(c *Config) { c.CPU.Scale = math.NaN() }, "cpu: scale NaN"},
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

// half is one element of a vector; all were evaluated at second 2000. The kind is
// "value" or "time".
func half(pod, kind, value string) string {
	name, _ := json.Marshal(pod)
	return fmt.Sprintf(`{"metric":{"pod":%s,"taper_reading":%q},"value":[2000,%q]}`, name, kind, value)
}

func halves(pod, value, time string) string {
	return half(pod, "value", value) + "," + half(pod, "time", time)
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

// overAMinute says of samples what window they are of.
func overAMinute(samples model.Snapshot) model.Snapshot {
	for address, sample := range samples {
		sample.Window = time.Minute
		samples[address] = sample
	}
	return samples
}

// same compares snapshots whose values may be NaN.
var same = cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })

func at(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)) }

func TestCollect(t *testing.T) {
	const durations = "istio_request_duration_milliseconds_sum"
	s := &store{answers: map[string]string{
		ask("pod", "rate", cpuSelector, "1m"): strings.Join([]string{
			halves("fib-1", "1.5", "1990.123"), halves("10.0.0.2", "NaN", "1991"), halves("10.0.0.3", "9", "1992"), halves("10.0.0.3:9090", "-1", "1993"),
			halves("", "7", "1994"), half("fib-99", "value", "7"), half("10.0.0.1", "time", "1995"),
			half("10.0.0.2:8080", "value", "8"), half("10.0.0.2:8080", "time", "NaN"), // no time: the next name counts
		}, ","),
		ask("pod", "rate", requestsSelector, "1m"): halves("fib-1", "0", "1995") + "," + half("10.0.0.2", "value", "5"),
		ask("pod", "rate", durations, "1m"):        halves("fib-1", "2500", "1996"),
	}}
	server := httptest.NewServer(s)
	defer server.Close()

	got, err := collect(t, Config{
		URL: server.URL, CPU: Metric{Selector: cpuSelector}, Requests: Metric{Selector: requestsSelector},
		InFlight: Metric{Selector: durations, Scale: 0.001},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := model.Snapshot{
		"10.0.0.1:8080": {
			CPU: model.Reading{Value: 1.5, At: at(1990.123)}, Requests: model.Reading{Value: 0, At: at(1995)}, InFlight: model.Reading{Value: 2.5, At: at(1996)},
		},
		"10.0.0.2:8080": {CPU: model.Reading{Value: math.NaN(), At: at(1991)}}, // requests without a time are missing
		"10.0.0.3:9090": {CPU: model.Reading{Value: -1, At: at(1993)}},         // :8080 would share the host's series
	}
	if diff := cmp.Diff(overAMinute(want), got, same); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if len(s.asked) != 3 {
		t.Errorf("asked %d times, want once per metric: %q", len(s.asked), s.asked)
	}
}

func TestCollectNothing(t *testing.T) {
	question := ask("pod", "rate", "up", "1m")
	s := &store{answers: map[string]string{question: half("fib-1", "time", "1999")}}
	server := httptest.NewServer(s)
	defer server.Close()
	cfg := Config{URL: server.URL, CPU: Metric{Selector: "up"}}
	if got, err := collect(t, cfg); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v; want an empty snapshot: missing is not zero", got, err)
	}
	for name, test := range map[string]struct{ answer, fails string }{
		"other names": {
			strings.Join([]string{halves("web-1", "1", "1999"), halves("web-2", "1", "1999"), halves("web-3", "1", "1999"), halves("web-4", "1", "1999")}, ","),
			`label "pod" names none of the endpoints: it says "web-1", "web-2", "web-3" and 1 more; want fib-1 or 10.0.0.1:8080 or 10.0.0.1`,
		},
		"twice":    {half("fib-1", "value", "1") + "," + half("fib-1", "value", "2"), `"fib-1" is there twice`},
		"unasked":  {half("fib-1", "", "1"), `a series has the label taper_reading=""; want value or time`},
		"no value": {`{"metric":{"pod":"fib-1","taper_reading":"value"},"histogram":[2000,{"count":"1"}]}`, "a series has no value; want plain numbers"},
	} {
		s.answers[question] = test.answer
		got, err := collect(t, cfg)
		if err == nil || !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, %v; want an error with %q", name, got, err, test.fails)
		}
	}
}
