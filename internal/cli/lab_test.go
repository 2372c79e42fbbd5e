package cli

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report"
)

// The whole experiment, small: every arm measured, nothing failed, nothing left.
func TestLabBalance(t *testing.T) {
	need(t, "envoy", `run "make tools"`)
	for name, args := range map[string][]string{
		"emulated": {"--endpoints", "emulated", "--rate", "300"},
		"nginx":    {"--endpoints", "nginx", "--rate", "50", "--store", "victoria-metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "nginx" {
				need(t, "nginx", `run "make tools"`)
				need(t, "victoria-metrics", `run "make tools"`)
			}
			page := filepath.Join(t.TempDir(), "report.html")
			args = append([]string{
				"lab", "balance", "--proxies", "2", "--rounds", "1", "--measure", "2s", "--interval", "1s",
				"--arms", "least-request,least-latency", "--report", page, "--json", "--disturb",
			}, args...)
			p := start(t, args...)
			if code := p.exit(); code != command.ExitDone {
				t.Fatalf("exit code %d", code)
			}
			var result report.Experiment
			if err := json.Unmarshal(p.stdout.Bytes(), &result); err != nil {
				t.Fatalf("%v in:\n%s", err, p.stdout.String())
			}
			checkExperiment(t, &result)
			if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "least-latency") {
				t.Errorf("the report: %v, %d bytes", err, len(html))
			}
			if left := p.leftovers(); len(left) > 0 {
				t.Errorf("left running: %q", left)
			}
		})
	}
}

func checkExperiment(t *testing.T, result *report.Experiment) {
	t.Helper()
	if len(result.Arms) != 2 {
		t.Fatalf("%d arms", len(result.Arms))
	}
	for _, a := range result.Arms {
		if a.Requests == 0 || a.Errors != 0 || a.P50 <= 0 || a.P99 < a.P50 || a.CPU <= 0 || len(a.Endpoints) != 15 {
			t.Errorf("%s: %d requests, %d errors, p50 %g, p99 %g, CPU %g, %d endpoints", a.Name, a.Requests, a.Errors, a.P50, a.P99, a.CPU, len(a.Endpoints))
		}
	}
	if r := result.Ratios["least-latency/least-request"]; r.CPU <= 0 || r.CPU >= 1 {
		t.Errorf("CPU ratio %g: weights should have saved some", r.CPU)
	}
	balanced := result.Arms[1]
	if fast, slow := balanced.Endpoints[0].Weight, balanced.Endpoints[14].Weight; fast <= slow {
		t.Errorf("fib(25) has weight %d, fib(29) %d", fast, slow)
	}
	if len(balanced.Weights) < 5 {
		t.Errorf("%d decisions", len(balanced.Weights))
	}
	if result.Disturbance == nil || result.Disturbance.Factor != 2 {
		t.Errorf("disturbance %+v", result.Disturbance)
	}
}

func TestLabInterrupted(t *testing.T) {
	need(t, "envoy", `run "make tools"`)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(page, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "lab", "balance", "--proxies", "2", "--report", page)
	waitFor(t, "an Envoy to run", func(context.Context) bool {
		for _, line := range p.leftovers() {
			if strings.Contains(line, "--admin-address-path") {
				return true
			}
		}
		return false
	})
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != command.ExitFailed {
		t.Errorf("exit code %d, want %d", code, command.ExitFailed)
	}
	if said := p.said(); said != "taper: interrupted; nothing is left running\n" {
		t.Errorf("it said %q", said)
	}
	if left := p.leftovers(); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if text, _ := os.ReadFile(page); string(text) != "earlier" {
		t.Errorf("the earlier report is gone")
	}
}

func TestLabNamesAPortInUse(t *testing.T) {
	need(t, "envoy", `run "make tools"`)
	taken, err := net.Listen("tcp", "127.0.1.7:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := start(t, "lab", "balance", "--report", "")
	if code := p.exit(); code != command.ExitFailed {
		t.Errorf("exit code %d, want %d", code, command.ExitFailed)
	}
	said := p.said()
	if !strings.Contains(said, "127.0.1.7:8080") || strings.Count(said, "\n") != 1 {
		t.Errorf("it said %q, want one line with the address", said)
	}
	if left := p.leftovers(); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}
