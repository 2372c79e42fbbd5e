package cli

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"taper.dev/taper/internal/contracttest"
	"taper.dev/taper/internal/probe"
)

// What taper net test --json promises: of all tests, of bandwidth, and of latency.
const (
	netContract = `{"started": "…", "from": "…", "to": "…", "path": "host", "tests": [
  {"name": "…", "direction": "out", "message_bytes": 1, "duration_s": 2, "streams": 1, "trials": [1]}], "conditions": {"mtu": 1500, "shaped": false}}`
	netBandwidthContract = `{"tests": [{"bytes_per_s": 1, "ci": [1, 2]}]}`
	netLatencyContract   = `{"tests": [{"median_us": 1, "ci": [1, 2], "rtt_us": {"count": 1, "mean": 1, "p50": 1, "max": 1}, "qperf_us": 1, "netperf_us": 1}],
 "conditions": {"noise_floor_us": 1}}`
)

func TestNetTestKeepsItsContract(t *testing.T) {
	t.Parallel()
	_, address := serveNet(t)
	for test, contract := range map[string]string{"tcp_bw": netBandwidthContract, "tcp_lat": netLatencyContract} {
		p := start(t, "net", "test", "--json", "--trial", "30ms", "--rounds", "12", "--budget", "20s", "--sustain", "0", "--tests", test, "--direction", "out", address)
		if code := p.exit(); code != 0 {
			t.Fatalf("%s: exit code %d", test, code)
		}
		contracttest.Has(t, netContract, p.stdout.Bytes())
		contracttest.Has(t, contract, p.stdout.Bytes())
	}
}

// One run goes to everywhere at once, and a second one is compared with it.
func TestNetTestIsKeptEverywhere(t *testing.T) {
	t.Parallel()
	_, address := serveNet(t)
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	const token = "s3cr3t-token"
	if err := os.WriteFile(file("token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			n, _ := io.Copy(io.Discard, r.Body)
			written.Add(n)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(store.Close)
	for range 2 {
		p := start(t, netTestArgs("--tests", "tcp_bw,tcp_lat", "--history", file("net.jsonl"), "--report", file("report.html"),
			"--remote-write", store.URL+"/api/v1/write", "--remote-write-token-file", file("token"), "here="+address)...)
		if code := p.exit(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		first, _, _ := strings.Cut(p.stdout.String(), "\n")
		if !strings.Contains(first, "bit/s and ") || !strings.Contains(first, address) || !strings.Contains(p.stdout.String(), "The whole of it, with charts: ") {
			t.Errorf("it says:\n%s", p.stdout.String())
		}
		if strings.Contains(p.stdout.String()+p.said(), token) {
			t.Error("the token is told")
		}
	}
	if written.Load() == 0 {
		t.Error("the store has got nothing, or not with the token")
	}
	html, err := os.ReadFile(file("report.html"))
	if err != nil || !strings.Contains(string(html), "<h2 id=\"figures\">What was measured</h2>") || strings.Contains(string(html), token) {
		t.Errorf("the page has %d bytes, %v", len(html), err)
	}

	p := start(t, "net", "compare", file("net.jsonl"), "--json", "--report", file("difference.html"))
	if code := p.exit(); code != 0 {
		t.Fatalf("comparing ends with %d", code)
	}
	var c probe.Comparison
	if err := json.Unmarshal(p.stdout.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Tests) != 3 || c.Tests[0].OldTrials < 2 || !c.New.Started.After(c.Old.Started) {
		t.Errorf("compared are %+v", c)
	}
	if info, err := os.Stat(file("difference.html")); err != nil || info.Size() < 5000 {
		t.Errorf("the page about it: %v, %v", info, err)
	}
}

func TestNetTestPrintsCSV(t *testing.T) {
	t.Parallel()
	_, address := serveNet(t)
	p := start(t, netTestArgs("--tests", "tcp_lat", "--csv", address)...)
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	rows, err := csv.NewReader(&p.stdout).ReadAll()
	if err != nil || len(rows) != 2 || rows[0][0] != "started" || rows[1][5] != "tcp_lat" {
		t.Errorf("%v: %v", err, rows)
	}
}

// What was measured is shown even if it cannot be kept, and the exit code is not 0.
func TestNetTestThatCannotBeKeptIsShown(t *testing.T) {
	t.Parallel()
	_, address := serveNet(t)
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(store.Close)
	history := filepath.Join(t.TempDir(), "net.jsonl")
	p := start(t, netTestArgs("--tests", "tcp_lat", "--history", history, "--remote-write", store.URL, address)...)
	if code := p.exit(); code != 1 || !strings.Contains(p.said(), "the store answered 403 Forbidden") {
		t.Errorf("exit code %d: %s", code, p.said())
	}
	if !strings.Contains(p.stdout.String(), "tcp_lat") {
		t.Errorf("it shows:\n%s", p.stdout.String())
	}
	if b, err := os.ReadFile(history); err != nil || len(b) == 0 {
		t.Errorf("what could be kept is not: %d bytes, %v", len(b), err)
	}
}
