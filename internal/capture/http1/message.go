package http1

import (
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
	"taper.dev/taper/internal/capture/metadata"
)

// maxForm is how much of a form is looked at: AWS's clients put the Action first.
const maxForm = 256

// request opens a request by its first line.
func (p *parser) request(h *half, text []byte, cut bool) bool {
	line, ok := parseRequestLine(text, cut)
	if !ok {
		return false
	}
	p.messages++
	p.finishCutRequest()
	p.finishCutResponse()
	r := p.recordFor(h.first)
	h.open(&r.Request, line.old)
	if r.Op = usualMethod(line.method); r.Op == "" {
		r.Op = p.cache.Text(line.method)
	}
	if line.target != nil {
		var query []byte
		r.Target, query = p.cache.Target(line.target)
		if action := fields.Action(query, false); action != nil {
			r.detail.Action = p.cache.Text(action)
		}
	}
	return true
}

// response opens a response by its first line.
func (p *parser) response(h *half, text []byte) bool {
	status, old, ok := parseStatusLine(text)
	if !ok {
		return false
	}
	p.messages++
	interim := status < 200 && status != 101
	if !interim {
		p.finishCutRequest()
	}
	if h.span != nil {
		p.end(h, capture.Server, h.last)
	}
	if h.missed {
		p.skipUnanswered(h.first)
	}
	r := p.toAnswer()
	p.answering = r
	if interim {
		if !r.detail.Interim.Seen() {
			r.detail.Interim = h.first
		}
		p.interim = capture.Span{}
		h.open(&p.interim, old)
		return true
	}
	h.open(&r.Response, old)
	r.Status, r.Failed = status, status >= 500
	return true
}

// field takes one line of the headers.
func (p *parser) field(h *half, side capture.Side, text []byte) {
	var value []byte
	if text[0] == ' ' || text[0] == '\t' {
		value = fields.Trim(text) // it continues the field before it (RFC 9112, section 5.2)
	} else {
		h.field, value = fields.Line(text)
	}
	if h.field == fields.Other || len(value) == 0 {
		return
	}
	h.frame(h.field, value)
	if side == capture.Client {
		p.requestField(p.last(), h.field, value)
	}
}

// requestField keeps what is kept of a request's fields.
func (p *parser) requestField(r *record, name fields.Name, value []byte) {
	switch name {
	case fields.Expect:
		r.detail.Continue = fields.Equal(value, "100-continue")
	case fields.ContentType:
		r.form = fields.HasPrefix(value, "application/x-www-form-urlencoded")
	case fields.MetadataToken:
		r.session = true
	case fields.MetadataFlavor:
		r.flavor = fields.Equal(value, "google")
	case fields.Metadata:
		r.azure = fields.Equal(value, "true")
	case fields.Upgrade:
		if r.upgrade = capture.Turns; fields.Has(value, "h2c") {
			r.upgrade = capture.HTTP2
		}
	default:
		p.cache.Keep(&r.Exchange, name, value)
	}
}

// complete is told when all headers of a message are there.
func (p *parser) complete(h *half, side capture.Side, mark capture.Mark) {
	if h.invalid {
		h.lose()
		return
	}
	if side == capture.Client {
		p.completeRequest(h, mark)
	} else {
		p.completeResponse(h, mark)
	}
}

func (p *parser) completeRequest(h *half, mark capture.Mark) {
	p.known(h)
	switch {
	case h.chunked:
		h.state = chunkSize
	case h.length > 0:
		h.state, h.left = body, uint64(h.length)
	default:
		p.end(h, capture.Client, mark)
	}
}

// known concludes what only all headers of a request tell, or as many as there are.
func (p *parser) known(h *half) {
	r := p.last()
	r.detail.Close = h.close || h.old && !h.alive
	r.detail.Metadata = metadata.Recognise(metadata.Request{
		Server: p.conn.Addr[capture.Server], Host: r.Authority, Method: r.Op, Path: r.Target,
		Token: r.session, Flavor: r.flavor, Metadata: r.azure,
	})
	if r.form && r.Op == "POST" && r.detail.Action == "" {
		h.keep = maxForm
	}
}

func (p *parser) completeResponse(h *half, mark capture.Mark) {
	r := p.answering
	if h.span == &p.interim {
		p.end(h, capture.Server, mark)
		return
	}
	r.detail.HeadersEnd = mark
	r.detail.Close = r.detail.Close || h.close || h.old && !h.alive
	if m := r.detail.Metadata; m != nil && m.Kind == capture.MetadataCredentials && r.Status == 200 {
		h.keep = metadata.MaxBody
	}
	switch {
	case r.Status == 204, r.Status == 304, r.Op == "HEAD", p.switches(r):
		p.end(h, capture.Server, mark)
	case h.chunked:
		h.state = chunkSize
	case h.length > 0:
		h.state, h.left = body, uint64(h.length)
	case h.length == 0:
		p.end(h, capture.Server, mark)
	default:
		h.state = untilClose
	}
}
