package frame

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
)

// Verdict says what became of a packet.
type Verdict uint8

// Verdicts.
const (
	// Decoded: the frame is set. Its payload was cut if it is shorter than its Length.
	Decoded Verdict = iota
	// Undecoded: neither TCP nor UDP over IP, or cut within the headers.
	Undecoded
	// Malformed: a header contradicts itself or the packet's length.
	Malformed
	// Held: a fragment that waits for others.
	Held
)

// Decoder decodes packets. It is not for several goroutines at once.
type Decoder struct {
	truncated, undecoded, malformed uint64
	fragments                       reassembly
}

// New returns a decoder.
func New() *Decoder { return &Decoder{} }

// Decode understands p's headers. With Decoded, all of f is set; its Payload is valid as
// long as p's Data and until the next call. Otherwise f means nothing.
func (d *Decoder) Decode(p *capture.Packet, f *capture.Frame) Verdict {
	f.Number, f.Time = p.Number, p.Time
	f.Interface, f.Direction, f.Process = p.Interface, p.Direction, p.Process
	v := d.link(p, f)
	switch v {
	case Decoded:
		if len(f.Payload) < f.Length {
			d.truncated++
		}
	case Undecoded:
		d.undecoded++
	case Malformed:
		d.malformed++
	}
	return v
}

// AddTo adds what was counted. Fragments that still wait count as not put together, so it
// is called once, at the end.
func (d *Decoder) AddTo(s *capture.Stats) {
	s.Truncated += d.truncated
	s.Undecoded += d.undecoded
	s.Malformed += d.malformed
	s.Fragments += d.fragments.lost + d.fragments.waiting()
}

// span is a part of a packet: what was captured of it, and how long it was.
type span struct {
	data []byte
	// length on the wire; at least len(data).
	length int
}

// after is what follows a header of n captured bytes.
func (s span) after(n int) span { return span{s.data[n:], s.length - n} }

// short is the verdict about a header of which fewer bytes are there than it has.
func (s span) short() Verdict {
	if len(s.data) < s.length {
		return Undecoded // cut
	}
	return Malformed
}

// ip decodes a packet of which only the version says which IP it is.
func (d *Decoder) ip(s span, f *capture.Frame) Verdict {
	if len(s.data) == 0 {
		return s.short()
	}
	switch s.data[0] >> 4 {
	case 4:
		return d.ipv4(s, f)
	case 6:
		return d.ipv6(s, f)
	}
	return Undecoded
}

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
