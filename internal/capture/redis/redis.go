package redis

import (
	"slices"

	"taper.dev/taper/internal/capture"
)

// Protocol reads Redis's protocol.
func Protocol() capture.Protocol {
	return capture.Protocol{
		Name:      capture.Redis,
		Transport: capture.TCP,
		Ports:     []uint16{6379, 6380, 26379}, // and TLS's neighbour, and Sentinel
		Recognise: recognise,
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			p := &parser{emit: emit, lostCommand: c.Mid, lostReply: c.Mid}
			p.client.reset()
			p.server.reset()
			return p
		},
	}
}

// maxOpen bounds the commands that wait on a connection.
const maxOpen = 1024

// parser reads one connection.
type parser struct {
	emit           capture.Emit
	client, server scanner
	command        command
	reply          reply
	// open are the commands that wait for their replies; skip is how many replies come
	// before that of the first, to commands that were given up.
	open []*exchange
	skip uint64
	// lostCommand and lostReply: it is not known where the next one begins.
	lostCommand, lostReply bool
	lastReply              capture.Mark
	lost                   uint64
	mode                   mode
}

// mode is what commands have changed.
type mode struct {
	subscribed bool // messages may come
	silent     bool // commands are not answered
	skipOne    bool // the next one is not
	ignored    bool // what follows is not RESP
}

// exchange is one that is not answered.
type exchange struct {
	capture.Exchange
	answer capture.Span // so far
	// replies is how many more are to come.
	replies int64
	// subscribes: confirmations are its replies. ends: what follows the reply is not RESP.
	subscribes, ends bool
	// blurred: bytes of the reply are missing, and perhaps its end.
	blurred bool
}

func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	switch {
	case p.mode.ignored:
	case c.Side == capture.Client:
		p.fromClient(c)
	default:
		p.fromServer(c)
	}
	return capture.Handover{}
}

func (p *parser) fromClient(c capture.Chunk) {
	if c.Missing > 0 && !p.lostCommand && !p.client.inBulk(int64(c.Missing)) {
		if p.command.at > 0 { // its name is there
			p.endCommand()
		}
		p.loseCommands()
	}
	if p.lostCommand && len(c.Data) > 0 && looksLikeCommand(c.Data) {
		p.lostCommand = false
		// Replies to commands that are not in the capture may be on their way.
		p.lostReply = p.lostReply || len(p.open) > 0
	}
	for !p.lostCommand && p.client.next(&c) {
		if !p.takeCommand() {
			p.lost += uint64(p.client.size)
			p.loseCommands()
		}
	}
	if p.lostCommand {
		p.lost += uint64(len(c.Data))
	}
}

func (p *parser) fromServer(c capture.Chunk) {
	if c.Missing == 0 && len(c.Data) == 0 {
		return
	}
	p.lastReply = c.Mark
	if c.Missing > 0 && !p.lostReply && !p.server.inBulk(int64(c.Missing)) {
		p.loseReplies()
		// Clients mostly wait for each reply before they go on.
		for len(p.open) > 1 {
			p.emit(&p.take().Exchange)
		}
		p.skip = 0
	}
	for !p.lostReply && p.server.next(&c) {
		if !p.takeReply() {
			p.lost += uint64(p.server.size)
			p.loseReplies()
		}
	}
	if p.lostReply {
		p.lost += uint64(len(c.Data))
		if len(p.open) > 0 {
			p.open[0].blurred = true
		}
	}
}

func (p *parser) loseCommands() {
	p.lostCommand = true
	p.client.reset()
	p.command = command{}
}

func (p *parser) loseReplies() {
	p.lostReply = true
	if len(p.open) > 0 && !p.open[0].answer.First.Seen() {
		p.open[0].answer.First = p.reply.span.First
	}
	p.server.reset()
	p.reply = reply{}
}

// settle ends what a reply that is not in the capture has ended, since the client goes
// on. The next bytes of the server are the reply to what it asks now.
func (p *parser) settle() {
	if !p.lostReply {
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
	p.giveUpAll()
	p.lostReply, p.skip = false, 0
	p.server.reset()
	p.reply = reply{}
}

// ask opens an exchange.
func (p *parser) ask(x *exchange) {
	p.settle()
	if p.mode.silent || p.mode.skipOne {
		p.mode.skipOne = false
		p.emit(&x.Exchange)
		return
	}
	if len(p.open) == maxOpen {
		p.skip += uint64(p.open[0].replies)
		p.emit(&p.take().Exchange)
	}
	p.open = append(p.open, x)
}

// finish tells the first open exchange as answered.
func (p *parser) finish() {
	x := p.take()
	x.Response = x.answer
	p.mode.ignored = x.ends
	p.emit(&x.Exchange)
}

func (p *parser) take() *exchange {
	x := p.open[0]
	p.open = slices.Delete(p.open, 0, 1)
	return x
}

func (p *parser) giveUpAll() {
	for len(p.open) > 0 {
		p.emit(&p.take().Exchange)
	}
}

// Close tells what was not answered.
func (p *parser) Close() { p.giveUpAll() }

// Lost counts bytes that could not be told to be commands or replies.
func (p *parser) Lost() uint64 { return p.lost }
