package postgresql

import (
	"encoding/binary"
	"slices"
	"strings"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// Protocol reads PostgreSQL's protocol.
func Protocol() capture.Protocol {
	return capture.Protocol{
		Name:      capture.PostgreSQL,
		Transport: capture.TCP,
		Ports:     []uint16{5432, 6432, 26257}, // PostgreSQL, PgBouncer, CockroachDB
		Recognise: recognise,
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			p := &parser{emit: emit, starting: !c.Mid}
			if p.starting {
				p.client.Reset(&startups, true)
			} else {
				p.client.Reset(&ofClient, false)
			}
			p.server.Reset(&ofServer, p.starting)
			return p
		},
	}
}

// recognise tells the beginning of a connection on any port, and later messages on a
// usual one.
func recognise(first []byte) capture.Recognition {
	if len(first) >= startups.Header {
		_, ok := startups.Size(first[:startups.Header])
		code := binary.BigEndian.Uint32(first[4:])
		switch {
		case !ok:
		case code>>16 != 3 || len(first) > 8 && 'a' <= first[8] && first[8] <= 'z':
			return capture.ByClient
		}
	}
	if shortOfClient.Follow(first) || shortOfServer.Follow(first) {
		return capture.Perhaps
	}
	if tooShort(first) {
		return capture.Perhaps
	}
	return capture.NotIt
}

// tooShort says whether a startup packet or message begins that more bytes would decide.
func tooShort(first []byte) bool {
	switch {
	case len(first) == 0:
		return true
	case first[0] == 0:
		if len(first) < startups.Header {
			return true
		}
		_, ok := startups.Size(first[:startups.Header])
		return ok && len(first) == startups.Header
	}
	return len(first) < headerLen && strings.IndexByte(lettersOfClient+lettersOfServer, first[0]) >= 0
}

const (
	// maxOpen bounds the exchanges that wait on a connection.
	maxOpen = 256
	// maxPrepared and maxPortals bound the statements and portals remembered of one.
	maxPrepared = 1024
	maxPortals  = 64
)

// parser reads one connection.
type parser struct {
	emit           capture.Emit
	client, server framing.Reader
	syntax         sqltext.Syntax
	// starting: the client has not said its version yet.
	starting bool
	// offered is what SSLRequest or GSSENCRequest the server's next byte answers.
	offered *exchange
	// open are the exchanges that wait, in their order. The last one may still grow.
	// skip is how many answers come before that of the first, to what was given up.
	open      []*exchange
	skip      uint64
	prepared  table[statement]
	portals   table[statement]
	lastReply capture.Mark // of the server
}

// statement is one without data.
type statement struct{ op, text string }

// exchange is one that is not complete.
type exchange struct {
	capture.Exchange
	answer capture.Span // so far
	// sealed: ReadyForQuery will end it.
	sealed bool
	// executed: Op and Target are those of a statement that is executed. parsed is the
	// first that was parsed.
	executed bool
	parsed   statement
	// blurred: bytes between messages of the answer are missing.
	blurred bool
}

func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	if c.Side == capture.Client {
		p.fromClient(c)
		return capture.Handover{}
	}
	if p.offered != nil && (c.Missing > 0 || len(c.Data) > 0) {
		if to := p.accepted(&c); to.To != "" {
			return to
		}
	}
	p.fromServer(c)
	return capture.Handover{}
}

func (p *parser) fromClient(c capture.Chunk) {
	if c.Missing > 0 {
		p.syntax.Backslash = sqltext.Unknown // it may have been set
	}
	var m framing.Message
	for p.client.Next(&c, &m) {
		if p.starting {
			p.startup(&m)
		} else {
			p.ask(&m)
		}
	}
	if !p.client.InStep() {
		p.started()
		p.seal()
	}
}

func (p *parser) fromServer(c capture.Chunk) {
	if c.Missing > 0 || len(c.Data) > 0 {
		p.lastReply = c.Mark
	}
	if c.Missing > 0 {
		p.missing(capture.Chunk{Mark: c.Mark, Missing: c.Missing})
		c.Missing = 0
	}
	var m framing.Message
	for p.server.Next(&c, &m) {
		p.reply(&m)
	}
	if !p.server.InStep() && len(p.open) > 0 {
		p.open[0].blurred = true
	}
}

// missing takes a gap in what the server sent. When it is not within a message, answers
// may be in it. Clients mostly wait for each answer before they ask on, so those to all
// questions but the last are.
func (p *parser) missing(gap capture.Chunk) {
	var m framing.Message
	for p.server.Next(&gap, &m) {
		p.reply(&m)
	}
	if p.server.InStep() {
		return
	}
	p.syntax.Backslash = sqltext.Unknown
	for len(p.open) > 1 {
		p.giveUp()
	}
	p.skip = 0
	if len(p.open) > 0 {
		p.open[0].blurred = true
	}
}

// started gives up on the beginning of a connection, which is not there.
func (p *parser) started() {
	if p.starting {
		p.starting = false
		p.client.Reset(&ofClient, false)
	}
}

// begin makes an exchange that begins with a message of the client.
func (p *parser) begin(m *framing.Message, op string) *exchange {
	p.settle()
	switch {
	case len(p.open) == maxOpen:
		p.skip++
		p.giveUp()
	case len(p.open) == 0 && !p.server.Between() && !p.starting:
		// What the server is saying answers nothing: its messages were none.
		p.server.Reset(&ofServer, false)
	}
	x := &exchange{}
	x.Op, x.Request = op, m.Span()
	p.open = append(p.open, x)
	return x
}

// settle ends what a reply that is not in the capture has ended, since the client asks
// for more.
func (p *parser) settle() {
	if len(p.open) == 0 || !p.open[0].blurred {
		return
	}
	if x := p.open[0]; len(p.open) == 1 && x.sealed {
		if !x.answer.First.Seen() {
			x.answer.First = p.lastReply
		}
		x.answer.Last = p.lastReply
		p.finish()
		return
	}
	for len(p.open) > 0 {
		p.giveUp()
	}
	p.skip = 0
}

// finish tells the oldest exchange as answered.
func (p *parser) finish() {
	x := p.take()
	x.Response = x.answer
	p.emit(&x.Exchange)
}

// giveUp tells the oldest exchange as not answered, unless an error was the last that the
// server had to say about it.
func (p *parser) giveUp() {
	x := p.take()
	if x.Failed {
		x.Response = x.answer
	}
	p.emit(&x.Exchange)
}

func (p *parser) take() *exchange {
	x := p.open[0]
	p.open = slices.Delete(p.open, 0, 1)
	return x
}

// Close tells what was not answered.
func (p *parser) Close() {
	if p.offered != nil {
		p.emit(&p.offered.Exchange)
		p.offered = nil
	}
	for len(p.open) > 0 {
		p.giveUp()
	}
}

// Lost counts bytes outside of messages.
func (p *parser) Lost() uint64 { return p.client.Lost() + p.server.Lost() }
