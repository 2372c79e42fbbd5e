package predict

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"taper.dev/taper/internal/model"
)

// written is a snapshot as a person writes one.
const written = `# from the dashboard
kind: ServiceSnapshot
version: 1
service: shop
window_s: 30
windows: [2027-01-15T08:00:30Z, 2027-01-15T08:01:00Z, 2027-01-15T08:01:30Z]
proxies: 8
policy: round-robin
latency: {p50_ms: 5, p99_ms: 80}
balance: {strategy: equal-load, utilization_limit: 0.6}
endpoints:
- address: 10.0.0.1:80
  name: web-1
  capacity_cores: 2
  cpu_cores: [0.3, 0.31, null]
  requests_per_s: [100, 102, 99]
- address: 10.0.0.2:80
  capacity_cores: 1.5
  cpu_cores: [0.5, 0.52, 0.49]
  requests_per_s: [100, 98, 101]
  in_flight: [0.8, 0.9, 0.7]
`

func TestReadWrittenByAPerson(t *testing.T) {
	t.Parallel()
	s, err := Read(strings.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "shop" || s.Proxies != 8 || s.Choice != "round-robin" || *s.Today != (Latency{P50: 0.005, P99: 0.08}) || s.Length != 30*time.Second {
		t.Errorf("read %+v", s)
	}
	if p := s.Policy; p.Strategy != "equal-load" || p.UtilizationLimit != 0.6 || p.MinShare != 0.05 {
		t.Errorf("policy %+v", p)
	}
	first, last := s.Windows[0].Samples["10.0.0.1:80"], s.Windows[2].Samples["10.0.0.1:80"]
	if first.CPU != (model.Reading{Value: 0.3, At: s.Windows[0].End}) || first.InFlight.Known() {
		t.Errorf("first sample %+v", first)
	}
	if last.CPU.Known() || last.Requests.Value != 99 {
		t.Errorf("null was read as %+v", last)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Service{
		"observed": unequal().observed(t, 4, 2*time.Second, 1),
		"written":  mustRead(t, written),
	} {
		var file bytes.Buffer
		if err := s.Write(&file); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(s, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: writing and reading changed the service (-written +read):\n%s", name, diff)
		}
	}
}

func mustRead(t testing.TB, text string) *Service {
	t.Helper()
	s, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReadRejects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, says string }{
		"empty":             {written, "", "the snapshot is empty"},
		"not YAML":          {written, "a: [1", "line 1"},
		"kind":              {"ServiceSnapshot", "Scenario", `kind is "Scenario": a snapshot has kind: ServiceSnapshot`},
		"version":           {"version: 1", "version: 2", "version is 2: this taper reads version 1"},
		"unknown key":       {"proxies: 8", "proxy: 8", `line 7: unknown key "proxy": known here are kind, version, service`},
		"unknown deeper":    {"name: web-1", "pod: web-1", `unknown key "pod": known here are address, name, capacity_cores`},
		"two documents":     {"in_flight: [0.8, 0.9, 0.7]\n", "in_flight: [0.8, 0.9, 0.7]\n---\n{}\n", "more than one YAML document"},
		"twice":             {"10.0.0.2:80", "10.0.0.1:80", "endpoint 10.0.0.1:80 is there twice"},
		"no capacity":       {"capacity_cores: 1.5", "", "endpoint 10.0.0.2:80 has a capacity of 0 cores"},
		"capacity":          {"capacity_cores: 1.5", "capacity_cores: 1e300", "capacity of 1e+300 cores"},
		"too little":        {"capacity_cores: 1.5", "capacity_cores: 0.4", "used 0.5 cores over the 30s until 2027-01-15T08:00:30Z and has a capacity of 0.4"},
		"negative":          {"[100, 102, 99]", "[100, -2, 99]", `endpoint "10.0.0.1:80": requests_per_s is -2 in the window that ends at 2027-01-15T08:01:00Z`},
		"NaN":               {"[100, 102, 99]", "[100, .nan, 99]", "requests_per_s is NaN"},
		"endless":           {"[100, 102, 99]", "[100, .inf, 99]", "requests_per_s is +Inf"},
		"too few figures":   {"[100, 102, 99]", "[100, 102]", "requests_per_s has 2 figures for 3 windows"},
		"window":            {"window_s: 30", "window_s: 0", "window_s is 0"},
		"window NaN":        {"window_s: 30", "window_s: .nan", "window_s is NaN"},
		"overlap":           {"08:01:00Z", "08:00:45Z", "are less than 30s apart"},
		"falling":           {"08:01:00Z", "08:05:00Z", "are less than 30s apart"},
		"bad time":          {"2027-01-15T08:01:00Z", "yesterday", "yesterday"},
		"proxies":           {"proxies: 8", "proxies: -1", "-1 proxies"},
		"latency":           {"p99_ms: 80", "p99_ms: 4", "p50 5 ms and p99 4 ms"},
		"latency missing":   {", p99_ms: 80", "", "p99 0 ms"},
		"policy":            {"round-robin", "fastest", `unknown policy "fastest": it is one of random`},
		"strategy":          {"equal-load", "fastest", `unknown strategy "fastest"`},
		"limit":             {"limit: 0.6", "limit: 7", "utilization limit is 7"},
		"one endpoint":      {written[strings.Index(written, "- address: 10.0.0.2"):], "", "has 1 endpoints"},
		"two windows":       {", 2027-01-15T08:01:30Z", "", "figures for 2 windows"},
		"too many windows":  {"windows: [", "windows: [" + strings.Repeat("2027-01-15T08:00:30Z, ", mostWindows), "figures for"},
		"not a mapping":     {written, "[1, 2]", "cannot unmarshal"},
		"larger than large": {"# from", "#" + strings.Repeat("x", maxSnapshot) + "\n# from", "more than 8 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(written, tt.old, tt.new, 1)
			if text == written {
				t.Fatal("the test changes nothing")
			}
			if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte(`{"kind": "ServiceSnapshot", "version": 1}`))
	var file bytes.Buffer
	if err := mustRead(f, written).Write(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := s.Write(&file); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Read(&file)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if again.Name != s.Name || len(again.Windows) != len(s.Windows) || len(again.Endpoints) != len(s.Endpoints) {
			t.Errorf("it became %d endpoints and %d windows", len(again.Endpoints), len(again.Windows))
		}
	})
}
