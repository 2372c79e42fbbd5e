package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Switch makes a bridge in this network, which has an address there itself.
func Switch(e End) error {
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: e.Name}}); err != nil {
		return fmt.Errorf("making the switch %s: %w", e.Name, err)
	}
	return up(e)
}

// Plug connects n to a switch of the program's network, by the port of that name.
func (n *Namespace) Plug(bridge, port string, there End) error {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("finding the switch %s: %w", bridge, err)
	}
	return n.pair(netlink.LinkAttrs{Name: port, MasterIndex: link.Attrs().Index}, End{Name: port}, there)
}

// Remove removes a device of this network, and what it is a pair with.
func Remove(device string) error {
	link, err := netlink.LinkByName(device)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing the link %s: %w", device, err)
	}
	return nil
}

// vxlanPort is IANA's (RFC 7348, section 5).
const vxlanPort = 4789

// VXLAN makes a network of that number, to one other machine, over a device of this
// network. Its MTU is what the headers leave of the device's: 50 bytes less.
func VXLAN(e End, id int, over string, local, remote netip.Addr) error {
	lower, err := netlink.LinkByName(over)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", over, err)
	}
	err = netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: e.Name}, VxlanId: id, VtepDevIndex: lower.Attrs().Index,
		SrcAddr: local.AsSlice(), Group: remote.AsSlice(), Port: vxlanPort,
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("%w: the kernel needs its module vxlan", err)
	}
	if err != nil {
		return fmt.Errorf("making the VXLAN %s over %s: %w", e.Name, over, err)
	}
	return up(e)
}

// TUN makes a device of this network whose packets a program carries: what is sent through
// it is read from the file, a packet at a time, and what is written comes in. It is gone
// when the file is closed.
func TUN(e End, mtu int) (*os.File, error) {
	const path = "/dev/net/tun"
	// Without blocking, so that closing the file ends a read.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w: the kernel's module tun makes it, and a container must be given it", path, err)
	}
	if err := makeTUN(fd, e, mtu); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("making the TUN device %s: %w", e.Name, err)
	}
	// Only now: a file that is no device yet cannot be waited for.
	return os.NewFile(uintptr(fd), e.Name), nil
}

func makeTUN(fd int, e End, mtu int) error {
	request, err := unix.NewIfreq(e.Name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	link, err := netlink.LinkByName(e.Name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return err
	}
	return up(e)
}
