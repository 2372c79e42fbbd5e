package http1

import (
	"bytes"
	"slices"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
	"taper.dev/taper/internal/capture/metadata"
)

func newRecord() *record {
	r := new(record)
	r.HTTP = &r.detail
	return r
}

// last is the exchange whose request is being read.
func (p *parser) last() *record { return p.pending[len(p.pending)-1] }

// recordFor makes the exchange of a request that begins at first: a new one, or the one
// of a response that was captured a moment before it.
func (p *parser) recordFor(first capture.Mark) *record {
	for len(p.pending) > 0 && p.pending[0].unasked {
		r := p.pending[0]
		if first.Time.Sub(r.Response.First.Time) <= early && len(p.pending) == 1 {
			r.unasked = false
			return r
		}
		p.pending = slices.Delete(p.pending, 0, 1)
	}
	if len(p.pending) == maxPending {
		p.tell()
	}
	r := newRecord()
	p.pending = append(p.pending, r)
	return r
}

// toAnswer is the oldest exchange without a response. If there is none, the request was
// not captured, or comes in a moment.
func (p *parser) toAnswer() *record {
	for _, r := range p.pending {
		if !r.answered {
			return r
		}
	}
	r := newRecord()
	r.unasked = true
	if trusted := !p.conn.Mid || p.paired > 0; trusted && len(p.pending) == 0 && !p.half[capture.Client].gapped {
		p.pending = append(p.pending, r)
	}
	return r
}

// skipUnanswered gives up the requests that were answered in bytes that are missing: all
// that came before the last one that the response at first can belong to.
func (p *parser) skipUnanswered(first capture.Mark) {
	for len(p.pending) > 1 && p.pending[1].Request.First.Packet < first.Packet {
		p.tell()
	}
}

// end is told when a message is complete.
func (p *parser) end(h *half, side capture.Side, mark capture.Mark) {
	span := h.span
	h.closed(mark)
	switch {
	case side == capture.Client:
		r := p.last()
		p.readForm(h, r)
		r.asked = true
	case span == &p.interim:
		return
	default:
		r := p.answering
		p.readExpiry(h, r, mark)
		r.answered = true
		p.answering = nil
		p.switchTo(r)
	}
	for len(p.pending) > 0 && p.pending[0].asked && p.pending[0].answered {
		p.tell()
	}
}

// readForm reads the Action of a form and forgets the form.
func (p *parser) readForm(h *half, r *record) {
	if form := h.kept; len(form) > 0 {
		if len(form) == h.keep {
			// The last parameter may be cut.
			form = form[:bytes.LastIndexByte(form, '&')+1]
		}
		certain := r.detail.Signed || fields.OfAWS(r.Authority)
		r.detail.Action = p.cache.Text(fields.Action(form, certain))
	}
	h.wipe()
}

// readExpiry reads when credentials end and forgets the credentials.
func (p *parser) readExpiry(h *half, r *record, mark capture.Mark) {
	if len(h.kept) > 0 {
		r.detail.Metadata.Expires = metadata.Expires(r.detail.Metadata, h.kept, mark.Time)
	}
	h.wipe()
}

// switchTo changes what the connection speaks if this exchange agreed on it.
func (p *parser) switchTo(r *record) {
	switch {
	case !p.switches(r):
	case r.Status == 101:
		if p.to = r.upgrade; p.to == "" {
			p.to = capture.Turns
		}
		if p.to == capture.HTTP2 {
			// It is answered there, as stream 1.
			r.Response, r.Status = capture.Span{}, 0
			p.conn.Upgraded = &r.Exchange
			r.unasked = true
		}
		p.half[capture.Client].lose()
	default:
		p.tunnel = true
		p.half[capture.Client].lose()
	}
}

// switches says whether what follows on the connection is not HTTP/1.
func (p *parser) switches(r *record) bool {
	return r.Status == 101 || r.Op == "CONNECT" && r.Status >= 200 && r.Status < 300
}

// tell hands out the oldest exchange, as complete as it is.
func (p *parser) tell() {
	r := p.pending[0]
	p.pending = slices.Delete(p.pending, 0, 1)
	if r.unasked {
		return
	}
	if h := &p.half[capture.Server]; h.span == &r.Response {
		// The rest of its response belongs to nothing.
		p.answering = newRecord()
		p.answering.unasked = true
		h.span = &p.answering.Response
	}
	p.paired++
	p.emit(&r.Exchange)
}

// finishCutRequest ends a request whose end was lost where something follows it.
func (p *parser) finishCutRequest() {
	if h := &p.half[capture.Client]; h.state == scan && h.span != nil {
		p.end(h, capture.Client, h.last)
	}
}

// finishCutResponse ends a response whose end was lost where the next request comes.
func (p *parser) finishCutResponse() {
	if h := &p.half[capture.Server]; h.state == scan && h.span != nil {
		p.end(h, capture.Server, h.last)
	}
}

// gap takes note of bytes that are missing.
func (p *parser) gap(h *half, c *capture.Chunk) {
	missing := uint64(c.Missing)
	h.gapped = true
	if c.Side == capture.Client && len(p.pending) > 0 && p.pending[0].unasked {
		// Its request is not late, but missing.
		p.pending = slices.Delete(p.pending, 0, len(p.pending))
	}
	switch h.state {
	case idle:
		h.state, h.missed = scan, true
	case body, chunkData:
		p.gapInBody(h, c, missing)
	case untilClose:
		h.keep = len(h.kept)
		h.count(c.Missing)
	case startLine:
		p.gapInFirstLine(h, c)
	case scan:
		h.missed = h.missed || h.span == nil
		h.count(c.Missing)
	default:
		if h.state == headers {
			p.gapInHeaders(h, c)
		}
		if h.span != nil {
			h.lose()
			h.count(c.Missing)
		}
	}
}

func (p *parser) gapInBody(h *half, c *capture.Chunk, missing uint64) {
	h.keep = len(h.kept)
	switch {
	case missing <= h.left:
		h.left -= missing
		h.count(c.Missing)
		if h.left > 0 {
			return
		}
		if h.state == chunkData {
			h.state = chunkEnd
			return
		}
		p.end(h, c.Side, c.Mark)
	case h.state == body:
		h.count(int(h.left))
		p.end(h, c.Side, c.Mark)
		h.state, h.missed = scan, true
	default:
		h.lose()
		h.count(c.Missing)
	}
}

// gapInFirstLine keeps what the beginning of a first line says, as a short snap length
// leaves it.
func (p *parser) gapInFirstLine(h *half, c *capture.Chunk) {
	text := h.line.held
	h.line.drop()
	if c.Side == capture.Client && p.request(h, text, true) || c.Side == capture.Server && p.response(h, text) {
		p.gapInHeaders(h, c)
	} else {
		h.lost += uint64(len(text))
		h.missed = h.missed || h.span == nil
	}
	if h.state != idle {
		h.lose()
		h.count(c.Missing)
	}
}

// gapInHeaders concludes from the headers that are there. The end of the message is not
// known, unless it ends the talk of HTTP.
func (p *parser) gapInHeaders(h *half, c *capture.Chunk) {
	if c.Side == capture.Client {
		p.known(h)
	} else if p.switches(p.answering) {
		p.end(h, c.Side, c.Mark)
	}
}

// Close tells what is not complete.
func (p *parser) Close() {
	if h := &p.half[capture.Server]; h.span != nil && p.conn.Closed.Seen() {
		switch {
		case h.state == untilClose && p.conn.ClosedBy == capture.Server && !p.conn.Reset:
			p.end(h, capture.Server, p.conn.Closed)
		case h.state == scan:
			p.end(h, capture.Server, h.last)
		}
	}
	if h := &p.half[capture.Client]; h.span != nil {
		h.span.Last = h.last
	}
	for i := range p.half {
		p.half[i].wipe()
	}
	for len(p.pending) > 0 {
		p.tell()
	}
}
