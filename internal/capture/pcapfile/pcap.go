package pcapfile

import (
	"encoding/binary"
	"fmt"
	"io"

	"taper.dev/taper/internal/capture"
)

const (
	fileHeader   = 24
	recordHeader = 16
	// modifiedHeader is the record header of Kuznetzov's variant, which adds interface
	// index, protocol and packet type.
	modifiedHeader = 24
	// maxSnapLen is the most that tcpdump captures of a packet. Files that announce more
	// are believed up to maxWindow.
	maxSnapLen = 256 << 10
)

// Magic numbers, as the writer's byte order shows them.
const (
	magicMicro    = 0xa1b2c3d4
	magicNano     = 0xa1b23c4d
	magicModified = 0xa1b2cd34
)

// order is a byte order with methods that the compiler can inline, unlike those of the
// interface binary.ByteOrder.
type order struct{ big bool }

func (o order) uint16(b []byte) uint16 {
	if o.big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func (o order) uint32(b []byte) uint32 {
	if o.big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (o order) uint64(b []byte) uint64 {
	if o.big {
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// pcapStream reads the classic format.
type pcapStream struct {
	w      *window
	order  order
	tick   capture.Time // nanoseconds per unit of a record's fraction
	header int          // of a record, in bytes
	link   capture.LinkType
	limit  uint32 // the largest believable record
	number uint64
}

// isPcap says whether a file that begins with these 4 bytes is pcap.
func isPcap(magic []byte) bool {
	_, _, ok := pcapMagic(magic)
	return ok
}

func pcapMagic(b []byte) (order, uint32, bool) {
	for _, o := range []order{{big: false}, {big: true}} {
		switch m := o.uint32(b); m {
		case magicMicro, magicNano, magicModified:
			return o, m, true
		}
	}
	return order{}, 0, false
}

func newPcapStream(w *window) (*pcapStream, error) {
	h, err := w.peek(fileHeader)
	if err != nil {
		return nil, fmt.Errorf("ends within its file header, after %d of %d bytes: %w", len(h), fileHeader, err)
	}
	o, magic, _ := pcapMagic(h)
	s := &pcapStream{w: w, order: o, tick: 1000, header: recordHeader}
	switch magic {
	case magicNano:
		s.tick = 1
	case magicModified:
		s.header = modifiedHeader
	}
	if major := o.uint16(h[4:]); major != 2 {
		return nil, fmt.Errorf("is pcap of version %d.%d, and taper reads version 2; convert it with `editcap -F pcap IN OUT`", major, o.uint16(h[6:]))
	}
	s.limit = min(max(o.uint32(h[16:]), maxSnapLen), maxWindow-modifiedHeader)
	// The upper half says how long frame check sequences are; they lie behind what the IP
	// header counts.
	s.link = capture.LinkType(o.uint32(h[20:]) & 0xffff)
	w.skip(fileHeader)
	return s, nil
}

func (s *pcapStream) next(p *capture.Packet) error {
	w := s.w
	h, err := w.peek(s.header)
	if err != nil {
		if err == io.EOF {
			return io.EOF
		}
		return breakOff(w, "a packet's header", len(h), s.header, err)
	}
	captured := s.order.uint32(h[8:])
	if captured > s.limit {
		return &broken{offset: w.offset, what: fmt.Sprintf("a packet of %d captured bytes cannot be, since the file's snap length allows %d", captured, s.limit)}
	}
	p.Time = capture.Time(s.order.uint32(h))*1e9 + capture.Time(s.order.uint32(h[4:]))*s.tick
	p.Length = int(s.order.uint32(h[12:]))
	size := s.header + int(captured)
	b, err := w.peek(size)
	if err != nil {
		return breakOff(w, "a packet", len(b), size, err)
	}
	p.Data = b[s.header:]
	p.Length = max(p.Length, len(p.Data))
	p.Link = s.link
	p.Interface = -1
	p.Process = capture.Process{}
	p.Direction = capture.DirectionUnknown
	w.skip(size)
	s.number++
	p.Number = s.number
	return nil
}

func (s *pcapStream) numbered() uint64 { return s.number }
