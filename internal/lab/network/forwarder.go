package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"taper.dev/taper/internal/lab/netns"
)

const (
	// ethernetMTU is that of the cables.
	ethernetMTU = 1500
	// ipHeader and udpHeader are what each packet is wrapped into, bytes. The overlay has
	// no header of its own: like flannel's udp backend, it knows where packets come from.
	ipHeader, udpHeader = 20, 8
	forwarderMTU        = ethernetMTU - ipHeader - udpHeader
	// forwarderPort is flannel's.
	forwarderPort = 8285
)

// forwarder is one machine's end of an overlay in user space: each packet is read from a
// TUN device, copied into a datagram, and at the other end written to a TUN device again.
// Each crosses between kernel and program twice more than on the native path, and in both
// directions one thread carries it.
type forwarder struct {
	device  *os.File
	wire    *net.UDPConn
	running sync.WaitGroup
	failed  chan error // what ended one of the directions
}

// startForwarder makes the device, and carries packets to a machine's forwarder at remote.
func startForwarder(m *machine, end netns.End, local, remote netip.Addr) (*forwarder, error) {
	f := &forwarder{failed: make(chan error, 2)}
	err := m.network.Do(func() (err error) {
		if f.device, err = netns.TUN(end, forwarderMTU); err != nil {
			return err
		}
		f.wire, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, forwarderPort)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(remote, forwarderPort)))
		if err != nil {
			_ = f.device.Close()
			return fmt.Errorf("opening the overlay's socket: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", m.name, err)
	}
	f.running.Go(func() { f.failed <- carry(f.wire.Write, f.device.Read) })
	f.running.Go(func() { f.failed <- carry(f.device.Write, f.wire.Read) })
	return f, nil
}

// carry copies packets until reading ends. As a router does, it drops what cannot be sent.
func carry(write, read func([]byte) (int, error)) error {
	packet := make([]byte, ethernetMTU)
	for {
		n, err := read(packet)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			continue // the other end is not there yet, or no more
		case errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("the overlay in user space: %w", err)
		}
		_, _ = write(packet[:n])
	}
}

// Close ends it; the device is gone.
func (f *forwarder) Close() {
	_ = f.device.Close()
	_ = f.wire.Close()
	f.running.Wait()
}
