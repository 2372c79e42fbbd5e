package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/contracttest"
	"taper.dev/taper/internal/pageload"
	"taper.dev/taper/internal/probe"
)

// servePage runs taper net serve with a page until the test ends, and returns where the
// page is.
func servePage(t *testing.T, args ...string) string {
	t.Helper()
	cmd := newNetServe()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	out, in := io.Pipe()
	cmd.SetOut(in)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"}, args...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.Close()
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "Serving a page on "); ok {
			return at
		}
	}
	t.Fatal("no page is served")
	return ""
}

// runPage runs taper net page.
func runPage(ctx context.Context, args ...string) (string, error) {
	cmd := newNetPage()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestNetPage(t *testing.T) {
	t.Parallel()
	url := servePage(t, "--node", "web-1", "--page-script-bytes", "20000")
	direct := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	report := filepath.Join(t.TempDir(), "page.html")
	out, err := runPage(t.Context(), url, "--direct", "web-1="+direct, "--users-max", "2", "--step", "500ms", "--json", "--report", report)
	if err != nil {
		t.Fatal(err)
	}
	var load probe.PageLoad
	if err := json.Unmarshal([]byte(out), &load); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	if len(load.Targets) != 2 || load.Targets[0].Name != "balancer" || load.Targets[1].Name != "web-1" || load.Targets[1].Connect != direct || load.Bottleneck == nil {
		t.Fatalf("%s", out)
	}
	for _, found := range load.Targets {
		if found.Objects != 4 || len(found.Steps) != 2 || found.Steps[0].Pages == 0 || found.Steps[0].Served["web-1"] == nil {
			t.Errorf("%+v", found)
		}
	}
	contracttest.Has(t, pageContract, []byte(out))
	page, err := os.ReadFile(report)
	if err != nil || !bytes.Contains(page, []byte("web-1")) {
		t.Errorf("the report: %v", err)
	}
}

// pageContract is what scripts may rely on.
const pageContract = `{"started": "2026-01-01T00:00:00Z", "targets": [{"name": "balancer", "url": "http://10.0.0.1/",
  "objects": 4, "page_bytes": 1, "steps": [{"users": 1, "bytes_per_s": 1, "pages_per_s": 1, "pages": 1, "errors": 0,
    "client_busy": 0.5, "p50_ms": 1, "bins": [1], "served_bins": {"web-1": [1]}}]}],
  "bottleneck": {"hop": "balancer", "sentence": "…"}}`

func TestNetPageSaysWhatTheFirstLineAnswers(t *testing.T) {
	t.Parallel()
	out, err := runPage(t.Context(), servePage(t, "--page-script-bytes", "20000"), "--users-max", "1", "--step", "500ms")
	if first, _, _ := strings.Cut(out, "\n"); err != nil || !strings.Contains(first, "1 user") && !strings.Contains(first, "client") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// What the servers behind it give is told even where the balancer is broken.
func TestNetPageFailsWithoutThePage(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	out, err := runPage(t.Context(), broken.URL, "--direct", "web-1="+servePage(t), "--users-max", "1", "--step", "500ms")
	if code := command.Exit(io.Discard, "taper", err); code != command.ExitFailed || !strings.Contains(err.Error(), "502 Bad Gateway") {
		t.Errorf("exit code %d, %v", code, err)
	}
	if !strings.Contains(out, "web-1") || !strings.Contains(out, "502 Bad Gateway") {
		t.Errorf("it says:\n%s", out)
	}
}

func TestNetPageUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"no page: give its URL":           {},
		"2 pages are given":               {"http://a", "http://b"},
		`"ftp://a" is no page`:            {"ftp://a"},
		"has a password in it":            {"http://user:secret@a"},
		"--direct x= names no server":     {"http://a", "--direct", "x="},
		"not an address to connect to":    {"http://a", "--direct", "10.0.0.2"},
		`are called "10.0.0.2:80"`:        {"http://a", "--direct", "10.0.0.2:80", "--direct", "10.0.0.2:80"},
		"--users-max must be more than 0": {"http://a", "--users-max", "0"},
		"-1 users are not possible":       {"http://a", "--users-max", "-1"},
		"steps of 1ms are not possible":   {"http://a", "--step", "1ms"},
		"reading the certificates":        {"https://a", "--ca", "/nowhere/ca.pem"},
		"--json and --csv exclude":        {"http://a", "--json", "--csv"},
	} {
		_, err := runPage(t.Context(), args...)
		if code := command.Exit(io.Discard, "taper", err); code != command.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: exit code %d, %v, want %q", args, code, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells a secret", err)
		}
	}
}

func TestDirectTargets(t *testing.T) {
	t.Parallel()
	const page = "http://shop.example/?a=b"
	for text, want := range map[string]pageload.Target{
		"web-1=10.0.0.2:8080":             {Name: "web-1", URL: page, Connect: "10.0.0.2:8080"},
		"10.0.0.2:8080":                   {Name: "10.0.0.2:8080", URL: page, Connect: "10.0.0.2:8080"},
		"[fd00::2]:80":                    {Name: "[fd00::2]:80", URL: page, Connect: "[fd00::2]:80"},
		"canary=https://canary.example/x": {Name: "canary", URL: "https://canary.example/x"},
		"http://10.0.0.2/?a=b":            {Name: "10.0.0.2", URL: "http://10.0.0.2/?a=b"},
	} {
		if got, err := directTarget(text, page); err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestNetServePageUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--page names another address":        {"--page", "127.0.0.1:99999"},
		"app.js of 1 bytes is not possible":   {"--page", "127.0.0.1:0", "--page-script-bytes", "1"},
		"it must be of printable ASCII":       {"--page", "127.0.0.1:0", "--node", "wéb"},
		"--page-script-bytes is for --page":   {"--page-script-bytes", "2000"},
		"app.js of -1 bytes is not possible:": {"--page", "127.0.0.1:0", "--page-script-bytes", "-1"},
	} {
		cmd := newNetServe()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(io.Discard)
		cmd.SetArgs(append(args, "--listen", "127.0.0.1:0"))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
		cancel()
	}
}
