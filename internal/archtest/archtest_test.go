package archtest

import (
	"context"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// root is the repository, seen from this package.
const root = "../.."

func TestLayers(t *testing.T) {
	for _, line := range check(layers, tree(t)) {
		t.Error(line)
	}
}

func TestEnginesHaveNoClock(t *testing.T) {
	for _, l := range layers {
		if !l.engine {
			continue
		}
		for _, name := range l.packages {
			files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no Go files found (%v)", name, err)
			}
			for _, file := range files {
				if !strings.HasSuffix(file, "_test.go") {
					reportClock(t, file)
				}
			}
		}
	}
}

func reportClock(t *testing.T, file string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range clockReads(set, parsed) {
		t.Error(line)
	}
}

// tree lists the packages of the repository as the go command sees them.
func tree(t *testing.T) []pkg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Doc,Imports", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %v: %s", err, failed.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Doc string
			Imports         []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("reading the output of go list: %v", err)
		}
		packages = append(packages, pkg{strings.TrimPrefix(p.ImportPath, module), p.Doc, p.Imports})
	}
}

// The check itself, on a made-up tree: an engine, an edge with two children, and
// an orchestrator.
func TestCheck(t *testing.T) {
	layers := []layer{
		{packages: []string{"model"}, engine: true},
		{packages: []string{"edge"}},
		{packages: []string{"edge/a", "edge/b"}, sees: []string{parent, "model"}},
		{packages: []string{"loop"}},
		{packages: []string{"part/x", "part/y"}, sees: []string{"edge/..."}},
	}
	sound := func() map[string]pkg {
		return map[string]pkg{
			"model":  {"model", "Doc.", []string{"math", "slices", "time"}},
			"edge":   {"edge", "Doc.", []string{module + "model", "net/http"}},
			"edge/a": {"edge/a", "Doc.", []string{module + "model", module + "edge", "os", "example.com/x"}},
			"edge/b": {"edge/b", "Doc.", nil},
			"loop":   {"loop", "Doc.", []string{module + "edge/a", module + "edge/b", module + "model"}},
			"part/x": {"part/x", "Doc.", []string{module + "edge/a"}},
			"part/y": {"part/y", "Doc.", nil},
		}
	}
	tests := []struct {
		name   string
		change pkg // replaces or adds the package of its path
		want   []string
	}{
		{"sound", sound()["loop"], nil},
		{"up", pkg{"model", "Doc.", []string{module + "loop"}},
			[]string{"model must not import taper.dev/taper/loop: imports point down"}},
		{"sibling", pkg{"edge/a", "Doc.", []string{module + "edge/b"}},
			[]string{"edge/a must not import taper.dev/taper/edge/b: they are in one layer, whose packages do not see each other"}},
		{"beyond what it sees", pkg{"part/x", "Doc.", []string{module + "model"}},
			[]string{"part/x must not import taper.dev/taper/model: its layer sees only edge/..."}},
		{"unknown", pkg{"edge/c", "Doc.", nil},
			[]string{"edge/c is not in the table of layers: say there where it belongs"}},
		{"import of unknown", pkg{"loop", "Doc.", []string{module + "edge/c"}},
			[]string{"loop must not import taper.dev/taper/edge/c: it is not in the table of layers"}},
		{"no doc", pkg{"loop", "", nil},
			[]string{"loop has no doc comment: say what comes in, what goes out, where to start"}},
		{"engine with chance", pkg{"model", "Doc.", []string{"math/rand/v2"}},
			[]string{"model must not import math/rand/v2: an engine has no client, clock, logger, file or chance in it"}},
		{"engine with a library", pkg{"model", "Doc.", []string{"gonum.org/v1/gonum/stat"}},
			[]string{"model must not import gonum.org/v1/gonum/stat: an engine imports nothing from outside the standard library"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := sound()
			changed[tt.change.Path] = tt.change
			var packages []pkg
			for _, p := range changed {
				packages = append(packages, p)
			}
			if diff := cmp.Diff(tt.want, check(layers, packages)); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("gone from the tree", func(t *testing.T) {
		want := []string{"model is in the table of layers but not in the tree"}
		if diff := cmp.Diff(want, check(layers[:1], nil)); diff != "" {
			t.Errorf("check (-want +got):\n%s", diff)
		}
	})
}

func TestClockReads(t *testing.T) {
	tests := []struct {
		name, source string
		want         []string
	}{
		{"told the time", `import "time"; func f(now time.Time) time.Time { return now.Add(time.Second) }`, nil},
		{"another's Now", `func f(time interface{ Now() int }) int { return time.Now() }`, nil},
		{"called", `import "time"; var t = time.Now()`, []string{"x.go:1:35 uses time.Now: an engine is told the time"}},
		{"handed on", `import "time"; var now = time.Now`, []string{"x.go:1:37 uses time.Now: an engine is told the time"}},
		{"renamed", `import clock "time"; var t = clock.NewTimer(1)`, []string{"x.go:1:41 uses time.NewTimer: an engine is told the time"}},
		{"hidden", `import . "time"; var t = Now()`, []string{"x.go imports time as ., which hides uses of the clock"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, "x.go", "package x; "+tt.source, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, clockReads(set, file)); diff != "" {
				t.Errorf("clockReads (-want +got):\n%s", diff)
			}
		})
	}
}
