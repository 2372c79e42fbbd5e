package redis

import (
	"bytes"

	"taper.dev/taper/internal/capture"
)

// maxArguments is the most that servers accept of one command.
const maxArguments = 1 << 20

// command is one that is being read: an array of bulks.
type command struct {
	span  capture.Span
	count int64 // of arguments, its name included; 0 between commands
	at    int64 // the argument that comes next
	words [3][maxLine]byte
	sizes [3]int
}

// takeCommand takes the client's next token, and says whether it can be one.
func (p *parser) takeCommand() bool {
	c, s := &p.command, &p.client
	if c.count == 0 {
		return p.beginCommand()
	}
	c.span.Last = s.last
	c.span.Bytes += s.size
	if !s.isBulk {
		n, ok := number(s.text)
		if !ok || s.text[0] != '$' || n < 0 {
			return false
		}
		s.bulk(n)
		return true
	}
	if c.at < int64(len(c.words)) {
		c.sizes[c.at] = copy(c.words[c.at][:], s.text)
	}
	if c.at++; c.at == c.count {
		p.endCommand()
	}
	return true
}

// beginCommand takes the first line of a command, or one that is written in a line.
func (p *parser) beginCommand() bool {
	c, s := &p.command, &p.client
	if len(s.text) == 0 {
		return true
	}
	c.span = capture.Span{First: s.first, Last: s.last, Bytes: s.size}
	if s.text[0] == '*' {
		n, ok := number(s.text)
		if !ok || n > maxArguments {
			return false
		}
		c.count, c.at, c.sizes = max(n, 0), 0, [3]int{}
		return true
	}
	c.sizes = [3]int{}
	words := bytes.Fields(s.text)
	for i, word := range words[:min(len(words), len(c.words))] {
		c.sizes[i] = copy(c.words[i][:], word)
	}
	c.count = int64(len(words))
	if c.count > 0 {
		p.endCommand()
	}
	return true
}

func (c *command) word(i int) []byte { return c.words[i][:c.sizes[i]] }

// endCommand opens the exchange of a command that is complete.
func (p *parser) endCommand() {
	c := &p.command
	x := &exchange{replies: 1}
	name := nameOf(c.word(0))
	x.Op, x.Request = name, c.span
	switch name {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		p.mode.subscribed = true
		x.subscribes, x.replies = true, max(c.count-1, 1)
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		x.subscribes, x.replies = true, max(c.count-1, 1)
	case "MONITOR", "SYNC", "PSYNC":
		x.ends = true
	default:
		x.Op = withSubcommand(name, c.word(1))
	}
	c.count, c.at = 0, 0
	if x.Op == "CLIENT REPLY" {
		p.replyMode(x, bytes.ToUpper(c.word(2)))
		return
	}
	p.ask(x)
}

// replyMode takes CLIENT REPLY, by which clients do without replies.
func (p *parser) replyMode(x *exchange, argument []byte) {
	switch string(argument) {
	case "OFF":
		p.mode.silent = true
	case "SKIP":
		p.mode.skipOne = true
	default:
		p.mode.silent = false
		p.ask(x)
		return
	}
	p.settle()
	p.emit(&x.Exchange)
}
