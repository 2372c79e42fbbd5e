package dissect

import (
	"encoding/binary"
	"io"
	"testing"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

// scripted are packets made of any bytes: link type, length, microseconds since the one
// before, then what was captured of it.
type scripted struct {
	script []byte
	last   capture.Packet
}

const scriptHeader = 8

func (s *scripted) Next(p *capture.Packet) error {
	if len(s.script) < scriptHeader {
		return io.EOF
	}
	b := s.script
	captured := min(int(binary.LittleEndian.Uint16(b[2:])), len(b)-scriptHeader)
	s.last = capture.Packet{
		Number: s.last.Number + 1,
		Time:   s.last.Time + capture.Time(int32(binary.LittleEndian.Uint32(b[4:])))*1000,
		Link:   capture.LinkType(binary.LittleEndian.Uint16(b)),
		Data:   b[scriptHeader : scriptHeader+captured],
		Length: captured,
	}
	s.script = b[scriptHeader+captured:]
	*p = s.last
	return nil
}

// script writes packets as FuzzRun reads them.
func script(c *synth.Capture) []byte {
	var b []byte
	var p capture.Packet
	for before := capture.Time(0); c.Next(&p) == nil; before = p.Time {
		if before == 0 {
			before = p.Time - 1000
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(p.Link))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Data)))
		b = binary.LittleEndian.AppendUint32(b, uint32((p.Time-before)/1000))
		b = append(b, p.Data...)
	}
	return b
}

// FuzzRun takes any packets the whole way: all that was told must belong together.
func FuzzRun(f *testing.F) {
	for _, link := range []capture.LinkType{capture.LinkEthernet, capture.LinkSLL2} {
		p := mixedPlan(1)
		p.Link, p.Loss = link, 0.1
		c, err := synth.New(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(script(c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s told
		stats, err := Run(t.Context(), &scripted{script: b}, &s)
		if err != nil {
			t.Fatal(err)
		}
		var exchanges uint64
		known := map[*capture.Conn]bool{}
		for _, c := range s.conns {
			exchanges += c.Exchanges
			known[c] = true
		}
		if uint64(len(s.conns)) != stats.Conns || uint64(len(s.exchanges)) != exchanges {
			t.Errorf("%d connections with %d exchanges, of which %d were told; %+v", len(s.conns), exchanges, len(s.exchanges), stats)
		}
		for _, x := range s.exchanges {
			if !known[x.Conn] || x.Protocol == "" || !x.Request.Last.Seen() {
				t.Errorf("exchange %+v", x)
			}
		}
	})
}
