package netns

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// space is a network for a test; without root the test is skipped.
func space(t *testing.T) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("networks of their own need root")
		}
		t.Skip("networks of their own need root")
	}
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func within(t *testing.T, n *Namespace, f func() error) {
	t.Helper()
	if err := n.Do(f); err != nil {
		t.Fatal(err)
	}
}

func end(name, prefix string) End { return End{name, netip.MustParsePrefix(prefix)} }

func TestMachinesAtASwitchReachEachOther(t *testing.T) {
	t.Parallel()
	home, one, two := space(t), space(t), space(t)
	within(t, home, func() error {
		return errors.Join(
			Switch(end("switch", "10.1.0.1/24")),
			one.Plug("switch", "one", end("eth0", "10.1.0.2/24")),
			two.Plug("switch", "two", end("eth0", "10.1.0.3/24")),
		)
	})
	reach(t, one, two, "10.1.0.3")
	reach(t, home, one, "10.1.0.2")

	within(t, home, func() error {
		if err := Remove("one"); err != nil {
			return err
		}
		if _, err := netlink.LinkByName("one"); err == nil {
			return errors.New("the port is still there")
		}
		if err := Remove("one"); err == nil {
			return errors.New("a port that is not there was removed")
		}
		return nil
	})
	within(t, one, func() error {
		if _, err := netlink.LinkByName("eth0"); err == nil {
			return errors.New("the other end of the port is still there")
		}
		return nil
	})
}

// reach connects from one network to an address of the other.
func reach(t *testing.T, from, to *Namespace, at string) {
	t.Helper()
	var listener net.Listener
	within(t, to, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(at, "0"))
		return err
	})
	defer listener.Close()
	within(t, from, func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func TestVXLANTakesFiftyBytes(t *testing.T) {
	t.Parallel()
	one, two := space(t), space(t)
	a, b := end("cable", "10.2.0.1/24"), end("cable", "10.2.0.2/24")
	within(t, one, func() error { return two.Link(a, b) })
	for i, n := range []*Namespace{one, two} {
		local, remote := a.Prefix.Addr(), b.Prefix.Addr()
		if i == 1 {
			local, remote = remote, local
		}
		within(t, n, func() error {
			if err := VXLAN(end("vx", fmt.Sprintf("10.3.0.%d/24", i+1)), 7, "cable", local, remote); err != nil {
				return err
			}
			link, err := netlink.LinkByName("vx")
			if err == nil && link.Attrs().MTU != 1450 {
				err = fmt.Errorf("its MTU is %d, want 1450", link.Attrs().MTU)
			}
			return err
		})
	}
	reach(t, one, two, "10.3.0.2")
	within(t, one, func() error {
		if err := VXLAN(end("vy", "10.4.0.1/24"), 8, "none", a.Prefix.Addr(), b.Prefix.Addr()); err == nil {
			return errors.New("a VXLAN over no device was made")
		}
		return nil
	})
}

func TestATUNDeviceCarriesPackets(t *testing.T) {
	t.Parallel()
	n := space(t)
	var device *os.File
	within(t, n, func() (err error) {
		device, err = TUN(end("tun", "10.5.0.1/24"), 1400)
		return err
	})
	within(t, n, func() error {
		link, err := netlink.LinkByName("tun")
		if err == nil && link.Attrs().MTU != 1400 {
			err = fmt.Errorf("its MTU is %d, want 1400", link.Attrs().MTU)
		}
		if err != nil {
			return err
		}
		conn, err := net.Dial("udp", "10.5.0.2:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("through the device"))
		return err
	})
	// The kernel sends packets of its own, such as router solicitations.
	if err := device.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for packet := make([]byte, 1500); ; {
		size, err := device.Read(packet)
		if err != nil {
			t.Fatalf("the packet did not come: %v", err)
		}
		if bytes.HasSuffix(packet[:size], []byte("through the device")) {
			break
		}
	}
	if err := device.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, n, func() error {
		if _, err := netlink.LinkByName("tun"); err == nil {
			return errors.New("the device outlives its file")
		}
		return nil
	})
}

func TestATUNDeviceEndsItsReaderWhenItIsClosed(t *testing.T) {
	t.Parallel()
	n := space(t)
	var device *os.File
	within(t, n, func() (err error) {
		device, err = TUN(end("tun", "10.6.0.1/24"), 1400)
		return err
	})
	ended := make(chan error, 1)
	go func() {
		for packet := make([]byte, 1500); ; {
			if _, err := device.Read(packet); err != nil {
				ended <- err
				return
			}
		}
	}()
	device.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("reading ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the reader does not end")
	}
}

func TestATUNDeviceThatIsThereAlready(t *testing.T) {
	t.Parallel()
	n := space(t)
	within(t, n, func() error {
		first, err := TUN(end("tun", "10.7.0.1/24"), 1400)
		if err != nil {
			return err
		}
		defer first.Close()
		if second, err := TUN(end("tun", "10.7.0.1/24"), 1400); err == nil {
			second.Close()
			return errors.New("it was made twice")
		}
		return nil
	})
}
