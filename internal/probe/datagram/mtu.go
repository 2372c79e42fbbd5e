package datagram

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// searchTime is how long a search for the path MTU may take: enough for 11 sizes, each way,
// half of which vanish three times, with a round trip of 200 ms.
const searchTime = 20 * time.Second

// headers is what IP and UDP add to a datagram.
func headers(fd int) (int, error) {
	four, err := overIPv4(fd)
	if four {
		return 20 + 8, err
	}
	return 40 + 8, err
}

// overIPv4 tells which IP a connected socket sends. One of IPv6 may have a peer of IPv4.
func overIPv4(fd int) (bool, error) {
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false, fmt.Errorf("asking where a socket is connected to: %w", err)
	}
	switch p := peer.(type) {
	case *unix.SockaddrInet4:
		return true, nil
	case *unix.SockaddrInet6:
		return [12]byte(p.Addr[:12]) == [12]byte{10: 0xff, 11: 0xff}, nil
	default:
		return false, fmt.Errorf("a socket is connected to neither IPv4 nor IPv6 but to %T", peer)
	}
}

// dontFragment has packets sent whole or not at all, whatever the kernel believes of the
// path: it refuses only what the interface cannot send (ip(7), IP_PMTUDISC_PROBE).
func dontFragment(fd int) error {
	four, err := overIPv4(fd)
	if err != nil {
		return err
	}
	if four {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
	}
	if err != nil {
		return fmt.Errorf("forbidding fragments: %w", err)
	}
	return nil
}

// believed is the path MTU that the kernel believes in; 0 if it does not say.
func believed(fd int) int {
	level, option := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if four, err := overIPv4(fd); err != nil {
		return 0
	} else if four {
		level, option = unix.IPPROTO_IP, unix.IP_MTU
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return mtu
}

// forget throws away an error that waits for the next call, of a packet before.
func forget(fd int) { _, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR) }

// sizes answers a search for the path MTU: it says which packets arrive, and sends those
// that are asked for.
func (e *end) sizes(spec probe.Spec, t *tally) error {
	overhead, err := headers(e.fd)
	if err != nil {
		return err
	}
	if err := dontFragment(e.fd); err != nil {
		return err
	}
	reply := make([]byte, maxPacketBytes)
	answer := func(h header, size, length int) error {
		h.put(reply)
		putSizes(reply, size, believed(e.fd))
		forget(e.fd)
		err := e.send(reply[:length])
		if err == nil {
			t.sent(now(), length)
		}
		return err
	}
	return e.newVigil(spec).attend(func(b []byte, at time.Duration) (bool, error) {
		h, ok := parse(b)
		if !ok || h.tag != e.tag || h.kind != packet && h.kind != ask {
			return false, nil
		}
		size, _, ok := parseSizes(b)
		if !ok || h.kind == ask && size < sizesBytes+overhead {
			return false, nil
		}
		t.received(at, len(b))
		var err error
		if h.kind == packet {
			err = answer(header{e.tag, arrived, h.number}, len(b)+overhead, sizesBytes)
		} else {
			err = answer(header{e.tag, given, h.number}, size, size-overhead)
			if err == errLarge {
				err = answer(header{e.tag, refused, h.number}, size, sizesBytes)
			}
		}
		if transient(err) {
			err = nil // it is asked for again
		}
		return true, err
	})
}
