package pcapfile

import (
	"fmt"
	"io"

	"taper.dev/taper/internal/capture"
)

// Blocks of pcapng.
const (
	blockSection     = 0x0a0d0d0a
	blockInterface   = 1
	blockPacket      = 2 // obsolete
	blockSimple      = 3
	blockEnhanced    = 6
	blockProcessInfo = 0x80000001 // Apple's
)

// Blocks that hold no packet, but which Wireshark shows as one and gives a number.
const (
	blockJournal    = 9 // of systemd
	blockCustom     = 0xbad
	blockCustomOnly = 0x40000bad // not to be copied
	blockEvent      = 0x204      // sysdig's, in three versions
	blockEvent2     = 0x216
	blockEvent2Long = 0x221
)

const (
	byteOrderMagic = 0x1a2b3c4d
	blockFrame     = 12 // type, length, and length again
	minSection     = 28
	// maxInterfaces and maxProcesses bound the tables of a section.
	maxInterfaces = 1 << 16
	maxProcesses  = 1 << 16
)

// ngInterface is an interface of the current section.
type ngInterface struct {
	index   int // in the capture
	link    capture.LinkType
	snapLen uint32
	clock   clock
}

// ngStream reads pcapng.
type ngStream struct {
	w       *window
	shared  *shared
	numbers uint64 // of packets, and of what Wireshark shows as such
	// Of the current section:
	order      order
	foreign    bool // of a version that is not known
	interfaces []ngInterface
	processes  []capture.Process
	bad        badBlocks
}

// badBlocks counts blocks whose frame is right and whose content is not: they are skipped.
type badBlocks struct {
	count uint64
	first *broken
}

func (b *badBlocks) add(offset int64, what string) {
	if b.count++; b.first == nil {
		b.first = &broken{offset: offset, what: what}
	}
}

func newNgStream(w *window, shared *shared) (*ngStream, error) {
	s := &ngStream{w: w, shared: shared}
	if err := s.section(); err != nil {
		return nil, err
	}
	if s.foreign {
		return nil, s.bad.first
	}
	return s, nil
}

// section reads the header of a section, which says its byte order.
func (s *ngStream) section() error {
	h, err := s.w.peek(minSection)
	if err != nil {
		return breakOff(s.w, "a section's header", len(h), minSection, err)
	}
	switch {
	case order{}.uint32(h[8:]) == byteOrderMagic:
		s.order = order{}
	case order{big: true}.uint32(h[8:]) == byteOrderMagic:
		s.order = order{big: true}
	default:
		return &broken{offset: s.w.offset, what: fmt.Sprintf("a section's byte order mark is % x, want 1a 2b 3c 4d or its reverse", h[8:12])}
	}
	length := s.order.uint32(h[4:])
	if length < minSection || length%4 != 0 {
		return &broken{offset: s.w.offset, what: fmt.Sprintf("a section's header has the length %d", length)}
	}
	major := s.order.uint16(h[12:])
	if s.foreign = major != 1; s.foreign {
		s.bad.add(s.w.offset, fmt.Sprintf("a section of version %d.%d, and taper reads version 1", major, s.order.uint16(h[14:])))
	}
	s.interfaces, s.processes = s.interfaces[:0], s.processes[:0]
	return s.skipBlock(length)
}

func (s *ngStream) next(p *capture.Packet) error {
	for {
		h, err := s.w.peek(8)
		if err == io.EOF {
			return io.EOF
		} else if err != nil {
			return breakOff(s.w, "a block's header", len(h), 8, err)
		}
		kind, length := s.order.uint32(h), s.order.uint32(h[4:])
		if kind == blockSection {
			if err := s.section(); err != nil {
				return err
			}
			continue
		}
		if length < blockFrame || length%4 != 0 {
			return &broken{offset: s.w.offset, what: fmt.Sprintf("a block of type %#x has the length %d", kind, length)}
		}
		if s.pass(kind) {
			if err := s.skipBlock(length); err != nil {
				return err
			}
			continue
		}
		body, err := s.body(kind, length)
		if err != nil {
			return err
		}
		if s.block(kind, body, p) {
			s.numbers++
			p.Number = s.numbers
			return nil
		}
	}
}

// pass says whether a block is passed over, and counts those that take a number.
func (s *ngStream) pass(kind uint32) bool {
	if s.foreign {
		return true
	}
	switch kind {
	case blockEnhanced, blockSimple, blockPacket, blockInterface, blockProcessInfo:
		return false
	case blockJournal, blockCustom, blockCustomOnly, blockEvent, blockEvent2, blockEvent2Long:
		s.numbers++
	}
	return true
}

func (s *ngStream) numbered() uint64 { return s.numbers }

// skipBlock goes behind a block without looking at it.
func (s *ngStream) skipBlock(length uint32) error {
	at := s.w.offset
	if err := s.w.discard(int64(length)); err != nil {
		b := breakOff(s.w, "a block", int(s.w.offset-at), int(length), err).(*broken)
		b.offset = at
		return b
	}
	return nil
}

// body consumes a block and returns what lies between its lengths.
func (s *ngStream) body(kind, length uint32) ([]byte, error) {
	w := s.w
	if length > maxWindow {
		return nil, &broken{offset: w.offset, what: fmt.Sprintf("a block of type %#x has the length %d; the most that is read is %d", kind, length, maxWindow)}
	}
	b, err := w.peek(int(length))
	if err != nil {
		return nil, breakOff(w, fmt.Sprintf("a block of type %#x", kind), len(b), int(length), err)
	}
	if again := s.order.uint32(b[length-4:]); again != length {
		return nil, &broken{offset: w.offset, what: fmt.Sprintf("a block of type %#x has the length %d at its begin and %d at its end", kind, length, again)}
	}
	w.skip(int(length))
	return b[8 : length-4], nil
}

// block understands a block; it says whether that was a packet.
func (s *ngStream) block(kind uint32, body []byte, p *capture.Packet) bool {
	var what string
	switch kind {
	case blockEnhanced:
		what = s.enhanced(body, p)
	case blockSimple:
		what = s.simple(body, p)
	case blockPacket:
		what = s.packet(body, p)
	case blockInterface:
		what = s.newInterface(body)
	case blockProcessInfo:
		what = s.newProcess(body)
	}
	if what != "" {
		s.bad.add(s.w.offset-int64(len(body))-blockFrame, what)
		return false
	}
	return kind != blockInterface && kind != blockProcessInfo
}

// The functions below return what is wrong with the block; "" is nothing.

func (s *ngStream) enhanced(b []byte, p *capture.Packet) string {
	if len(b) < 20 {
		return fmt.Sprintf("an enhanced packet block of %d bytes", len(b)+blockFrame)
	}
	o := s.order
	what := s.fill(p, o.uint32(b), uint64(o.uint32(b[4:]))<<32|uint64(o.uint32(b[8:])), b[20:], o.uint32(b[12:]), o.uint32(b[16:]))
	if what != "" {
		return what
	}
	if options := behind(b[20:], len(p.Data)); len(options) >= 4 {
		s.packetOptions(options, p)
	}
	return ""
}

// packet is the block that the enhanced one replaced.
func (s *ngStream) packet(b []byte, p *capture.Packet) string {
	if len(b) < 20 {
		return fmt.Sprintf("a packet block of %d bytes", len(b)+blockFrame)
	}
	o := s.order
	what := s.fill(p, uint32(o.uint16(b)), uint64(o.uint32(b[4:]))<<32|uint64(o.uint32(b[8:])), b[20:], o.uint32(b[12:]), o.uint32(b[16:]))
	if what != "" {
		return what
	}
	if options := behind(b[20:], len(p.Data)); len(options) >= 4 {
		s.packetOptions(options, p)
	}
	return ""
}

// simple has neither time nor options, and is of the first interface.
func (s *ngStream) simple(b []byte, p *capture.Packet) string {
	if len(b) < 4 || len(s.interfaces) == 0 {
		return "a simple packet block that is too short or has no interface"
	}
	length := s.order.uint32(b)
	captured := min(length, uint32(len(b)-4))
	if snap := s.interfaces[0].snapLen; snap != 0 {
		captured = min(captured, snap)
	}
	what := s.fill(p, 0, 0, b[4:], captured, length)
	p.Time = 0
	return what
}

// fill sets all of a packet but what options say. data begins with the packet's bytes.
func (s *ngStream) fill(p *capture.Packet, id uint32, ticks uint64, data []byte, captured, length uint32) string {
	if uint64(id) >= uint64(len(s.interfaces)) {
		return fmt.Sprintf("a packet of interface %d, and the section has %d", id, len(s.interfaces))
	}
	if uint64(captured) > uint64(len(data)) {
		return fmt.Sprintf("a packet of %d captured bytes in a block that has room for %d", captured, len(data))
	}
	i := &s.interfaces[id]
	p.Time = i.clock.time(ticks)
	p.Link = i.link
	p.Interface = i.index
	p.Data = data[:captured]
	p.Length = int(max(length, captured))
	p.Process = capture.Process{}
	p.Direction = capture.DirectionUnknown
	return ""
}

// behind is what follows n bytes and their padding.
func behind(b []byte, n int) []byte {
	n = (n + 3) &^ 3
	if n >= len(b) {
		return nil
	}
	return b[n:]
}
