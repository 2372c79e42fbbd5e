package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// readHellos reads what comes to the port as datagrams until the context ends. To a hello
// of the trial that runs it opens a socket of its own, to which the rest of that sender's
// goes then. Nothing is answered here: a forged sender gets nothing.
func (s *Server) readHellos(ctx context.Context) error {
	// One byte more shows what is too long.
	buffer, control := make([]byte, probe.HelloBytes+1), make([]byte, 256)
	for {
		n, told, _, sender, err := s.udp.ReadMsgUDPAddrPort(buffer, control)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("reading datagrams on %v: %w", s.addr, err)
		case err != nil: // of one datagram: an answer of a router, say
			pause(ctx, acceptPause)
			continue
		}
		s.hello(ctx, buffer[:n], plainAddr(sender), addressedTo(control[:told]))
	}
}

// hello takes one datagram.
func (s *Server) hello(ctx context.Context, b []byte, sender netip.AddrPort, to netip.Addr) {
	ticket, err := parseDataHello(b)
	if err != nil {
		s.tallies.garbage.add(s.logger, "peer", sender, "network", "udp")
		return
	}
	t := s.desk.find(ticket)
	if t == nil || !t.spec.Test.Datagrams() || !s.limits.mayAsk(sender.Addr()) {
		if !s.desk.late(ticket) {
			s.tallies.stray.add(s.logger, "peer", sender, "network", "udp")
		}
		return
	}
	local := netip.AddrPortFrom(to, s.addr.Port())
	if err := t.deliverDatagrams(sender, func() (*net.UDPConn, error) { return openPair(ctx, local, sender) }); err != nil {
		s.tallies.lacking.add(s.logger, "peer", sender, "error", err)
	}
}

// openPair opens a socket between the address to which a hello came and its sender.
func openPair(ctx context.Context, local, sender netip.AddrPort) (*net.UDPConn, error) {
	if local.Addr().Is6() && local.Addr().IsLinkLocalUnicast() {
		local = netip.AddrPortFrom(local.Addr().WithZone(sender.Addr().Zone()), local.Port())
	}
	dialer := net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(local),
		Control: func(_, _ string, raw syscall.RawConn) error {
			return control(raw, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		},
	}
	conn, err := dialer.DialContext(ctx, "udp", sender.String())
	if err != nil {
		return nil, err
	}
	pair := conn.(*net.UDPConn)
	if err := empty(pair); err != nil {
		_ = pair.Close()
		return nil, err
	}
	return pair, nil
}

// empty throws away what came to a socket before it was connected, perhaps from others.
// The sender says hello until it is answered, so nothing of its is lost.
func empty(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, func(fd int) error {
		var nothing [1]byte
		for range 1 << 12 { // a flood ends sometime
			if _, _, err := unix.Recvfrom(fd, nothing[:], unix.MSG_DONTWAIT); errors.Is(err, unix.EAGAIN) {
				break
			}
		}
		return nil
	})
}

// addressedTo is the address a datagram was sent to, from its control messages; the zero
// address if they do not tell.
func addressedTo(b []byte) netip.Addr {
	messages, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(m.Data[8:12])) // index, spec_dst, addr
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			return netip.AddrFrom16([16]byte(m.Data[:16])).Unmap() // addr, index
		}
	}
	return netip.Addr{}
}
