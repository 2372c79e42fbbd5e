package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExit(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such file")
	for _, tt := range []struct {
		err  error
		code int
		says string
	}{
		{nil, ExitDone, ""},
		{cause, ExitFailed, "taper: no such file\n"},
		{Usage(cause), ExitUsage, "taper: no such file\n"},
		{fmt.Errorf("starting: %w", Usagef("--for is %q", "x")), ExitUsage, "taper: starting: --for is \"x\"\n"},
		{Unmetf("p99: %w", cause), ExitCheck, "taper: p99: no such file\n"},
		{errors.Join(cause, Unmetf("p99: %w", cause)), ExitCheck, "taper: no such file; p99: no such file\n"},
		{Answered(ExitCheck), ExitCheck, ""},
		{fmt.Errorf("diff: %w", Answered(ExitFailed)), ExitFailed, ""},
		{errors.New(`unknown command "x" for "taper"`), ExitUsage, "taper: unknown command \"x\" for \"taper\"\n"},
		{errors.New("a server said \x1b[2J"), ExitFailed, "taper: a server said [2J\n"},
	} {
		var out bytes.Buffer
		if got := Exit(&out, "taper", tt.err); got != tt.code || out.String() != tt.says {
			t.Errorf("%v ends with %d and says %q, want %d and %q", tt.err, got, out.String(), tt.code, tt.says)
		}
	}
	if !errors.Is(Usage(cause), cause) || !errors.Is(Unmetf("p99: %w", cause), cause) {
		t.Error("the cause is lost")
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"leaf":        "",
		"leaf --no":   "unknown flag: --no; see taper leaf --help",
		"leaf x":      `taper leaf takes no argument, and "x" is one; see taper leaf --help`,
		"nonsense":    `unknown command "nonsense"; see taper --help`,
		"version one": `taper version takes no argument, and "one" is one; see taper version --help`,
	} {
		nothing := func(*cobra.Command, []string) error { return nil }
		root := &cobra.Command{Use: "taper", Args: NoArgs, RunE: nothing, SilenceErrors: true, SilenceUsage: true}
		root.SetFlagErrorFunc(WrongFlag)
		root.AddCommand(&cobra.Command{Use: "leaf", Args: NoArgs, RunE: nothing}, NewVersion("taper", "1"))
		root.SetArgs(strings.Fields(line))
		err := root.Execute()
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != want || Exit(io.Discard, "taper", err) != ExitUsage {
			t.Errorf("taper %s: %v, want %s", line, err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	run := func(linked string, args ...string) string {
		var out bytes.Buffer
		cmd := NewVersion("taper", linked)
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got, want := run("v1.2.3"), "taper v1.2.3 ("+runtime.Version()+")\n"; got != want {
		t.Errorf("version %q, want %q", got, want)
	}
	if got := run(""); strings.Contains(got, "taper  (") {
		t.Errorf("nothing is linked in, and the version is %q", got)
	}
	var got struct{ Version, Go string }
	if err := json.Unmarshal([]byte(run("v1.2.3", "--json")), &got); err != nil || got.Version != "v1.2.3" || got.Go != runtime.Version() {
		t.Errorf("JSON %+v, %v", got, err)
	}
}
