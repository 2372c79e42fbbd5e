//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/lab/credentials"
	"taper.dev/taper/internal/trap"
)

// The metadata story with the real SDK: with short sessions the time of requests goes to
// the metadata service, which is found and said; with longer ones it does not.
func TestCredentialsLab(t *testing.T) {
	need(t, credentials.Launcher)
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "taper"), "lab", "credentials", "--json", "--measure", "10s")
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errOut.String())
	}
	var result credentials.Result
	must(t, json.Unmarshal(out.Bytes(), &result))

	short, long := offers(t, result.Short), offers(t, result.Long)
	t.Logf("short sessions: mean %.1f ms, of which %.1f for credentials; longer ones: %.1f and %.1f", short.MeanMS, metadata(short), long.MeanMS, metadata(long))
	// Two answers of 85 ms to each request, of which the machine may delay some.
	if metadata(short) < 160 {
		t.Errorf("with short sessions a request spends %.1f ms on credentials, want at least 160", metadata(short))
	}
	if metadata(long) > 10 {
		t.Errorf("with longer sessions a request spends %.1f ms on credentials, want 10 at most", metadata(long))
	}
	if !finds(result.Short, trap.High) {
		t.Errorf("credential-refresh is not found with short sessions: %+v", result.Short.Findings)
	}
	if finds(result.Long, trap.High) {
		t.Errorf("credential-refresh is found with longer sessions: %+v", result.Long.Findings)
	}
}

// offers is the route that the load asks for.
func offers(t *testing.T, e *explain.Explanation) *explain.Route {
	t.Helper()
	for i := range e.Routes {
		if e.Routes[i].Route == "/v1/offers/{id}" {
			return &e.Routes[i]
		}
	}
	t.Fatalf("no route to offers among %+v", e.Routes)
	return nil
}

func metadata(r *explain.Route) (ms float64) {
	for _, p := range r.Parts {
		if p.Cause == attribution.Metadata {
			ms += p.MeanMS
		}
	}
	return ms
}

func finds(e *explain.Explanation, s trap.Severity) bool {
	return slices.ContainsFunc(e.Findings, func(f explain.Finding) bool { return f.ID == "credential-refresh" && f.Severity == s })
}
