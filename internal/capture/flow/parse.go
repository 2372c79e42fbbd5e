package flow

import "taper.dev/taper/internal/capture"

// maxHandovers bounds how often one chunk is handed over, should parsers disagree.
const maxHandovers = 8

// chunk gives an end's next bytes to the connection's parser.
func (t *Tracker) chunk(c *conn, from end, ch *capture.Chunk) {
	if c.deaf {
		return
	}
	if c.parser == nil {
		t.begins(c, from, ch)
		return
	}
	ch.Side = c.side(from)
	h := c.parser.Chunk(*ch)
	for range maxHandovers {
		if h.To == "" {
			return
		}
		t.leave(c)
		t.start(c, t.named(h.To, c.Transport))
		if len(h.Rest) == 0 || c.deaf {
			return
		}
		h = c.parser.Chunk(capture.Chunk{Side: ch.Side, Mark: ch.Mark, Data: h.Rest})
	}
	if h.To != "" {
		t.leave(c)
		t.start(c, t.turns)
	}
}

// start begins a protocol; without one the connection is not listened to any more.
func (t *Tracker) start(c *conn, p *capture.Protocol) {
	if p == nil {
		c.deaf = true
		return
	}
	c.Protocol = p.Name
	c.parser = p.New(&c.Conn, func(x *capture.Exchange) { t.emit(c, x) })
}

// leave ends a parser.
func (t *Tracker) leave(c *conn) {
	c.parser.Close()
	t.stats.unparsed += c.parser.Lost()
	c.parser = nil
}

// endParser ends a connection's parser, once it is known which that is.
func (t *Tracker) endParser(c *conn) {
	if c.undecided != nil && len(c.undecided.chunks) > 0 {
		t.settle(c, guess{protocol: t.turns, client: c.client})
		t.replay(c, 0)
	}
	if c.parser != nil {
		t.leave(c)
	}
}

// named finds a protocol. One that nobody listed is turns.
func (t *Tracker) named(name string, transport capture.Transport) *capture.Protocol {
	for i := range t.protocols {
		p := &t.protocols[i]
		if p.Name == name && (p.Transport == 0 || transport == 0 || p.Transport == transport) {
			return p
		}
	}
	return t.turns
}

// emit completes an exchange and tells it.
func (t *Tracker) emit(c *conn, x *capture.Exchange) {
	c.locate()
	x.Conn = &c.Conn
	if x.Protocol == "" {
		x.Protocol = c.Protocol
	}
	x.Index = c.Exchanges
	c.Exchanges++
	x.Process = c.processOf(x.Request.First.Packet)
	t.stats.exchange(x.Protocol)
	if !x.Answered() {
		t.stats.unanswered++
	}
	t.sink.Exchange(x)
}
