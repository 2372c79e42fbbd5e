package dns

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// maxOpen bounds the questions that wait on one socket.
	maxOpen = 64
	// maxWait is how long a question waits. Resolvers give up earlier: glibc's after 30
	// seconds at most.
	maxWait = time.Minute
	// maxResent bounds the repetitions kept of a question.
	maxResent = 16
)

// Protocol reads DNS over UDP. All parsers that it makes share memory, and are for one
// goroutine.
func Protocol() capture.Protocol {
	names := new(names)
	return capture.Protocol{
		Name:      capture.DNS,
		Transport: capture.UDP,
		Ports:     []uint16{53},
		Recognise: recognise,
		New: func(_ *capture.Conn, emit capture.Emit) capture.Parser {
			return &parser{names: names, emit: emit}
		},
	}
}

// parser matches answers to questions. It is a capture.Parser of datagrams.
type parser struct {
	emit  capture.Emit
	names *names
	lost  uint64
	open  []*question // in the order in which they were asked
	few   [2]*question
}

// question is an open exchange.
type question struct {
	exchange capture.Exchange
	detail   capture.DNSDetail
	kind     uint16 // record type
	few      [2]netip.Addr
}

// Chunk takes a datagram. Bytes that the capture lacks are its last.
func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	if len(c.Data) > 0 {
		p.message(c.Side, c.Data, capture.Span{First: c.Mark, Last: c.Mark, Bytes: int64(len(c.Data))})
	} else if c.Missing > 0 {
		p.missing(c)
	}
	return capture.Handover{}
}

// missing adds the end of a datagram that was cut to its message.
func (p *parser) missing(c capture.Chunk) {
	if c.Side == capture.Server || len(p.open) == 0 {
		return
	}
	if last := &p.open[len(p.open)-1].exchange; last.Request.Last == c.Mark {
		last.Request.Bytes += int64(c.Missing)
	}
}

// message takes one message, whose end may not be there.
func (p *parser) message(side capture.Side, data []byte, span capture.Span) {
	var m message
	var understood bool
	switch {
	case !m.read(data):
	case side == capture.Client && !m.response():
		p.ask(&m, span)
		understood = true
	case side == capture.Server && m.response():
		understood = p.answer(&m, data, span)
	}
	if !understood {
		p.lost += uint64(len(data))
	}
}

func (p *parser) ask(m *message, span capture.Span) {
	for len(p.open) > 0 && span.First.Time.Sub(p.open[0].exchange.Start()) > maxWait {
		p.close(0)
	}
	name := p.name(m)
	if i := p.find(m, name); i >= 0 {
		if d := p.open[i].exchange.DNS; len(d.Resent) < maxResent {
			d.Resent = append(d.Resent, span.First)
		}
		return
	}
	switch len(p.open) {
	case 0:
		p.open = p.few[:0]
	case maxOpen:
		p.close(0)
	}
	q := &question{kind: m.kind}
	q.detail = capture.DNSDetail{ID: m.id, Type: typeName(m.kind)}
	q.exchange = capture.Exchange{
		Request: span, Op: q.detail.Type, Target: name, DNS: &q.detail,
	}
	p.open = append(p.open, q)
}

// answer ends the exchange that a response belongs to, and says whether there is one.
func (p *parser) answer(m *message, data []byte, span capture.Span) bool {
	i := p.find(m, p.name(m))
	if i < 0 {
		return false
	}
	q := p.open[i]
	q.detail.Addresses = q.few[:0]
	x := &q.exchange
	x.Response = span
	x.Status = m.rcode()
	x.Failed = x.Status != noError && x.Status != nxDomain
	m.records(data, x.DNS)
	p.close(i)
	return true
}

func (p *parser) name(m *message) string {
	if !m.asks {
		return ""
	}
	return p.names.text(m.name)
}

// find is the index of the open question that a message repeats or answers, or -1.
// Servers that refuse a message may leave out its question.
func (p *parser) find(m *message, name string) int {
	for i, q := range p.open {
		if q.detail.ID == m.id && (!m.asks || q.kind == m.kind && q.exchange.Target == name) {
			return i
		}
	}
	return -1
}

// close tells an open exchange as it is.
func (p *parser) close(i int) {
	x := &p.open[i].exchange
	copy(p.open[i:], p.open[i+1:])
	p.open[len(p.open)-1] = nil
	p.open = p.open[:len(p.open)-1]
	p.emit(x)
}

// Close tells all questions that were not answered.
func (p *parser) Close() {
	for len(p.open) > 0 {
		p.close(0)
	}
}

// Lost counts the bytes of what is no message, and of answers to no known question.
func (p *parser) Lost() uint64 { return p.lost }
