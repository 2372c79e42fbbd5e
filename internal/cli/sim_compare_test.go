package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report"
)

// measured is an experiment with real Envoys.
const measured = "../lab/testdata/fibonacci.json"

// oneArm is the first arm of it, as if it had been measured once.
func oneArm(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(measured)
	if err != nil {
		t.Fatal(err)
	}
	var e report.Experiment
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	e.Arms, e.Settings.Rounds = e.Arms[:1], 1
	if text, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "experiment.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSimCompare(t *testing.T) {
	t.Parallel()
	experiment := oneArm(t)
	got := execute(t.Context(), newSimCompare(), experiment)
	if got.code != command.ExitDone || got.errOut != "" || !strings.HasPrefix(got.out, "The simulation agrees with what was measured within 15 %") {
		t.Errorf("exit code %d, said %q:\n%s", got.code, got.errOut, got.out)
	}
	// A bound that nothing can keep: what was measured is noisier than that.
	got = execute(t.Context(), newSimCompare(), experiment, "--within", "0.01", "--json")
	var a report.Agreement
	if err := json.Unmarshal([]byte(got.out), &a); err != nil {
		t.Fatal(err)
	}
	if got.code != command.ExitCheck || got.errOut != "" || a.Holds() || len(a.Arms) != 1 || len(a.Arms[0].Figures) != 3 {
		t.Errorf("exit code %d, said %q: %+v", got.code, got.errOut, a)
	}
}

func TestSimCompareUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"nothing":     {nil, "takes one experiment, - for standard input"},
		"two":         {[]string{measured, measured}, "takes one experiment"},
		"no file":     {[]string{filepath.Join(dir, "none.json")}, "none.json: no such file"},
		"within":      {[]string{measured, "--within", "0"}, "--within is 0"},
		"within NaN":  {[]string{measured, "--within", "NaN"}, "--within is NaN"},
		"empty input": {[]string{"-"}, "- is not what taper lab balance --json printed: unexpected end of JSON input"},
		"not JSON":    {[]string{write("page.html", "<html>")}, "page.html is not what taper lab balance --json printed"},
		"simulated":   {[]string{write("sim.json", `{"scenario": "article"}`)}, `sim.json: scenario is "article"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t.Context(), newSimCompare(), tt.args...)
			if got.code != command.ExitUsage || got.out != "" || !strings.Contains(got.errOut, tt.says) || strings.Count(got.errOut, "\n") != 1 {
				t.Errorf("exit code %d, said %q, want one line with %q", got.code, got.errOut, tt.says)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := execute(ctx, newSimCompare(), measured); got.code != command.ExitFailed || got.out != "" {
		t.Errorf("interrupted: exit code %d, %q", got.code, got.out)
	}
}
