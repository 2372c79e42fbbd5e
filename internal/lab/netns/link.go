package netns

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// End is one end of a link.
type End struct {
	Name   string
	Prefix netip.Prefix // the address, and what is beside it; the zero prefix is none
}

// Join connects the program's network to n by a pair of virtual Ethernet devices, and
// makes here the way out of n.
func (n *Namespace) Join(here, there End) error {
	if err := n.Link(here, there); err != nil {
		return err
	}
	return n.Do(func() error {
		route := &netlink.Route{Gw: here.Prefix.Addr().AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("making %s the way out: %w", here.Prefix.Addr(), err)
		}
		return nil
	})
}

// Link connects the program's network to n by a pair of virtual Ethernet devices.
func (n *Namespace) Link(here, there End) error {
	return n.pair(netlink.LinkAttrs{Name: here.Name}, here, there)
}

// pair makes virtual Ethernet devices, and brings both up.
func (n *Namespace) pair(attrs netlink.LinkAttrs, here, there End) error {
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: there.Name, PeerNamespace: netlink.NsFd(int(n.handle))}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("making the link %s: %w", here.Name, err)
	}
	if err := up(here); err != nil {
		return err
	}
	return n.Do(func() error { return up(there) })
}

func up(e End) error {
	link, err := netlink.LinkByName(e.Name)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", e.Name, err)
	}
	if e.Prefix.IsValid() {
		if err := netlink.AddrAdd(link, address(e.Prefix)); err != nil {
			return fmt.Errorf("giving %s to %s: %w", e.Prefix, e.Name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing up %s: %w", e.Name, err)
	}
	return nil
}

// Own makes addresses ours, in the program's network: servers may listen at them.
func Own(addresses ...netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback: %w", err)
	}
	for _, a := range addresses {
		if err := netlink.AddrAdd(lo, address(netip.PrefixFrom(a, a.BitLen()))); err != nil {
			return fmt.Errorf("making %s ours: %w", a, err)
		}
	}
	return nil
}

func address(p netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
}
