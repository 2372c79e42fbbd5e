package datagram

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/probe"
)

// machines makes networks; the test is skipped where that is not allowed.
func machines(t *testing.T, n int) []*netns.Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("networks of their own need root")
		}
		t.Skip("networks of their own need root")
	}
	var all []*netns.Namespace
	for range n {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ns.Close)
		for _, links := range []string{"all", "default"} { // whose address it is, nobody has to ask
			set(t, ns, "ipv6/conf/"+links+"/accept_dad", "0")
		}
		all = append(all, ns)
	}
	return all
}

// within fails the test if f does, in that network.
func within(t *testing.T, ns *netns.Namespace, f func() error) {
	t.Helper()
	if err := ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

// port is an end of a cable: what machine it is in, its address there, and its MTU.
type port struct {
	ns     *netns.Namespace
	name   string
	prefix string
	mtu    int
}

// cable connects two machines.
func cable(t *testing.T, a, b port) {
	t.Helper()
	within(t, a.ns, func() error {
		there, err := os.Open(b.ns.Path())
		if err != nil {
			return err
		}
		defer there.Close()
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: a.name, MTU: a.mtu}, PeerName: b.name, PeerMTU: uint32(b.mtu),
			PeerNamespace: netlink.NsFd(int(there.Fd())),
		})
	})
	for _, p := range []port{a, b} {
		within(t, p.ns, func() error {
			link, err := netlink.LinkByName(p.name)
			if err != nil {
				return err
			}
			address, err := netlink.ParseAddr(p.prefix)
			if err != nil {
				return err
			}
			if address.IP.To4() == nil {
				address.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		})
	}
	for _, p := range []port{a, b} {
		within(t, p.ns, func() error { return ready(p.name) })
	}
}

// ready waits until the kernel has noticed that a link is up, which may take it a second:
// only then does IPv6 answer for its addresses.
func ready(name string) error {
	const patience = 10 * time.Second
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
	}
	return fmt.Errorf("the link %s does not come up within %v", name, patience)
}

// via makes another machine the way to everywhere else.
func via(t *testing.T, ns *netns.Namespace, gateway string) {
	t.Helper()
	within(t, ns, func() error {
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
	})
}

// set writes a setting of a machine's network.
func set(t *testing.T, ns *netns.Namespace, name, value string) {
	t.Helper()
	within(t, ns, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) })
}

// mute keeps a machine from sending packets of its own to an address, among them what it
// says of packets that it does not forward.
func mute(t *testing.T, ns *netns.Namespace, to string) {
	t.Helper()
	within(t, ns, func() error {
		rule := netlink.NewRule()
		rule.IifName, rule.Table, rule.Priority = "lo", 99, 10
		ip := netip.MustParseAddr(to)
		dst := &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}
		rule.Dst = dst
		if ip.Is6() {
			rule.Family = netlink.FAMILY_V6
		}
		if err := netlink.RuleAdd(rule); err != nil {
			return fmt.Errorf("adding a rule: %w", err)
		}
		return netlink.RouteAdd(&netlink.Route{Dst: dst, Table: 99, Type: unix.RTN_BLACKHOLE})
	})
}

// between runs a path MTU trial from one machine to another.
func between(t *testing.T, near, far *netns.Namespace, address string) probe.Trial {
	t.Helper()
	r := receive(t, far.Do, net.JoinHostPort(address, "7000"))
	var trial probe.Trial
	within(t, near, func() error {
		var err error
		if trial, err = r.both(t.Context(), probe.Default(probe.PathMTU)); err != nil {
			return fmt.Errorf("far: %w, near: %s", err, trial.Incomplete)
		}
		return nil
	})
	return trial
}

// routed connects two machines over a third, which is connected to the far one by a
// network of packets of at most 1,300 bytes. Networks are such as "10.%d.0." or "fd00:%d::".
func routed(t *testing.T, network, bits string) (near, router, far *netns.Namespace, nearAddress, farAddress string) {
	t.Helper()
	m := machines(t, 3)
	near, router, far = m[0], m[1], m[2]
	address := func(net, host int) string { return fmt.Sprintf(network+"%d", net, host) }
	cable(t, port{near, "up0", address(1, 1) + bits, 1500}, port{router, "down0", address(1, 254) + bits, 1500})
	cable(t, port{router, "down1", address(2, 254) + bits, 1300}, port{far, "up0", address(2, 1) + bits, 1300})
	set(t, router, "ipv4/ip_forward", "1")
	set(t, router, "ipv6/conf/all/forwarding", "1")
	via(t, near, address(1, 254))
	via(t, far, address(2, 254))
	return near, router, far, address(1, 1), address(2, 1)
}

func TestPathMTU(t *testing.T) {
	tests := map[string]struct {
		build func(t *testing.T) (near, far *netns.Namespace, address string)
		want  probe.PathMTUFound
	}{
		"a cable": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				m := machines(t, 2)
				cable(t, port{m[0], "up0", "10.1.0.1/24", 1500}, port{m[1], "up0", "10.1.0.2/24", 1500})
				return m[0], m[1], "10.1.0.2"
			},
			probe.PathMTUFound{Out: 1500, In: 1500, Believed: 1500, FarBelieved: 1500},
		},
		"a cable, IPv6, jumbo frames": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				m := machines(t, 2)
				cable(t, port{m[0], "up0", "fd00::1/64", 9000}, port{m[1], "up0", "fd00::2/64", 9000})
				return m[0], m[1], "fd00::2"
			},
			probe.PathMTUFound{Out: 9000, In: 9000, Believed: 9000, FarBelieved: 9000},
		},
		"a router that says what is too large": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				near, _, far, _, address := routed(t, "10.%d.0.", "/24")
				return near, far, address
			},
			probe.PathMTUFound{Out: 1300, In: 1300, Believed: 1300, FarBelieved: 1300},
		},
		"a router that does not": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				near, router, far, own, address := routed(t, "10.%d.0.", "/24")
				mute(t, router, own)
				return near, far, address
			},
			probe.PathMTUFound{Out: 1300, In: 1300, Believed: 1500, FarBelieved: 1300, BlackHole: true},
		},
		"an IPv6 router that says what is too large": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				near, _, far, _, address := routed(t, "fd00:%d::", "/64")
				return near, far, address
			},
			probe.PathMTUFound{Out: 1300, In: 1300, Believed: 1300, FarBelieved: 1300},
		},
		"an IPv6 router that does not": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				near, router, far, own, address := routed(t, "fd00:%d::", "/64")
				mute(t, router, own)
				return near, far, address
			},
			probe.PathMTUFound{Out: 1300, In: 1300, Believed: 1500, FarBelieved: 1300, BlackHole: true},
		},
		// A virtual cable lets through 4 bytes more than its end takes, room for a VLAN's tag.
		"a network that drops what is too large": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				m := machines(t, 2)
				cable(t, port{m[0], "up0", "10.1.0.1/24", 1500}, port{m[1], "up0", "10.1.0.2/24", 1400})
				return m[0], m[1], "10.1.0.2"
			},
			probe.PathMTUFound{Out: 1404, In: 1400, Believed: 1500, FarBelieved: 1400, BlackHole: true},
		},
		"a network that drops what is too large on the way in": {
			func(t *testing.T) (*netns.Namespace, *netns.Namespace, string) {
				m := machines(t, 2)
				cable(t, port{m[0], "up0", "10.1.0.1/24", 1400}, port{m[1], "up0", "10.1.0.2/24", 1500})
				return m[0], m[1], "10.1.0.2"
			},
			probe.PathMTUFound{Out: 1400, In: 1404, Believed: 1400, FarBelieved: 1500, BlackHole: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far, address := test.build(t)
			begun := time.Now()
			trial := between(t, near, far, address)
			if trial.PathMTU == nil || *trial.PathMTU != test.want || trial.Incomplete != "" {
				t.Errorf("found %+v, %q; want %+v", trial.PathMTU, trial.Incomplete, test.want)
			}
			t.Logf("in %v, with %d packets", time.Since(begun), trial.Near.Sent+trial.Far.Sent)
		})
	}
}

// A socket of IPv6 that is connected to a peer of IPv4 sends what IPv4 sends.
func TestMappedAddress(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: 9, Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}); err != nil {
		t.Fatal(err)
	}
	if n, err := headers(fd); n != 28 || err != nil {
		t.Errorf("%d bytes of headers, %v; want 28", n, err)
	}
	if n := believed(fd); n < 1280 {
		t.Errorf("the kernel believes in an MTU of %d", n)
	}
	if err := dontFragment(fd); err != nil {
		t.Error(err)
	}
	if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER); v != unix.IP_PMTUDISC_PROBE || err != nil {
		t.Errorf("fragments are handled in way %d, %v; want %d", v, err, unix.IP_PMTUDISC_PROBE)
	}
}
