package postgresql

import (
	"bytes"

	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// ask takes a message of the client.
func (p *parser) ask(m *framing.Message) {
	switch m.Header[0] {
	case 'Q':
		x := p.begin(m, "")
		query, _ := text(m.Body)
		x.Op, x.Target = p.normalise(query)
		x.sealed = true
	case 'F':
		p.begin(m, "FUNCTION").sealed = true
	case 'd', 'c', 'f': // data of COPY
		if len(p.open) > 0 {
			p.open[len(p.open)-1].Request.Extend(m.Span())
		}
	case 'p':
	case 'X':
		p.settle()
	default:
		p.extended(m)
	}
}

// extended takes a message that belongs to what a Sync will end.
func (p *parser) extended(m *framing.Message) {
	var x *exchange
	if n := len(p.open); n > 0 && !p.open[n-1].sealed {
		x = p.open[n-1]
		x.Request.Extend(m.Span())
	} else {
		x = p.begin(m, "SYNC")
	}
	switch m.Header[0] {
	case 'P':
		p.parse(x, m.Body)
	case 'B':
		p.bind(m.Body)
	case 'E':
		p.execute(x, m.Body)
	case 'C':
		p.forget(x, m.Body)
	case 'S':
		x.sealed = true
	}
}

// parse remembers a statement under its name.
func (p *parser) parse(x *exchange, body []byte) {
	name, rest := text(body)
	query, _ := text(rest)
	var s statement
	s.op, s.text = p.normalise(query)
	p.prepared.put(name, s, maxPrepared)
	if !x.executed && x.Target == "" {
		x.Op, x.Target = "PREPARE", s.text
		x.parsed = s
	}
}

// normalise takes the data out of a statement. One that may set how backslashes are read
// leaves that open until the server says what came of it.
func (p *parser) normalise(query []byte) (op, text string) {
	op, text = p.syntax.Normalise(query)
	if bytes.Contains(bytes.ToLower(query), []byte("conforming")) {
		p.syntax.Backslash = sqltext.Unknown
	}
	return op, text
}

// bind makes a portal of a statement.
func (p *parser) bind(body []byte) {
	portal, rest := text(body)
	name, _ := text(rest)
	s, known := p.prepared.get(name)
	if !known {
		s.op = "EXECUTE"
	}
	p.portals.put(portal, s, maxPortals)
}

func (p *parser) execute(x *exchange, body []byte) {
	if x.executed {
		return
	}
	portal, _ := text(body)
	s, known := p.portals.get(portal)
	if !known {
		s.op = "EXECUTE"
	}
	x.Op, x.Target, x.executed = s.op, s.text, true
}

// seal ends what a Sync that is not in the capture has ended: the messages before it are
// sent with it, as a rule. What was parsed there is executed there.
func (p *parser) seal() {
	if len(p.open) == 0 {
		return
	}
	if x := p.open[len(p.open)-1]; !x.sealed {
		x.sealed = true
		if x.parsed.op != "" && !x.executed {
			x.Op = x.parsed.op
		}
	}
}

// forget takes the closing of a statement or portal.
func (p *parser) forget(x *exchange, body []byte) {
	if x.Op == "SYNC" {
		x.Op = "CLOSE"
	}
	if len(body) == 0 {
		return
	}
	name, _ := text(body[1:])
	if body[0] == 'S' {
		p.prepared.drop(name)
	} else {
		p.portals.drop(name)
	}
}
