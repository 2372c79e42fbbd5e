package kubectl

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the golden files and the command-line reference anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-taper": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// The scripts run the plugin as kubectl does, against an API server that has the
// objects of testdata/objects.yaml and of the script's own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: startAPI,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"api":   commandAPI,
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}

// exits runs a command and compares its exit code, which "! exec" does not tell:
// exits 2 kubectl-taper --nonsense.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v: %v", args[1:], err)
		}
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("%v: exit code %s, want %s\n%s", args[1:], got, args[0], ts.ReadFile("stderr"))
	}
}

// The reference is written from the commands themselves, on one page.
func TestReference(t *testing.T) {
	const committed = "../../docs/kubectl-taper.md"
	var page bytes.Buffer
	root := newRoot()
	root.DisableAutoGenTag = true
	writeReference(t, &page, root)
	if *update {
		if err := os.WriteFile(committed, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page.Bytes()) {
		t.Errorf("%s is stale: run make generate", filepath.Base(committed))
	}
}

func writeReference(t *testing.T, page *bytes.Buffer, cmd *cobra.Command) {
	t.Helper()
	anchor := func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}
	if err := doc.GenMarkdownCustom(cmd, page, anchor); err != nil {
		t.Fatal(err)
	}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
			writeReference(t, page, child)
		}
	}
}
