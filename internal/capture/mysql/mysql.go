package mysql

import (
	"slices"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// Protocol reads MySQL's protocol.
func Protocol() capture.Protocol {
	return capture.Protocol{
		Name:      capture.MySQL,
		Transport: capture.TCP,
		Ports:     []uint16{3306, 4000, 6033}, // MySQL and MariaDB, TiDB, ProxySQL
		Recognise: recognise,
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			p := &parser{emit: emit, starting: !c.Mid, syntax: sqltext.Syntax{MySQL: true}}
			p.client.Reset(&fromClient, p.starting)
			p.server.Reset(&fromServer, p.starting)
			return p
		},
	}
}

const (
	// maxOpen bounds the commands that wait on a connection: some clients send several at
	// once.
	maxOpen = 256
	// maxPrepared bounds the statements remembered of one.
	maxPrepared = 1024
)

// parser reads one connection.
type parser struct {
	emit           capture.Emit
	client, server framing.Reader
	syntax         sqltext.Syntax
	// starting: the greeting is not yet answered.
	starting bool
	// capabilities are those that both sides have; 0 if unknown. compressed: after
	// authentication everything is.
	capabilities uint32
	compressed   bool
	// continued says that the server's last packet goes on in the next.
	continued bool
	open      []*exchange
	prepared  prepared
	lastReply capture.Mark
	// ignored: what follows is not read.
	ignored bool
}

// exchange is one that is not answered.
type exchange struct {
	capture.Exchange
	answer capture.Span // so far
	response
	// sequence is the number of the next packet of the server. Both sides count together.
	sequence byte
	// blurred: packets of the response are missing, and perhaps its end.
	blurred bool
}

func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	if p.ignored {
		return capture.Handover{}
	}
	var m framing.Message
	if c.Side == capture.Client {
		if c.Missing > 0 {
			p.syntax.Backslash = sqltext.Unknown // it may have been set
		}
		for p.client.Next(&c, &m) {
			if p.fromClient(&m) {
				return capture.Handover{To: capture.TLS, Rest: c.Data}
			}
		}
		return capture.Handover{}
	}
	if c.Missing > 0 || len(c.Data) > 0 {
		p.lastReply = c.Mark
	}
	if c.Missing > 0 {
		p.missing(&c)
	}
	for p.server.Next(&c, &m) {
		if p.fromServer(&m); p.compressed && len(p.open) == 0 {
			return capture.Handover{To: capture.Turns, Rest: c.Data}
		}
	}
	if !p.server.InStep() && len(p.open) > 0 {
		p.open[0].blurred = true
	}
	return capture.Handover{}
}

// missing takes a gap in what the server sent. When it is not within a packet, responses
// may be in it. Clients mostly wait for each before they go on, so those to all commands
// but the last are; what follows the gap may be the last one's.
func (p *parser) missing(c *capture.Chunk) {
	gap := capture.Chunk{Mark: c.Mark, Missing: c.Missing}
	c.Missing = 0
	var m framing.Message
	for p.server.Next(&gap, &m) {
		p.fromServer(&m)
	}
	if p.server.InStep() {
		return
	}
	p.syntax.Backslash = sqltext.Unknown
	several := len(p.open) > 1
	for len(p.open) > 1 {
		p.emit(&p.take().Exchange)
	}
	if several && len(c.Data) > headerLen && c.Data[3] == p.open[0].sequence {
		p.server.Reset(&fromServer, true)
		p.continued = false
	}
}

// begin opens an exchange.
func (p *parser) begin(m *framing.Message, op string, first state) *exchange {
	p.settle()
	switch {
	case len(p.open) == maxOpen:
		p.loseReplies()
	case len(p.open) == 0 && !p.server.Between():
		// What the server is saying answers nothing: its packets were no packets.
		p.server.Reset(&fromServer, true)
	}
	x := &exchange{sequence: m.Header[3] + 1}
	x.Op, x.Request, x.state = op, m.Span(), first
	p.open = append(p.open, x)
	return x
}

// settle ends what a response that is not in the capture has ended, since the client goes
// on. The next bytes of the server respond to what it asks now.
func (p *parser) settle() {
	if p.server.InStep() {
		return
	}
	if len(p.open) == 1 && p.open[0].blurred {
		x := p.open[0]
		if !x.answer.First.Seen() {
			x.answer.First = p.lastReply
		}
		x.answer.Last = p.lastReply
		p.finish()
	}
	p.Close()
	p.server.Reset(&fromServer, true)
	p.continued = false
}

// loseReplies gives up what is open: whose reply comes next is not known.
func (p *parser) loseReplies() {
	p.Close()
	p.server.LoseStep()
}

// finish tells the first open exchange as answered.
func (p *parser) finish() {
	x := p.take()
	x.Response = x.answer
	p.emit(&x.Exchange)
}

func (p *parser) take() *exchange {
	x := p.open[0]
	p.open = slices.Delete(p.open, 0, 1)
	return x
}

// Close tells what was not answered.
func (p *parser) Close() {
	for len(p.open) > 0 {
		p.emit(&p.take().Exchange)
	}
}

// Lost counts bytes outside of packets.
func (p *parser) Lost() uint64 { return p.client.Lost() + p.server.Lost() }
