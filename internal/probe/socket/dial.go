package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FD is a descriptor of its own for a connection that the runtime has opened. It blocks,
// and so does the connection from then on, which is best closed now.
func FD(conn syscall.Conn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("taking a connection from the runtime: %w", err)
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(shared uintptr) {
		fd, dupErr = unix.FcntlInt(shared, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return -1, fmt.Errorf("taking a connection from the runtime: %w", err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		_ = unix.Close(fd) // the first error counts
		return -1, fmt.Errorf("making a socket block: %w", err)
	}
	return fd, nil
}

// Address is a peer as the kernel takes it.
func Address(a netip.AddrPort) unix.Sockaddr {
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: ip.As16(), ZoneId: zone(ip.Zone())}
}

// zone is the interface that a link-local address belongs to, by number or name; 0 for
// one that is not there, which the kernel then refuses.
func zone(name string) uint32 {
	if name == "" {
		return 0
	}
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n)
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return uint32(link.Index)
}

// New is a blocking socket, for "tcp" or "udp", that is to be connected to peer, and that
// comes from a local address if that is valid.
func New(network string, peer netip.AddrPort, local netip.Addr) (int, error) {
	family, kind := unix.AF_INET6, 0
	if peer.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	switch network {
	case "tcp":
		kind = unix.SOCK_STREAM
	case "udp":
		kind = unix.SOCK_DGRAM
	default:
		return -1, fmt.Errorf("there is no network %q: it is tcp or udp", network)
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening a %s socket: %w", network, err)
	}
	if err := bind(fd, local); err != nil {
		_ = unix.Close(fd) // the first error counts
		return -1, err
	}
	return fd, nil
}

// bind leaves the port to the moment of connecting: chosen before, it would have to
// differ from that of all other connections, to whatever peer.
func bind(fd int, local netip.Addr) error {
	if !local.IsValid() || local.IsUnspecified() {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return fmt.Errorf("leaving the port to the kernel: %w", err)
	}
	if err := unix.Bind(fd, Address(netip.AddrPortFrom(local, 0))); err != nil {
		return fmt.Errorf("connecting from %s: %w; is it an address of this machine?", local, err)
	}
	return nil
}

// Dial opens a blocking socket, "tcp" or "udp", that is connected to peer. It gives up
// when ctx ends.
func Dial(ctx context.Context, network string, peer netip.AddrPort, local netip.Addr) (int, error) {
	fd, err := New(network, peer, local)
	if err != nil {
		return -1, err
	}
	if err := connect(ctx, fd, peer); err != nil {
		_ = unix.Close(fd) // the first error counts
		return -1, fmt.Errorf("connecting to %s %s: %w", network, peer, err)
	}
	return fd, nil
}

// connect connects without blocking, so that it can be given up, and leaves a socket that blocks.
func connect(ctx context.Context, fd int, peer netip.AddrPort) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	err := unix.Connect(fd, Address(peer))
	for errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		if err = connected(fd); errors.Is(err, unix.EINPROGRESS) && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	return unix.SetNonblock(fd, false)
}

// look is how long a connection is waited for before ctx is asked again.
const look = 20 * time.Millisecond

// connected waits a moment: EINPROGRESS says that there is no answer yet.
func connected(fd int) error {
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(look/time.Millisecond))
	if err != nil {
		return err
	}
	if ready == 0 {
		return unix.EINPROGRESS
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if code != 0 {
		return syscall.Errno(code)
	}
	return nil
}

// Connect connects a blocking socket, at the price of one call to the kernel. It waits no
// longer than [SetTimeouts] says.
func Connect(fd int, peer unix.Sockaddr) error {
	err := unix.Connect(fd, peer)
	for errors.Is(err, unix.EINTR) {
		// It goes on in the background: asking again waits for it.
		if err = unix.Connect(fd, peer); errors.Is(err, unix.EISCONN) {
			return nil
		}
	}
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY) {
		return os.ErrDeadlineExceeded
	}
	return err
}
