package live

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/capture"
)

// Any stands for all interfaces.
const Any = "any"

const (
	// maxSnapLen is what a snap length of 0 means: whole packets, also offloaded ones.
	maxSnapLen = 256 << 10
	// cookedHeader is the size of LINKTYPE_LINUX_SLL2's header.
	cookedHeader = 20
	// patience is how often a wait looks whether its context has ended, at the latest.
	patience = 100 * time.Millisecond
	// drain is how long after the end packets of before it may still come.
	drain = 2 * retireAfter * time.Millisecond
)

// Source captures from an interface. It is not for several goroutines at once.
type Source struct {
	fd      int
	ring    *ring
	number  uint64
	seen    uint64 // by the kernel, with those dropped
	dropped uint64
	// end is when the context of Next ended.
	end time.Time
}

// Open begins to capture on an interface, or on Any, at most snaplen bytes of each packet
// (0 is all of them). Packets are captured from its return on.
func Open(iface string, snaplen int) (*Source, error) {
	index, loopback, err := lookUp(iface)
	if err != nil {
		return nil, err
	}
	if snaplen <= 0 || snaplen > maxSnapLen {
		snaplen = maxSnapLen
	}
	// Protocol 0: nothing is captured before the ring is there.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, refused(err)
	}
	s := &Source{fd: fd}
	if err := s.begin(index, filter(loopback, snaplen)); err != nil {
		return nil, errors.Join(fmt.Errorf("capturing on %s: %w", iface, err), s.Close())
	}
	return s, nil
}

// refused explains why there is no socket.
func refused(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("capturing needs the capability NET_RAW, which this process lacks; run it with sudo, or in a pod with `kubectl debug POD --profile=netadmin --image=IMAGE -it`: %w", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("this kernel or sandbox has no packet sockets; capture elsewhere with `tcpdump -i any -w FILE` and give the file: %w", err)
	}
	return fmt.Errorf("opening a packet socket: %w", err)
}

// lookUp finds an interface's index, 0 for all, and the loopback's, or -1.
func lookUp(iface string) (index, loopback int, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return 0, 0, fmt.Errorf("listing the interfaces: %w", err)
	}
	loopback = -1
	names := []string{Any}
	for _, i := range all {
		names = append(names, i.Name)
		if i.Flags&net.FlagLoopback != 0 {
			loopback = i.Index
		}
		if i.Name == iface {
			index = i.Index
		}
	}
	if index == 0 && iface != Any {
		slices.Sort(names[1:])
		return 0, 0, fmt.Errorf("there is no interface %q; there are %s", iface, strings.Join(names, ", "))
	}
	return index, loopback, nil
}

// filter is a program for the kernel that cuts packets, and refuses outgoing packets of
// the loopback: they come once more, as incoming ones.
func filter(loopback, snaplen int) []unix.SockFilter {
	const load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	const equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	const answer = unix.BPF_RET | unix.BPF_K
	// Where the kernel shows what it knows about a packet (SKF_AD_ in linux/filter.h).
	const off, packetType, ifindex = 1<<32 - 0x1000, 4, 8
	return []unix.SockFilter{
		{Code: load, K: off + packetType},
		{Code: equal, K: unix.PACKET_OUTGOING, Jt: 0, Jf: 2},
		{Code: load, K: off + ifindex},
		{Code: equal, K: uint32(loopback), Jt: 1, Jf: 0},
		{Code: answer, K: uint32(snaplen)},
		{Code: answer, K: 0},
	}
}

// begin sets the socket up and binds it.
func (s *Source) begin(index int, program []unix.SockFilter) error {
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		return fmt.Errorf("setting the capture filter: %w", err)
	}
	var err error
	if s.ring, err = newRing(s.fd); err != nil {
		return err
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // network byte order
	if hostBigEndian {
		all = unix.ETH_P_ALL
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	return nil
}

var hostBigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// Next waits for the next packet. Its Data is valid until the next call. When ctx ends,
// packets from before that moment are still returned, then ctx's error.
func (s *Source) Next(ctx context.Context, p *capture.Packet) error {
	if s.ring == nil {
		return fmt.Errorf("capturing: %w", os.ErrClosed)
	}
	// A busy ring never waits, so it looks by itself whether ctx has ended.
	if s.number%64 == 0 && ctx.Err() != nil {
		s.ended()
	}
	for {
		if s.take(p) {
			if !s.end.IsZero() && p.Time > capture.At(s.end) {
				return ctx.Err()
			}
			return nil
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// ended notes when the end was seen first.
func (s *Source) ended() {
	if s.end.IsZero() {
		s.end = time.Now()
	}
}

// take reads the next packet of the ring, if there is one.
func (s *Source) take(p *capture.Packet) bool {
	h, b := s.ring.next()
	if h == nil {
		return false
	}
	// The address follows the header, aligned to 16 bytes as all here.
	from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&b[(unix.SizeofTpacket3Hdr+15)&^15]))
	s.number++
	*p = capture.Packet{
		Number:    s.number,
		Time:      capture.Time(h.Sec)*1e9 + capture.Time(h.Nsec),
		Link:      capture.LinkSLL2,
		Interface: int(from.Ifindex),
		Length:    int(h.Len) + cookedHeader,
		// The headroom makes place for the header right before the packet.
		Data: b[int(h.Net)-cookedHeader : int(h.Net)+int(h.Snaplen)],
	}
	cooked(p.Data, *from)
	return true
}

// cooked writes an SLL2 header into b.
func cooked(b []byte, from unix.RawSockaddrLinklayer) {
	binary.NativeEndian.PutUint16(b[0:], from.Protocol) // is in network byte order already
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint32(b[4:], uint32(from.Ifindex))
	binary.BigEndian.PutUint16(b[8:], from.Hatype)
	b[10], b[11] = from.Pkttype, from.Halen
	copy(b[12:20], from.Addr[:])
}

// wait waits until the kernel hands a block over, for some time.
func (s *Source) wait(ctx context.Context) error {
	wait := patience
	if ctx.Err() != nil {
		s.ended()
		if wait = time.Until(s.end.Add(drain)); wait <= 0 {
			return ctx.Err()
		}
	}
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLERR}}
	_, err := unix.Poll(fds, int(wait.Milliseconds())+1)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for packets: %w", err)
	}
	if fds[0].Revents&unix.POLLERR == 0 {
		return nil
	}
	code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case err != nil:
		return fmt.Errorf("waiting for packets: %w", err)
	case unix.Errno(code) == unix.ENETDOWN:
		return fmt.Errorf("the interface went down while it was captured: %w", unix.Errno(code))
	case code != 0:
		return fmt.Errorf("waiting for packets: %w", unix.Errno(code))
	}
	return nil
}

// Stats says how many packets the kernel put into the ring, and how many it had to drop
// because the ring was full.
func (s *Source) Stats() (received, dropped uint64, err error) {
	// Reading resets the kernel's counters, whose packets include those dropped.
	stats, err := unix.GetsockoptTpacketStatsV3(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return s.seen - s.dropped, s.dropped, fmt.Errorf("asking for dropped packets: %w", err)
	}
	s.seen += uint64(stats.Packets)
	s.dropped += uint64(stats.Drops)
	return s.seen - s.dropped, s.dropped, nil
}

// Close ends the capture. Data of packets is not valid after it.
func (s *Source) Close() error {
	var err error
	if s.ring != nil {
		err = s.ring.close()
		s.ring = nil
	}
	if s.fd >= 0 {
		err = errors.Join(err, unix.Close(s.fd))
		s.fd = -1
	}
	return err
}

// Until is the source's packets up to the end of ctx, which is io.EOF.
func (s *Source) Until(ctx context.Context) *Packets { return &Packets{s, ctx} }

// Packets is a Source whose end is known.
type Packets struct {
	source *Source
	ctx    context.Context
}

// Next is the source's next packet, or io.EOF when the context has ended.
func (p *Packets) Next(packet *capture.Packet) error {
	err := p.source.Next(p.ctx, packet)
	if err != nil && p.ctx.Err() != nil && errors.Is(err, p.ctx.Err()) {
		return io.EOF
	}
	return err
}
