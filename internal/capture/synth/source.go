package synth

import (
	"encoding/binary"
	"io"
	"slices"

	"taper.dev/taper/internal/capture"
)

// Capture is a whole capture in memory.
type Capture struct {
	Truth   Truth
	packets []capture.Packet
	next    int
}

// New generates a capture in memory.
func New(p Plan) (*Capture, error) {
	c := &Capture{}
	unasked, err := Generate(p, func(packet *capture.Packet) error {
		kept := *packet
		kept.Data = slices.Clone(packet.Data)
		c.packets = append(c.packets, kept)
		return nil
	}, func(r Request) { c.Truth.Requests = append(c.Truth.Requests, r) })
	c.Truth.Background = unasked
	return c, err
}

// Len is the number of packets.
func (c *Capture) Len() int { return len(c.packets) }

// Rewind begins anew.
func (c *Capture) Rewind() { c.next = 0 }

// Next is the next packet, or io.EOF.
func (c *Capture) Next(p *capture.Packet) error {
	if c.next == len(c.packets) {
		return io.EOF
	}
	*p = c.packets[c.next]
	c.next++
	return nil
}

// WriteTo writes the rest as a pcap file with nanoseconds.
func (c *Capture) WriteTo(w io.Writer) (int64, error) {
	var written int64
	file := NewFile(w)
	for _, p := range c.packets[c.next:] {
		n, err := file.Write(&p)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	c.next = len(c.packets)
	return written, nil
}

// File writes packets of one link type as a pcap file with nanoseconds.
type File struct {
	w      io.Writer
	header []byte
}

// NewFile writes to w, which should be buffered.
func NewFile(w io.Writer) *File { return &File{w: w} }

// pcapNanoseconds is the magic number of pcap files with nanoseconds.
const pcapNanoseconds = 0xa1b23c4d

// Write writes a packet, before the first one also the file's header.
func (f *File) Write(p *capture.Packet) (written int, err error) {
	b := f.header[:0]
	if f.header == nil {
		b = binary.LittleEndian.AppendUint32(b, pcapNanoseconds)
		b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Link))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Time/1e9))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Time%1e9))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.Length))
	f.header = b
	for _, part := range [][]byte{b, p.Data} {
		n, err := f.w.Write(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
