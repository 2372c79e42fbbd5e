package tls

import "taper.dev/taper/internal/capture"

const (
	// maxTickets is how many of the server's first records may be session tickets:
	// servers send one or two, and more if told to.
	maxTickets = 4
	// maxTicket is the longest record that may be one, in bytes: OpenSSL's and BoringSSL's
	// have 200 to 300.
	maxTicket = 512
)

// turns tells exchanges by who sends data when.
type turns struct {
	turn *capture.Exchange // the one that is open
	// closing is what may be a close_notify, and belongs to the answer only if more
	// follows; ticket is what may be tickets, and is the answer only if nothing follows.
	closing, ticket capture.Span
	// notice: all that the client has said is something like a close_notify.
	notice bool
	// tickets is how many of the server's next records may be tickets, and ticketSize how
	// large the last one was; those of one handshake are of about one size.
	tickets    int
	ticketSize int64
}

// data takes a record of data; likeAlert is whether it is as long as an alert.
func (p *parser) data(from capture.Side, span capture.Span, likeAlert bool) {
	t := &p.turns
	if from == capture.Client {
		if t.ticketSize > 0 {
			t.tickets = 0
		}
		if t.turn == nil || t.turn.Answered() {
			p.endTurn()
			t.turn = &capture.Exchange{Op: "data", Authority: p.sni}
			t.notice = likeAlert
		}
		t.notice = t.notice && likeAlert
		t.turn.Request.Extend(span)
		return
	}
	switch ticket := t.mayBeTicket(span.Bytes); {
	case t.turn == nil:
	case ticket && !t.turn.Answered():
		t.ticket.Extend(span)
	case likeAlert:
		t.closing.Extend(span)
	default:
		if t.closing.Last.Seen() {
			t.turn.Response.Extend(t.closing)
			t.closing = capture.Span{}
		}
		t.turn.Response.Extend(span)
	}
}

// mayBeTicket says whether the server's next record may be a ticket.
func (t *turns) mayBeTicket(size int64) bool {
	const alike = 16 // bytes of difference
	if t.tickets == 0 || size > maxTicket || t.ticketSize > 0 && max(size-t.ticketSize, t.ticketSize-size) > alike {
		t.tickets = 0
		return false
	}
	t.tickets--
	t.ticketSize = size
	return true
}

// endTurn tells the turn that is open.
func (p *parser) endTurn() {
	t := &p.turns
	x := t.turn
	if x != nil && !x.Answered() {
		x.Response = t.ticket
	}
	if x != nil && (!t.notice || x.Answered()) {
		p.emit(x)
	}
	t.turn, t.closing, t.ticket = nil, capture.Span{}, capture.Span{}
}
