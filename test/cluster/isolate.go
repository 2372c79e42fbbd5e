package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/lab/netns"
)

const (
	// namespaceEnv holds the name of the network namespace that Isolate made.
	namespaceEnv = "TAPER_TEST_NETWORK"
	// scratch is where temporary files go: it is there on every Linux, nobody keeps
	// sources in it, and a file system of our own in its place is gone with us.
	scratch = "/dev/shm"
)

// network makes both prefixes local: one may listen at, and connect to, any address
// of them. EndpointSlices refuse loopback addresses.
const network = `link set lo up
address add 10.9.0.1/16 dev lo
address add fd09::1/64 dev lo nodad
route add local fd09::/64 dev lo
`

// Isolate moves the program into a network of its own, with nothing but loopback
// and the two prefixes, and gives it a folder for temporary files that nobody else
// sees. Both are gone when the program ends, however it ends.
//
// The program starts anew, as the same process with the same arguments, so Isolate
// belongs at the start of main. It returns nil if that has already happened, and
// an error if it cannot be done; it needs root.
func Isolate() error {
	return netns.Restart(namespaceEnv, unix.CLONE_NEWNS, func() error {
		if err := mountScratch(); err != nil {
			return err
		}
		if err := setUpNetwork(); err != nil {
			return err
		}
		return os.Setenv("TMPDIR", scratch)
	})
}

// Isolated is nil if the program runs in a network that Isolate has made.
func Isolated() error {
	if err := netns.Entered(namespaceEnv); err != nil {
		return fmt.Errorf("%w: that needs root, CAP_SYS_ADMIN in a container, and ip (Debian: iproute2)", err)
	}
	return nil
}

// Main runs the tests of a binary after Isolate, as its TestMain:
//
//	func TestMain(m *testing.M) { cluster.Main(m) }
//
// Where Isolate fails they run too: a test that needs it asks Isolated, and skips.
func Main(m interface{ Run() int }) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "not isolated:", err)
	}
	os.Exit(m.Run())
}

func mountScratch() error {
	// Else the mount would spread to where we came from.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	if err := unix.Mount("taper", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mounting a folder for temporary files at %s: %w", scratch, err)
	}
	return nil
}

func setUpNetwork() error {
	ip := exec.Command("ip", "-batch", "-")
	ip.Stdin = strings.NewReader(network)
	if out, err := ip.CombinedOutput(); err != nil {
		return fmt.Errorf("setting up the network with ip (Debian: iproute2): %w: %s", err, strings.TrimSpace(string(out)))
	}
	// An IPv6 prefix that is routed to loopback can be reached, but not bound to.
	const nonlocal = "/proc/sys/net/ipv6/ip_nonlocal_bind"
	if err := os.WriteFile(nonlocal, []byte("1"), 0); err != nil {
		return fmt.Errorf("letting servers bind to fd09::/64: %w", err)
	}
	return nil
}
