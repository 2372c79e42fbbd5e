package turns

import "taper.dev/taper/internal/capture"

// Protocol makes turns of any connection. It recognises nothing: it is for what all
// others refuse.
func Protocol() capture.Protocol {
	return capture.Protocol{
		Name:      capture.Turns,
		Recognise: func([]byte) capture.Recognition { return capture.Perhaps },
		New: func(_ *capture.Conn, emit capture.Emit) capture.Parser {
			return &parser{emit: emit}
		},
	}
}

type parser struct {
	emit capture.Emit
	turn *capture.Exchange // nil before the client first speaks
}

func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	part := capture.Span{First: c.Mark, Last: c.Mark, Bytes: int64(c.Missing) + int64(len(c.Data))}
	if part.Bytes == 0 {
		return capture.Handover{}
	}
	if c.Side == capture.Client {
		if p.turn == nil || p.turn.Answered() {
			p.Close()
			p.turn = &capture.Exchange{Op: "turn"}
		}
		p.turn.Request.Extend(part)
	} else if p.turn != nil {
		p.turn.Response.Extend(part)
	}
	return capture.Handover{}
}

// Close tells the last turn, which only its connection's end could end.
func (p *parser) Close() {
	if p.turn != nil {
		p.emit(p.turn)
		p.turn = nil
	}
}

// Lost is 0: there is nothing to understand.
func (p *parser) Lost() uint64 { return 0 }
