package cluster

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needIsolation skips the test, or fails it with TAPER_TEST_REQUIRE_ALL=1.
func needIsolation(t *testing.T) {
	t.Helper()
	if err := Isolated(); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// child is this program, about to call Isolate: the network that it gets from us
// does not count.
func child(t *testing.T, does string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asChild+"="+does, namespaceEnv+"=net:[1]", "TMPDIR=/")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestAnIsolatedProgramStartsAnewAsItWas(t *testing.T) {
	needIsolation(t)
	out, err := child(t, "exit", "one", "two words").Output()
	if want := scratch + " [one two words]\n"; string(out) != want {
		t.Errorf("it wrote %q, want %q", out, want)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("it ended with %v, want status 7", err)
	}
}

func TestAnIsolatedProgramEndsBySignalsAndLeavesNothing(t *testing.T) {
	needIsolation(t)
	cmd := child(t, "wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "written" {
	}
	if _, err := os.Stat(filepath.Join(scratch, "mine")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its temporary file is seen from outside: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want SIGTERM", err)
	}
}

func TestTheNetworkIsItsOwn(t *testing.T) {
	needIsolation(t)
	for _, address := range []string{"10.9.200.7:8080", "[fd09::200:7]:8080"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		defer l.Close()
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			t.Error(err)
			continue
		}
		conn.Close()
	}
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("to %s: %v, want no route", address, err)
		}
	}
}

func TestIsolatedSaysWhatIsMissing(t *testing.T) {
	t.Setenv(namespaceEnv, "net:[1]") // another one
	if err := Isolated(); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("got %v", err)
	}
}
