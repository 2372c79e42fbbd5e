package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// runTaper, set in the environment, makes the test binary be taper. Its value
// marks the processes of one test, which taper's children inherit.
const runTaper = "TAPER_TEST_RUN"

// patience is how long anything may take on a busy machine.
const patience = 60 * time.Second

// taper is a running taper command.
type taper struct {
	t      *testing.T
	cmd    *exec.Cmd
	mark   string
	mu     sync.Mutex
	stderr bytes.Buffer
	stdout bytes.Buffer
	ended  chan struct{}
}

// start runs taper as a process of its own, so that it can be sent signals.
func start(t *testing.T, args ...string) *taper {
	t.Helper()
	p := &taper{t: t, mark: runTaper + "=" + t.Name(), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), p.mark)
	p.cmd.Stdout = &p.stdout
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is read from ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("taper %s said:\n%s", strings.Join(args, " "), p.said())
		}
	})
	return p
}

// Write takes what taper says on standard error.
func (p *taper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *taper) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// exit waits for the end and returns the exit code.
func (p *taper) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(3 * patience):
		p.t.Fatal("taper does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *taper) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// leftovers are the command lines of processes that taper started and left.
func (p *taper) leftovers() []string {
	p.t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.t.Fatal(err)
	}
	var left []string
	for _, dir := range processes {
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && bytes.Contains(environ, []byte(p.mark+"\x00")) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			left = append(left, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return left
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !condition(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// need returns the path of a real server, or skips the test.
func need(t *testing.T, binary, cure string) string {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err == nil {
		return path
	}
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatalf("%v: %s", err, cure)
	}
	t.Skipf("%v: %s", err, cure)
	return ""
}
