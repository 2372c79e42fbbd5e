package postgresql

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// startup takes a startup packet. Its parameters are not looked at.
func (p *parser) startup(m *framing.Message) {
	switch binary.BigEndian.Uint32(m.Header[4:]) {
	case ssl:
		p.offer(m, "SSLRequest")
	case gss:
		p.offer(m, "GSSENCRequest")
	case cancel:
		p.begin(m, "CancelRequest")
	default:
		p.starting = false
		p.client.Reset(&ofClient, true)
		p.begin(m, "startup").sealed = true
	}
}

// offer waits for the one byte by which the server takes or leaves encryption.
func (p *parser) offer(m *framing.Message, op string) {
	if p.offered != nil {
		p.emit(&p.offered.Exchange)
	}
	p.offered = &exchange{}
	p.offered.Op, p.offered.Request = op, m.Span()
}

// accepted takes the answer to an offer. An old server answers by an error, as a message.
func (p *parser) accepted(c *capture.Chunk) capture.Handover {
	x := p.offered
	p.offered = nil
	if c.Missing > 0 || len(c.Data) == 0 {
		p.emit(&x.Exchange) // the answer is not in the capture
		return capture.Handover{}
	}
	x.Response = capture.Span{First: c.Mark, Last: c.Mark, Bytes: 1}
	answer := c.Data[0]
	x.Failed = answer != 'S' && answer != 'G' && answer != 'N'
	if !x.Failed {
		c.Data = c.Data[1:]
	}
	p.emit(&x.Exchange)
	switch answer {
	case 'S':
		return capture.Handover{To: capture.TLS, Rest: c.Data}
	case 'G':
		return capture.Handover{To: capture.Turns, Rest: c.Data}
	}
	return capture.Handover{}
}
