package mysql

import (
	"encoding/binary"
	"strconv"

	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// state is what the next packet of a response is.
type state uint8

// States.
const (
	firstPacket    state = iota // OK, an error, a file, or how many columns there are
	firstOfPrepare              // OK with a statement's id, or an error
	definitions                 // of columns, left of them
	onlyThese                   // the same, and nothing after them
	afterThem                   // EOF, or a row already
	rows                        // until EOF
	onePacket
	authenticating
)

// response is how far one has come.
type response struct {
	state state
	left  int // packets, in definitions and onlyThese
	// statement is the one that is being prepared.
	statement statement
}

// fromServer takes a packet of the server.
func (p *parser) fromServer(m *framing.Message) {
	continued := p.continued
	p.continued = m.Size == maxPayload
	if len(p.open) == 0 {
		p.greeting(m)
		return
	}
	x := p.open[0]
	if m.Header[3] != x.sequence {
		p.server.LoseStep()
		return
	}
	x.sequence = m.Header[3] + 1
	x.answer.Extend(m.Span())
	if continued || len(m.Body) == 0 {
		return
	}
	if m.Body[0] == headError {
		p.failed(x, m)
		return
	}
	if p.advance(x, m) {
		p.finish()
	}
}

// greeting takes what the server says first.
func (p *parser) greeting(m *framing.Message) {
	const fixed = 4 + 8 + 1 // thread, challenge, a zero
	if !p.starting || m.Header[3] != 0 || len(m.Body) == 0 || m.Body[0] != protocol10 {
		return
	}
	rest := m.Body[1:]
	for len(rest) > 0 && rest[0] != 0 {
		rest = rest[1:] // the server's version
	}
	if len(rest) < 1+fixed+7 {
		return
	}
	rest = rest[1+fixed:]
	p.capabilities = uint32(binary.LittleEndian.Uint16(rest)) | uint32(binary.LittleEndian.Uint16(rest[5:]))<<16
	p.status(binary.LittleEndian.Uint16(rest[3:]))
}

// failed takes an error. MariaDB also reports progress so.
func (p *parser) failed(x *exchange, m *framing.Message) {
	const progress = 1<<16 - 1
	if len(m.Body) < 3 {
		return
	}
	number := binary.LittleEndian.Uint16(m.Body[1:])
	if number == progress {
		return
	}
	x.Failed, x.Code = true, strconv.Itoa(int(number))
	p.finish()
}

// advance takes a packet of a response, and says whether it is its last.
func (p *parser) advance(x *exchange, m *framing.Message) bool {
	switch x.state {
	case firstPacket:
		return p.first(x, m)
	case firstOfPrepare:
		return p.firstOfPrepare(x, m)
	case definitions:
		if x.left--; x.left <= 0 {
			x.state = afterThem
		}
	case onlyThese:
		x.left--
		return x.left <= 0
	case afterThem:
		x.state = rows
		if m.Size == eofSize && isEOF(m) {
			flags, _ := statusOf(m)
			p.status(flags)
			return flags&cursorExists != 0
		}
		return p.row(x, m)
	case rows:
		return p.row(x, m)
	case onePacket:
		return true
	case authenticating:
		if m.Body[0] == headOK {
			p.ended(m)
			p.compressed = p.capabilities&(capCompress|capCompressZstd) != 0 && x.Op == "startup"
			return true
		}
	}
	return false
}

// first takes the first packet of a result.
func (p *parser) first(x *exchange, m *framing.Message) bool {
	switch m.Body[0] {
	case headOK, headEOF:
		return p.ended(m)
	case headInfile: // the client sends a file
		return false
	}
	x.state, x.left = definitions, count(m.Body)
	// MariaDB leaves out definitions that the client remembers, and says so behind.
	if n := lengthOf(m.Body); x.left == 0 || len(m.Body) == n+1 && m.Body[n] == 0 {
		x.state = afterThem
	}
	return false
}

func (p *parser) firstOfPrepare(x *exchange, m *framing.Message) bool {
	if m.Body[0] != headOK || len(m.Body) < 9 {
		return true
	}
	p.prepared.put(id(m.Body[1:]), x.statement)
	x.state = onlyThese
	for _, n := range []uint16{binary.LittleEndian.Uint16(m.Body[5:]), binary.LittleEndian.Uint16(m.Body[7:])} {
		if x.left += int(n); n > 0 && p.capabilities != 0 && p.capabilities&capDeprecateEOF == 0 {
			x.left++ // EOF behind them
		}
	}
	return x.left == 0
}

// row takes a row, or the end of rows.
func (p *parser) row(x *exchange, m *framing.Message) bool {
	if !isEOF(m) {
		return false
	}
	x.state = firstPacket
	return p.ended(m)
}

// ended takes the OK or EOF at the end of a result, and says whether it was the last one.
func (p *parser) ended(m *framing.Message) bool {
	flags, ok := statusOf(m)
	if ok {
		p.status(flags)
	}
	return !ok || flags&moreResults == 0
}

// status takes what the server says about its settings.
func (p *parser) status(flags uint16) {
	p.syntax.Backslash = sqltext.Escape
	if flags&noBackslashEscapes != 0 {
		p.syntax.Backslash = sqltext.Plain
	}
}
