package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// DefaultPort is where an agent listens if nothing else is said.
const DefaultPort = 4000

// freePortTries is how often a port that is free for TCP may be taken for UDP.
const freePortTries = 10

// openPort takes one port for both TCP and UDP.
func openPort(ctx context.Context, address string) (*net.TCPListener, *net.UDPConn, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, nil, fmt.Errorf("listening on %q: %w", address, err)
	}
	for try := 1; ; try++ {
		tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil {
			return nil, nil, listenError("TCP", net.JoinHostPort(host, port), err)
		}
		listener := tcp.(*net.TCPListener)
		taken := listener.Addr().(*net.TCPAddr).AddrPort()
		udp, err := openHellos(ctx, host, taken)
		if err == nil {
			return listener, udp, nil
		}
		_ = listener.Close()
		if port != "0" || !errors.Is(err, syscall.EADDRINUSE) || try == freePortTries {
			return nil, nil, listenError("UDP", taken.String(), err)
		}
	}
}

// openHellos opens the socket to which datagrams come first.
func openHellos(ctx context.Context, host string, taken netip.AddrPort) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return shareAndTell(raw) }}
	address := net.JoinHostPort(host, strconv.Itoa(int(taken.Port())))
	conn, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// shareAndTell lets sockets of the same user be bound to the same port, and has datagrams
// come with the address that they were sent to: that is where answers must come from.
func shareAndTell(raw syscall.RawConn) error {
	return control(raw, func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return err
		}
		family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return err
		}
		if family == unix.AF_INET6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	})
}

// control calls f with a socket's file descriptor.
func control(raw syscall.RawConn, f func(fd int) error) error {
	var err error
	if outer := raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

func listenError(network, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listening on %s (%s): %w: stop the process that holds it, or choose another port",
			address, network, syscall.EADDRINUSE)
	}
	return fmt.Errorf("listening on %s (%s): %w: it must be host:port of this machine", address, network, err)
}

// splitAddress takes an address apart; a port that is not given is [DefaultPort].
func splitAddress(address string) (host, port string, err error) {
	if address == "" {
		return "", "", errors.New("the address is empty: it must be host or host:port")
	}
	if a, err := netip.ParseAddr(address); err == nil { // also an IPv6 address without brackets
		return a.String(), strconv.Itoa(DefaultPort), nil
	}
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		var bad *net.AddrError
		if errors.As(err, &bad) && bad.Err == "missing port in address" {
			host, port, err = net.SplitHostPort(address + ":" + strconv.Itoa(DefaultPort))
		}
		if err != nil {
			return "", "", fmt.Errorf("%w: it must be host or host:port", err)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", fmt.Errorf("port %q is not possible: it must be 0 to 65535", port)
	} else {
		port = strconv.FormatUint(n, 10)
	}
	return host, port, nil
}
