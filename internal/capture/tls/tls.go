package tls

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// Protocol reads TLS over TCP.
func Protocol() capture.Protocol {
	return capture.Protocol{
		Name:      capture.TLS,
		Transport: capture.TCP,
		Ports:     []uint16{443, 465, 636, 993, 995, 5671, 6443, 8443, 9093},
		Recognise: recognise,
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			p := &parser{emit: emit}
			for side := range p.sides {
				p.sides[side].records.Reset(&records, !c.Mid)
			}
			return p
		},
	}
}

// Types of records.
const (
	changeCipherSpec = 20
	alert            = 21
	handshakeRecord  = 22
	applicationData  = 23
	heartbeat        = 24
)

// Versions.
const (
	version12 = 0x0303
	version13 = 0x0304
)

// maxRecord is the longest record: 2^14 bytes, and what encryption may add.
const maxRecord = 1<<14 + 2048

var records = framing.Format{
	Header: 5,
	Size: func(h []byte) (int64, bool) {
		size := binary.BigEndian.Uint16(h[3:])
		return int64(size), h[0] >= changeCipherSpec && h[0] <= heartbeat && h[1] == 3 && h[2] <= 4 && size <= maxRecord
	},
	Keep: func(h []byte) int {
		switch h[0] {
		case handshakeRecord:
			return maxRecord
		case alert:
			return 2
		}
		return 0
	},
}

// recognise tells a hello on any port, and other records on a usual one.
func recognise(first []byte) capture.Recognition {
	header := [5]byte{handshakeRecord, 3, 1, 0, 1}
	copy(header[:], first) // what is not there yet is as it should be
	size, ok := records.Size(header[:])
	switch {
	case !ok || size == 0:
		return capture.NotIt
	case len(first) < len(header):
		return capture.Perhaps
	}
	body := first[records.Header:]
	if first[0] != handshakeRecord || len(body) < 6 || body[0] != clientHello && body[0] != serverHello || body[1] != 0 || body[4] != 3 {
		return capture.Perhaps
	}
	if body[0] == clientHello {
		return capture.ByClient
	}
	return capture.ByServer
}

// parser reads one connection.
type parser struct {
	emit  capture.Emit
	sides [2]side
	// shake is the handshake while it lasts; sni and version are what became of it.
	shake   *handshake
	sni     string
	version uint16 // 0 is unknown
	turns   turns
}

// side is what one side sends.
type side struct {
	records framing.Reader
	hello   hello
	// changed: its records are encrypted since ChangeCipherSpec. It means nothing in
	// TLS 1.3, where it is sent for show.
	changed bool
}

func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	var m framing.Message
	s := &p.sides[c.Side]
	bytes := int64(c.Missing + len(c.Data))
	for s.records.Next(&c, &m) {
		p.record(c.Side, &m)
	}
	switch {
	case s.records.InStep() || bytes == 0:
	case p.shake == nil:
		p.data(c.Side, capture.Span{First: c.Mark, Last: c.Mark, Bytes: bytes}, false)
	case c.Side == capture.Server:
		p.shake.encrypted = true // or so it may be
	}
	return capture.Handover{}
}

func (p *parser) record(from capture.Side, m *framing.Message) {
	kind := m.Header[0]
	if kind == handshakeRecord && p.inClear(from) {
		p.hello(from, m)
	}
	switch {
	case p.shake != nil:
		p.shaking(from, m)
	case kind == applicationData:
		p.data(from, m.Span(), m.Size == alertSize && p.version != version12)
	}
}

// alertSize is that of a record with an alert in TLS 1.3: its two bytes, the type, and
// what proves them.
const alertSize = 2 + 1 + 16

// Close tells what is still open.
func (p *parser) Close() {
	if p.shake != nil {
		x := p.shake
		p.shake = nil
		p.emit(&x.exchange)
	}
	p.endTurn()
}

// Lost counts bytes outside of records.
func (p *parser) Lost() uint64 {
	return p.sides[capture.Client].records.Lost() + p.sides[capture.Server].records.Lost()
}
