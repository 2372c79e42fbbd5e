package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/contracttest"
)

const sweepContract = `{"scenario": "article", "parameter": "load", "values": [0.5, 1], "simulation": {"endpoints": 15, "warm_up_s": 60},
 "settings": {"rounds": 2, "seed": 1}, "arms": [{"name": "least-request", "points": [{"value": 0.5, "requests": 1, "errors": 0, "unfinished": 0,
  "p50_ms": {"median": 1, "low": 1, "high": 1}, "p99_ms": {"median": 1, "low": 1, "high": 1}, "cpu_cores": {"median": 1, "low": 1, "high": 1}}]}]}`

func TestSweepKeepsTheContract(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := read[Sweep](t, "sweep").WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	contracttest.Has(t, sweepContract, out.Bytes())
}

func TestNewPoint(t *testing.T) {
	t.Parallel()
	arm := Arm{Rounds: []Round{{Requests: 10, P50: 1, P99: 5, CPU: 2}, {Requests: 11, Errors: 1, P50: 3, P99: 9, CPU: 4}, {Requests: 12, P50: 2, P99: 7, CPU: 3}}}
	arm.Conclude()
	want := Point{Value: 0.5, Requests: 33, Errors: 1, P50: Spread{2, 1, 3}, P99: Spread{7, 5, 9}, CPU: Spread{3, 2, 4}}
	if diff := cmp.Diff(want, NewPoint(0.5, &arm)); diff != "" {
		t.Errorf("point (-want +got):\n%s", diff)
	}
}

// swept is a sweep of arms with these p99s; CPU is a tenth of it.
func swept(arms map[string][]float64, names ...string) *Sweep {
	s := &Sweep{Scenario: "s", Parameter: "load"}
	for _, name := range names {
		arm := SweptArm{Name: name}
		for i, p99 := range arms[name] {
			arm.Points = append(arm.Points, Point{Value: float64(i), Requests: 1000, P99: Spread{Median: p99, Low: p99, High: p99}, CPU: Spread{Median: p99 / 10}})
		}
		s.Arms = append(s.Arms, arm)
	}
	for i := range s.Arms[0].Points {
		s.Values = append(s.Values, float64(i))
	}
	return s
}

func TestSweepVerdict(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s    *Sweep
		want string
	}{
		"everywhere": {swept(map[string][]float64{"a": {10, 20}, "b": {5, 4}}, "a", "b"),
			"b has the lowest p99 at every value, 0.20 to 0.50 times that of a, with 0.20 to 0.50 times its CPU."},
		"mostly": {swept(map[string][]float64{"a": {10, 20, 30}, "b": {5, 40, 15}}, "a", "b"),
			"b has the lowest p99 at 2 of 3 values, 0.50 to 2.00 times that of a, with 0.50 to 2.00 times its CPU."},
		"the first":     {swept(map[string][]float64{"a": {10, 20}, "b": {11, 21}}, "a", "b"), "a has the lowest p99 at every value."},
		"the same":      {swept(map[string][]float64{"a": {10, 20}, "b": {5, 10}}, "a", "b"), "0.50 times that of a, with 0.50 times its CPU."},
		"nothing there": {swept(map[string][]float64{"a": {0, 0}}, "a"), "no verdict, as no arm answered a request."},
	} {
		if got := tt.s.Verdict(); !strings.HasPrefix(got, "Sweep of load over s: ") || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: the verdict is %q, want %q", name, got, tt.want)
		}
	}
	// A bound wins nothing, nor does one that fails requests.
	s := swept(map[string][]float64{"a": {10}, "b": {5}, "c": {4}, "d": {3}}, "a", "b", "c", "d")
	s.Arms[2].Bound = true
	s.Arms[3].Points[0].Errors = 100
	if diff := cmp.Diff([]int{0, 1, 0, 0}, s.wins()); diff != "" {
		t.Errorf("wins (-want +got):\n%s", diff)
	}
}

func TestSweepRows(t *testing.T) {
	t.Parallel()
	s := swept(map[string][]float64{"a": {10, 0}, "b": {5, 41.3}}, "a", "b")
	s.Arms[1].Points[1].Grows, s.Arms[1].Points[1].P99.High = true, 50
	want := []Row{
		{Name: "a", Cells: []Cell{{Value: "10.0"}, {Value: Missing}}},
		{Name: "b", Cells: []Cell{{Value: "5.00"}, {Value: "41.3" + Growing, Spread: "41.3–50.0", Trend: Worse}}},
	}
	if diff := cmp.Diff(want, s.Rows(sweptTail)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if s.Failures() != nil || len(s.Remarks()) != 1 || !strings.HasPrefix(s.Remarks()[0], Growing) {
		t.Errorf("failures %v, remarks %q", s.Failures(), s.Remarks())
	}
	s.Arms[0].Points[1].Errors = 1234
	want = []Row{{Name: "a", Cells: []Cell{{Value: "0"}, {Value: "1,234", Trend: Worse}}}, {Name: "b", Cells: []Cell{{Value: "0"}, {Value: "0"}}}}
	if diff := cmp.Diff(want, s.Failures()); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestSweepCSV(t *testing.T) {
	t.Parallel()
	s := read[Sweep](t, "sweep")
	var out bytes.Buffer
	if err := s.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll() // which wants lines of equal length
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 1+len(s.Arms)*len(s.Values) {
		t.Fatalf("%d lines of %d arms and %d values", len(records), len(s.Arms), len(s.Values))
	}
	line := map[string]string{}
	for i, name := range records[0] {
		line[name] = records[1+len(s.Values)][i] // of the second arm
	}
	p := s.Arms[1].Points[0]
	if line["parameter"] != "load" || line["arm"] != s.Arms[1].Name || line["value"] != "0.5" || line["p99_ms"] != shortest(p.P99.Median) || line["cpu_high_cores"] != shortest(p.CPU.High) {
		t.Errorf("the line is %v", line)
	}
}

func TestSweepConditionsAndCommand(t *testing.T) {
	t.Parallel()
	s := read[Sweep](t, "sweep")
	if got := s.Conditions(); !strings.HasPrefix(got, "1,500 requests/s at load 1, 32 proxies, 15 simulated endpoints") {
		t.Errorf("conditions %q", got)
	}
	if got, want := s.Command(), "taper sim sweep article --vary load --values 0.5,1,1.5,1.8 --arms least-request,round-robin,least-latency,all-knowing --rounds 2 --seed 1"; got != want {
		t.Errorf("command\n got %s\nwant %s", got, want)
	}
	s.Parameter, s.Simulation.Source = "proxies", ""
	if got := s.Conditions(); strings.Contains(got, "proxies") {
		t.Errorf("proxies are varied, and the conditions are %q", got)
	}
	if s.Command() != "" {
		t.Errorf("the command of a sweep whose source is not known is %q", s.Command())
	}
}
