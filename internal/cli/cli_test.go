package cli

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the command-line reference anew")

func TestMain(m *testing.M) {
	if os.Getenv(runTaper) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		"taper": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// The scripts run taper as a person does: arguments in, output and exit code out.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"synthesise": synthesise,
		},
		RequireExplicitExec: true,
	})
}

// exits runs a command and compares its exit code, which "! exec" does not tell:
// exits 2 taper --nonsense.
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

// The reference in docs/cli is written from the commands themselves.
func TestReference(t *testing.T) {
	fresh := t.TempDir()
	root := newRoot()
	root.DisableAutoGenTag = true
	if err := doc.GenMarkdownTree(root, fresh); err != nil {
		t.Fatal(err)
	}
	const committed = "../../docs/cli"
	if *update {
		if err := os.RemoveAll(committed); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(committed, os.DirFS(fresh)); err != nil {
			t.Fatal(err)
		}
	}
	want, got := pages(t, fresh), pages(t, committed)
	for name, text := range want {
		if !bytes.Equal(text, got[name]) {
			t.Errorf("docs/cli/%s is stale: run make generate", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("docs/cli/%s belongs to no command: run make generate", name)
	}
}

func pages(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = text
	}
	return texts
}
