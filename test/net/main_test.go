package net_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/lab/netns"
)

// ownNetwork notes that this program has a network and mounts of its own.
const ownNetwork = "TAPER_TEST_NETWORK"

// taper is the program under test, folder what all may read of ours.
var taper, folder string

// Names of this machine that its own hosts file has.
const (
	hosts    = "127.0.0.1 localhost\n::1 localhost\n10.77.0.1 both.test\nfd77::1 both.test\n10.77.0.1 old.test\n"
	ownIPv4  = "10.77.0.1"
	ownIPv6  = "fd77::1"
	loopback = "127.0.0.1"
)

func TestMain(m *testing.M) {
	if err := netns.Restart(ownNetwork, unix.CLONE_NEWNS, func() error { return nil }); err != nil {
		fmt.Fprintln(os.Stderr, "not isolated:", err)
		os.Exit(m.Run())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds the program, and runs the tests.
func run(m *testing.M) (code int, err error) {
	if folder, err = os.MkdirTemp("", "taper-net-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil {
		return 0, err
	}
	taper = filepath.Join(folder, "taper")
	build := exec.Command("go", "build", "-o", taper, "taper.dev/taper/cmd/taper")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building taper: %w: %s", err, out)
	}
	if err := furnish(); err != nil {
		return 0, err
	}
	// Most of them wait for something that never comes, which takes no CPU.
	if err := flag.Set("test.parallel", "12"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// furnish gives this machine addresses of both families, and names for them.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	file := filepath.Join(folder, "hosts")
	if err := os.WriteFile(file, []byte(hosts), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("putting names in the place of /etc/hosts: %w", err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("bringing up the loopback with ip (Debian: iproute2): %w: %s", err, out)
	}
	return netns.Own(netip.MustParseAddr(ownIPv4), netip.MustParseAddr(ownIPv6))
}

// need skips the test where there are no namespaces or one of the tools is missing.
func need(t *testing.T, tools ...string) {
	t.Helper()
	var lacks []string
	if err := netns.Entered(ownNetwork); err != nil {
		lacks = append(lacks, "root")
	}
	for _, tool := range append(tools, "ip", "nsenter") {
		if _, err := exec.LookPath(tool); err != nil {
			lacks = append(lacks, tool)
		}
	}
	if len(lacks) > 0 {
		missing(t, lacks...)
	}
}

// missing skips the test, or fails it with TAPER_TEST_REQUIRE_ALL=1.
func missing(t *testing.T, what ...string) {
	t.Helper()
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatalf("needs %s", strings.Join(what, ", "))
	}
	t.Skipf("needs %s", strings.Join(what, ", "))
}
