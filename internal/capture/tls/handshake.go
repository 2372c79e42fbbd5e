package tls

import (
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// handshake is one that is not done.
type handshake struct {
	exchange capture.Exchange
	detail   capture.TLSDetail
	answer   capture.Span // so far: all records since the server's first
	// answered: the ServerHello is there, and not only a HelloRetryRequest.
	answered bool
	// finished: the side's Finished was seen (TLS 1.2). encrypted: the server has sent
	// encrypted records (TLS 1.3).
	finished  [2]bool
	encrypted bool
}

// minFinished is less than any encrypted record with a Finished, and more than one with
// an alert.
const minFinished = 36

// begin takes the first ClientHello.
func (p *parser) begin() {
	x := &handshake{}
	x.detail.Alert = -1
	x.exchange = capture.Exchange{Op: "handshake", TLS: &x.detail}
	p.shake = x
}

// shaking takes a record of a handshake.
func (p *parser) shaking(from capture.Side, m *framing.Message) {
	x, s := p.shake, &p.sides[from]
	switch m.Header[0] {
	case applicationData:
		p.encrypted(from, m)
		return
	case alert:
		p.alerted(m, s.changed)
	case changeCipherSpec:
		s.changed = true
		x.extend(from, m)
		if from == capture.Server && x.detail.Version <= version12 && !p.sides[capture.Client].changed {
			x.detail.Resumed = true
		}
	case handshakeRecord:
		x.extend(from, m)
		if s.changed && x.detail.Version <= version12 {
			x.finished[from] = true
			if x.finished[from.Other()] {
				p.done()
			}
		}
	}
}

// encrypted takes an encrypted record: a part of the handshake in TLS 1.3, and data
// otherwise.
func (p *parser) encrypted(from capture.Side, m *framing.Message) {
	x := p.shake
	switch {
	case !x.answered && from == capture.Client:
		// Early data, which will be answered like any other.
		p.data(from, m.Span(), false)
	case x.detail.Version == version13 && from == capture.Server:
		x.encrypted = true
		x.extend(from, m)
	case x.detail.Version == version13 && x.encrypted:
		x.extend(from, m)
		x.exchange.Failed = m.Size < minFinished
		p.done()
		p.turns.tickets = maxTickets
	case x.detail.Version == version13:
		p.data(from, m.Span(), false)
	case from == capture.Client:
		p.data(from, m.Span(), false) // it does not wait for the server's Finished
	default:
		p.done() // some of it is not in the capture
		p.data(from, m.Span(), false)
	}
}

// alerted takes an alert. One that is encrypted, after ChangeCipherSpec, cannot be read.
func (p *parser) alerted(m *framing.Message, encrypted bool) {
	const fatal = 2
	x := p.shake
	if encrypted || len(m.Body) < 2 || m.Body[0] != fatal {
		return
	}
	x.answer.Extend(m.Span())
	x.exchange.Failed = true
	x.detail.Alert = int(m.Body[1])
	p.done()
}

// done tells the handshake.
func (p *parser) done() {
	x := p.shake
	p.shake = nil
	p.version = x.detail.Version
	x.exchange.Response = x.answer
	p.emit(&x.exchange)
}

// extend adds a record to the question, or to the answer, which the server begins.
func (x *handshake) extend(from capture.Side, m *framing.Message) {
	if from == capture.Server || x.answer.First.Seen() {
		x.answer.Extend(m.Span())
	} else {
		x.exchange.Request.Extend(m.Span())
	}
}

// inClear says whether a side's handshake records can be read. After ChangeCipherSpec
// they can only where it is sent for show: after a HelloRetryRequest.
func (p *parser) inClear(from capture.Side) bool {
	return !p.sides[from].changed || p.shake != nil && p.shake.detail.Retried && !p.shake.answered
}
