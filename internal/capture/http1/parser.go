package http1

import (
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
)

// maxPending bounds how many requests of a connection wait for an answer.
const maxPending = 256

// early is how long before its request a response may have been captured: packets of two
// directions are not always recorded in their order.
const early = 10 * time.Millisecond

// record is an exchange in the making.
type record struct {
	capture.Exchange
	detail capture.HTTPDetail
	// asked and answered say that the request and the response are complete; unasked that
	// the response came first and its request is still to come.
	asked, answered, unasked bool
	// upgrade is what the request offered to go on with: a protocol, or "".
	upgrade string
	form    bool // the body is an HTML form
	flavor  bool // Metadata-Flavor: Google
	azure   bool // Metadata: true
	session bool // AWS session token
}

// parser pairs the messages of both sides.
type parser struct {
	conn  *capture.Conn
	emit  capture.Emit
	cache *fields.Cache
	half  [2]half
	// pending are the exchanges that are not complete, oldest first. The last one's
	// request may still be coming.
	pending []*record
	// answering is what the response that is being read answers.
	answering *record
	// interim is where 1xx responses count.
	interim capture.Span
	// paired counts exchanges, messages what was found, chunks what came from each side.
	paired   uint64
	messages uint64
	chunks   [2]uint64
	// tunnel says that a CONNECT succeeded and what follows is not known yet; to is what
	// the connection speaks from now on, if it is not HTTP/1 any more.
	tunnel bool
	to     string
}

func newParser(conn *capture.Conn, emit capture.Emit, cache *fields.Cache) *parser {
	return &parser{conn: conn, emit: emit, cache: cache}
}

// Chunk reads the next bytes of one side.
func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	if p.tunnel {
		if over := p.sniff(&c); over.To != "" || p.tunnel {
			return over
		}
	}
	h := &p.half[c.Side]
	data := c.Data
	if c.Missing > 0 {
		p.gap(h, &c)
		if p.to != "" {
			return p.leave(data)
		}
	}
	if len(data) > 0 {
		h.fresh = true
		p.chunks[c.Side]++
	}
	for len(data) > 0 {
		data = data[p.step(h, c.Side, data, c.Mark):]
		if p.to != "" {
			return p.leave(data)
		}
		if p.tunnel {
			c.Data, c.Missing = data, 0
			return p.sniff(&c)
		}
	}
	h.last = c.Mark
	if p.hopeless() {
		return capture.Handover{To: capture.Turns}
	}
	return capture.Handover{}
}

// leave hands the connection over. No request is answered here any more.
func (p *parser) leave(rest []byte) capture.Handover {
	p.Close()
	return capture.Handover{To: p.to, Rest: rest}
}

// hopeless says that this never was HTTP: both sides have sent for a while, and nothing
// looked like a message.
func (p *parser) hopeless() bool {
	const most = 8
	return p.messages == 0 && p.chunks[capture.Client] >= most && p.chunks[capture.Server] >= most
}

// sniff finds out what goes through a tunnel, by the first bytes.
func (p *parser) sniff(c *capture.Chunk) capture.Handover {
	switch data := c.Data; {
	case c.Missing > 0:
		return capture.Handover{To: capture.Turns, Rest: data}
	case len(data) == 0:
		return capture.Handover{}
	case c.Side == capture.Client && data[0] == 0x16:
		return capture.Handover{To: capture.TLS, Rest: data}
	case c.Side == capture.Client && begins(data, "PRI * HTTP/2"):
		return capture.Handover{To: capture.HTTP2, Rest: data}
	case c.Side == capture.Client && mayStart(data, c.Side):
		p.tunnel = false
		return capture.Handover{}
	default:
		return capture.Handover{To: capture.Turns, Rest: data}
	}
}

// step reads on in data, and returns how many bytes it used; at least one.
func (p *parser) step(h *half, side capture.Side, data []byte, mark capture.Mark) int {
	switch h.state {
	case idle:
		return p.between(h, side, data, mark)
	case scan:
		if h.span != nil && h.fresh && isLastChunk(data) {
			h.lost += uint64(len(data))
			h.count(len(data))
			p.end(h, side, mark)
			return len(data)
		}
		n := h.seek(data, side)
		if n < len(data) {
			h.begin(mark)
			return n + p.first(h, side, data[n:])
		}
		return n
	case startLine:
		return p.first(h, side, data)
	case body:
		if p.bodyless(h, side, data) {
			return p.between(h, side, data, mark)
		}
		n := h.content(data)
		if h.left == 0 {
			p.end(h, side, mark)
		}
		return n
	case chunkData:
		n := h.content(data)
		if h.left == 0 {
			h.state = chunkEnd
		}
		return n
	case untilClose:
		h.look(data)
		h.count(len(data))
		return len(data)
	case headers:
		return p.headers(h, side, data, mark)
	default:
		return p.lines(h, side, data, mark)
	}
}

// headers reads fields, as many as are there.
func (p *parser) headers(h *half, side capture.Side, data []byte, mark capture.Mark) int {
	at := 0
	for at < len(data) {
		text, n, done := h.line.next(data[at:])
		at += n
		h.count(n)
		if !done {
			break
		}
		if len(text) == 0 {
			p.complete(h, side, mark)
			break
		}
		p.field(h, side, text)
	}
	return at
}

// bodyless ends a message whose body did not come although its headers promised one: of a
// request that was refused where it asked to go on, and of a response of which it is not
// known whether HEAD was asked.
func (p *parser) bodyless(h *half, side capture.Side, data []byte) bool {
	if !h.fresh || h.left != uint64(h.length) || !mayStart(data, side) {
		return false
	}
	if side == capture.Client {
		if r := p.last(); !r.answered || !r.detail.Continue || r.detail.Interim.Seen() {
			return false
		}
	} else if !p.answering.unasked || len(data) < len("HTTP/1.") {
		return false
	}
	p.end(h, side, h.last)
	return true
}

// between passes over empty lines, which some clients send after a body, to the next
// message.
func (p *parser) between(h *half, side capture.Side, data []byte, mark capture.Mark) int {
	n := 0
	for n < len(data) && (data[n] == '\r' || data[n] == '\n') {
		n++
	}
	switch {
	case n == len(data):
	case mayStart(data[n:], side):
		h.begin(mark)
		n += p.first(h, side, data[n:])
	default:
		h.state = scan
		if n == 0 {
			return h.seek(data, side)
		}
	}
	return n
}

// first reads a first line.
func (p *parser) first(h *half, side capture.Side, data []byte) int {
	text, n, done := h.line.next(data)
	h.size += int64(n)
	if !done {
		return n
	}
	if side == capture.Client && p.request(h, text, h.line.cut) || side == capture.Server && p.response(h, text) {
		return n
	}
	// An open message goes on: what looked like the next one was part of it.
	h.lost += uint64(h.size)
	h.count(int(h.size))
	h.state, h.fresh = scan, true
	return n
}

// lines reads what else has lines: trailers, sizes of chunks and their ends.
func (p *parser) lines(h *half, side capture.Side, data []byte, mark capture.Mark) int {
	text, n, done := h.line.next(data)
	h.count(n)
	if !done {
		return n
	}
	switch h.state {
	case chunkSize:
		size, ok := hexadecimal(text)
		switch {
		case !ok:
			h.lose()
		case size == 0:
			h.state = trailers
		default:
			h.state, h.left = chunkData, size
		}
	case chunkEnd:
		if h.state = chunkSize; len(text) > 0 {
			h.lose()
		}
	case trailers:
		if len(text) == 0 {
			p.end(h, side, mark)
		}
	}
	return n
}

// Lost is how many bytes no message was found in.
func (p *parser) Lost() uint64 { return p.half[capture.Client].lost + p.half[capture.Server].lost }
