package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/contracttest"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim/scenario"
)

// pair is a scenario of a few thousand requests.
const pair = `
about: A slow endpoint beside a fast one.
rounds: 2
warm-up: 10s
measure: 20s
proxies: 4
load: {rate: 150}
endpoints:
  - {kind: fast, count: 2, cores: 2, demand: 5ms, distribution: lognormal}
  - {kind: slow, cores: 2, demand: 12ms, distribution: lognormal}
arms:
  - {name: least-request, policy: least-request}
  - {name: least-latency, policy: least-request, weights: {strategy: least-latency, interval: 2s}}
  - {name: all-knowing, policy: all-knowing}
`

// scenarioFile writes a scenario; rounds changes how often it runs.
func scenarioFile(t *testing.T, rounds string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pair.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(pair, "rounds: 2", "rounds: "+rounds, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// simRunContract is what scripts may rely on, beside what all experiments have.
const simRunContract = `{"scenario": "pair", "arms": [{"name": "least-request", "requests": 60000, "errors": 0,
  "p50_ms": 1, "p90_ms": 1, "p95_ms": 1, "p99_ms": 1, "p999_ms": 1, "cpu_cores": 1, "mean_ms": 1,
  "endpoints": [{"address": "fast-1", "demand": "fast", "requests_per_s": 1, "cpu_cores": 1, "p99_ms": 1, "weight": 1}],
  "kinds": [{"kind": "fast", "endpoints": 2, "requests_per_s": 1, "cpu_cores": 1, "p50_ms": 1, "p99_ms": 1, "weight": 1}],
  "series": [{"at_s": 0, "requests_per_s": 1, "errors": 0, "p50_ms": 1, "p99_ms": 1, "cpu_cores": 1, "in_flight": 1}]}],
 "ratios": {"least-latency/least-request": {"p50": 1, "p99": 1, "cpu": 1}},
 "simulation": {"source": "pair.yaml", "about": "…", "endpoints": 3, "warm_up_s": 10}}`

func TestSimRun(t *testing.T) {
	t.Parallel()
	file, page := scenarioFile(t, "2"), filepath.Join(t.TempDir(), "sim.html")
	got := execute(t.Context(), newSimRun(), file, "--json", "--report", page)
	if got.code != command.ExitDone || got.errOut != "" {
		t.Fatalf("exit code %d: %s", got.code, got.errOut)
	}
	contracttest.Has(t, simRunContract, []byte(got.out))
	var e report.Experiment
	if err := json.Unmarshal([]byte(got.out), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Arms) != 3 || e.Settings.Rounds != 2 || e.Simulation.Source != file || e.Simulation.Chosen {
		t.Errorf("%d arms, %d rounds, %+v", len(e.Arms), e.Settings.Rounds, e.Simulation)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "simulation of pair") {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
	// The same again, as its command line has it.
	chosen := execute(t.Context(), newSimRun(), file, "--json", "--report", "", "--arms", "all-knowing,least-request", "--rounds", "1", "--seed", "9")
	var other report.Experiment
	if err := json.Unmarshal([]byte(chosen.out), &other); err != nil {
		t.Fatalf("%v: %s", err, chosen.errOut)
	}
	if len(other.Arms) != 2 || other.Arms[0].Name != "all-knowing" || len(other.Arms[0].Rounds) != 1 || other.Settings.Seed != 9 {
		t.Errorf("%+v", other.Settings)
	}
	if want := "taper sim run " + file + " --arms all-knowing,least-request --rounds 1 --seed 9"; other.Command() != want {
		t.Errorf("command %q, want %q", other.Command(), want)
	}
}

func TestSimRunInWords(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "sim.html")
	got := execute(t.Context(), newSimRun(), scenarioFile(t, "1"), "--report", page)
	first, _, _ := strings.Cut(got.out, "\n")
	if got.code != command.ExitDone || !strings.HasPrefix(first, "Simulation of pair: ") {
		t.Fatalf("exit code %d, %s\n%s", got.code, got.errOut, got.out)
	}
	for _, want := range []string{"150 requests/s, 4 proxies, 3 simulated endpoints", "A slow endpoint beside a fast one.", "What no proxy can know", page} {
		if !strings.Contains(got.out, want) {
			t.Errorf("it lacks %q:\n%s", want, got.out)
		}
	}
}

func TestSimRunLists(t *testing.T) {
	t.Parallel()
	got := execute(t.Context(), newSimRun(), []string{}...)
	listed := execute(t.Context(), newSimRun(), "--json")
	contracttest.Has(t, `[{"name": "article", "about": "…", "endpoints": 15, "proxies": 32, "arms": ["least-request"]}]`, []byte(listed.out))
	var all []shipped
	if err := json.Unmarshal([]byte(listed.out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(scenario.Shipped()) || got.code != command.ExitDone {
		t.Errorf("%d scenarios are listed of %d, exit code %d", len(all), len(scenario.Shipped()), got.code)
	}
	for _, s := range all {
		if !strings.Contains(got.out, s.Name) {
			t.Errorf("%s is not listed:\n%s", s.Name, got.out)
		}
	}
}

func TestSimSweep(t *testing.T) {
	t.Parallel()
	file, page := scenarioFile(t, "1"), filepath.Join(t.TempDir(), "sweep.html")
	got := execute(t.Context(), newSimSweep(), file, "--vary", "load", "--from", "0.4", "--to", "1.2", "--steps", "3", "--json", "--report", page)
	if got.code != command.ExitDone || got.errOut != "" {
		t.Fatalf("exit code %d: %s", got.code, got.errOut)
	}
	contracttest.Has(t, `{"scenario": "pair", "parameter": "load", "values": [0.4], "arms": [{"name": "least-request", "points": [
		{"value": 0.4, "requests": 1, "errors": 0, "unfinished": 0, "p50_ms": {"median": 1, "low": 1, "high": 1}, "p99_ms": {"median": 1}, "cpu_cores": {"median": 1}}]}]}`, []byte(got.out))
	var s report.Sweep
	if err := json.Unmarshal([]byte(got.out), &s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{0.4, 0.8, 1.2}, s.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "sweep of pair") {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
	asCSV := execute(t.Context(), newSimSweep(), file, "--vary", "proxies", "--values", "8,1", "--csv", "--report", "", "--arms", "least-request")
	records, err := csv.NewReader(strings.NewReader(asCSV.out)).ReadAll()
	if err != nil || len(records) != 3 || records[1][1] != "1" || records[2][1] != "8" {
		t.Errorf("%v, %s: %q", err, asCSV.errOut, records)
	}
	words := execute(t.Context(), newSimSweep(), file, "--vary", "heterogeneity", "--values", "0,1", "--report", "")
	if !strings.HasPrefix(words.out, "Sweep of heterogeneity over pair: ") || !strings.Contains(words.out, "total CPU, cores") {
		t.Errorf("it says:\n%s%s", words.out, words.errOut)
	}
}

func TestSimUsage(t *testing.T) {
	t.Parallel()
	file := scenarioFile(t, "1")
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte(strings.Replace(pair, "proxies", "proxy", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"the shipped: article":                          {"run", "nothing"},
		"broken.yaml: line 6":                           {"run", broken},
		"2 scenarios are given":                         {"run", "article", "large"},
		`unknown arm "x": the scenario has least-reque`: {"run", file, "--arms", "x"},
		"least-request is there twice":                  {"run", file, "--arms", "least-request,least-request"},
		"--arms names no arm":                           {"run", file, "--arms", ""},
		"--rounds is 0: it must be in 1..1000":          {"run", file, "--rounds", "0"},
		`--memory-limit is "much"`:                      {"run", file, "--memory-limit", "much", "--report", ""},
		"allow more with --memory-limit":                {"run", file, "--memory-limit", "1Ki", "--report", ""},
		"0 scenarios are given, want one":               {"sweep", "--vary", "load", "--values", "1"},
		"nothing is varied":                             {"sweep", file},
		`unknown parameter "colour": it is one of load`: {"sweep", file, "--vary", "colour", "--values", "1"},
		"proxies 1.5: it takes a whole number":          {"sweep", file, "--vary", "proxies", "--values", "1.5"},
		"given by --values, or by --from":               {"sweep", file, "--vary", "load"},
		"or by --from, --to and --steps":                {"sweep", file, "--vary", "load", "--values", "1", "--from", "1"},
		"--from 2 --to 1 --steps 3 are no values":       {"sweep", file, "--vary", "load", "--from", "2", "--to", "1", "--steps", "3"},
		"--steps 51 are no values":                      {"sweep", file, "--vary", "load", "--from", "1", "--to", "2", "--steps", "51"},
		`--values has "x": it is no number`:             {"sweep", file, "--vary", "load", "--values", "1,x"},
		"load has the value 1 twice":                    {"sweep", file, "--vary", "load", "--values", "1,2,1"},
		"NaN is no value for load":                      {"sweep", file, "--vary", "load", "--values", "NaN"},
		"--json and --csv exclude each other":           {"sweep", file, "--vary", "load", "--values", "1", "--json", "--csv"},
		`unknown command "rum"`:                         {"rum"},
	} {
		got := execute(t.Context(), newSim(), args...)
		if got.code != command.ExitUsage || !strings.Contains(got.errOut, want) || strings.Count(got.errOut, "\n") != 1 || got.out != "" {
			t.Errorf("taper sim %s: exit code %d, %q; want %q", strings.Join(args, " "), got.code, got.errOut, want)
		}
	}
	got := execute(t.Context(), newSimRun(), file, "--report", t.TempDir())
	if got.code != command.ExitFailed || !strings.Contains(got.errOut, "it is a folder") {
		t.Errorf("a report into a folder: exit code %d, %q", got.code, got.errOut)
	}
}

// Ctrl-C ends what would take minutes, and leaves an earlier page.
func TestSimInterrupted(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"run": {"sim", "run"}, "sweep": {"sim", "sweep", "--vary", "load", "--values", "1,2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := filepath.Join(t.TempDir(), "sim.html")
			if err := os.WriteFile(page, []byte("earlier"), 0o600); err != nil {
				t.Fatal(err)
			}
			p := start(t, append(args, scenarioFile(t, "1000"), "--report", page)...)
			waitFor(t, "it to compute", func(context.Context) bool { return p.computed() })
			p.signal(syscall.SIGINT)
			if code := p.exit(); code != command.ExitFailed {
				t.Errorf("exit code %d, want %d", code, command.ExitFailed)
			}
			if said := p.said(); said != "taper: interrupted; nothing is left running\n" {
				t.Errorf("it said %q", said)
			}
			if text, _ := os.ReadFile(page); string(text) != "earlier" || p.stdout.Len() > 0 {
				t.Errorf("the earlier page is gone, or there is output: %q", p.stdout.String())
			}
		})
	}
}

// computed tells whether a process has used 0.2 s of CPU: it has started, and is at work.
func (p *taper) computed() bool {
	p.t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		return false
	}
	// Behind the name in brackets come the state and, 12th, user time in hundredths of a second.
	_, fields, _ := strings.Cut(string(stat), ") ")
	ticks, err := strconv.Atoi(strings.Fields(fields)[11])
	return err == nil && ticks >= 20
}
