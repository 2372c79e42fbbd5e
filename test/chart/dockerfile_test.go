package chart

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// instruction is one of a Dockerfile.
type instruction struct {
	name string
	args []string
}

// dockerfile reads the repository's, comments and continued lines undone.
func dockerfile(t *testing.T) []instruction {
	t.Helper()
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAll(text, nil)
	var all []instruction
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, instruction{words[0], words[1:]})
		}
	}
	return all
}

// copied lists what goes from the repository into the image that compiles.
func copied(t *testing.T) []string {
	t.Helper()
	var sources []string
	for _, i := range dockerfile(t) {
		if i.name == "COPY" && !strings.HasPrefix(i.args[0], "--from") {
			sources = append(sources, i.args[:len(i.args)-1]...)
		}
	}
	return sources
}

// ignored tells whether .dockerignore keeps a file from the build.
func ignored(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	out := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		pattern, kept := strings.CutPrefix(line, "!")
		switch rest, anywhere := strings.CutPrefix(pattern, "**/"); {
		case line == "" || line[0] == '#':
		case pattern == "*", pattern == file, strings.HasPrefix(file, pattern+"/"):
			out = !kept
		case anywhere:
			for part := range strings.SplitSeq(file, "/") {
				if match, _ := filepath.Match(rest, part); match {
					out = !kept
				}
			}
		}
	}
	return out
}

// TestImage holds the images to what the chart, and the agents of taper net, count on.
func TestImage(t *testing.T) {
	t.Parallel()
	gomod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindSubmatch(gomod)[1]
	got := map[string][]string{}
	for _, i := range dockerfile(t) {
		got[i.name] = append(got[i.name], strings.Join(i.args, " "))
	}
	if from := got["FROM"]; len(from) != 3 || !regexp.MustCompile(`^--platform=\$BUILDPLATFORM golang:`+string(minor)+`\.[0-9]+-[a-z]+ AS build$`).MatchString(from[0]) ||
		from[1] != "scratch AS taper" || from[2] != "scratch AS taper-operator" {
		t.Errorf("FROM %q, want a pinned golang:%s.PATCH, then scratch for taper and, last, for taper-operator", from, minor)
	}
	// What runAsNonRoot and runAsUser of the chart say, too.
	if user := pods(t, render(t))["operator"].Spec.SecurityContext.RunAsUser; !slices.Equal(got["USER"], []string{"65532:65532", "65532:65532"}) || *user != 65532 {
		t.Errorf("USER %q, and the chart runs it as %d", got["USER"], *user)
	}
	if !slices.Equal(got["ENTRYPOINT"], []string{`["/taper"]`, `["/taper-operator"]`}) {
		t.Errorf("ENTRYPOINT %q", got["ENTRYPOINT"])
	}
}

// TestImageSources sees that all that is compiled is copied, and exists.
func TestImageSources(t *testing.T) {
	t.Parallel()
	sources := copied(t)
	for _, source := range sources {
		if _, err := os.Stat(filepath.Join(root, source)); err != nil || ignored(t, filepath.Clean(source)) {
			t.Errorf("COPY %s: %v, or .dockerignore leaves it out", source, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", `{{$dir := .Dir}}{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}{{end}}`, "./cmd/taper", "./cmd/taper-operator")
	list.Dir = root
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, said.String())
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 50 {
		t.Fatalf("only %d files are compiled", len(files))
	}
	for _, file := range files {
		file, err := filepath.Rel(absolute, file)
		if err != nil {
			t.Fatal(err)
		}
		within := slices.ContainsFunc(sources, func(source string) bool {
			return strings.HasPrefix(file, filepath.Clean(source)+"/")
		})
		if !within || ignored(t, file) {
			t.Errorf("%s is compiled, but not copied", file)
		}
	}
	if !ignored(t, "internal/operator/policy_test.go") || !ignored(t, ".git/config") || !ignored(t, "internal/cli/testdata/usage.txtar") {
		t.Error(".dockerignore lets in what is not compiled")
	}
}

// TestImageBuild runs the very command of the Dockerfile. It compiles everything anew,
// with flags of its own, which takes minutes: only where nothing may be left out.
func TestImageBuild(t *testing.T) {
	t.Parallel()
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "1" {
		t.Skip("takes minutes; TAPER_TEST_REQUIRE_ALL=1 has it run")
	}
	var command string
	for _, i := range dockerfile(t) {
		if line := strings.Join(i.args, " "); i.name == "RUN" && strings.Contains(line, "go build") {
			command = regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(line, "")
		}
	}
	dir := t.TempDir()
	command = strings.Replace(command, "/out/", dir+"/", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "sh", "-c", command)
	build.Dir = root
	build.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=v1.2.3-test")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for binary, version := range map[string]string{"taper": "version", "taper-operator": "--version"} {
		standsAlone(t, filepath.Join(dir, binary))
		out, err := exec.CommandContext(ctx, filepath.Join(dir, binary), version).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "v1.2.3-test") {
			t.Errorf("%s %s says %q, %v", binary, version, out, err)
		}
	}
}

func standsAlone(t *testing.T, binary string) {
	t.Helper()
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically: there is no loader in the image", binary)
		}
	}
}
