package postgresql

import (
	"taper.dev/taper/internal/capture/framing"
	"taper.dev/taper/internal/capture/sqltext"
)

// reply takes a message of the server.
func (p *parser) reply(m *framing.Message) {
	switch m.Header[0] {
	case 'S':
		p.parameter(m.Body)
		return
	case 'A', 'N':
		return
	}
	if len(p.open) == 0 {
		return // the question was before the capture
	}
	if p.skip > 0 {
		if m.Header[0] == 'Z' {
			p.skip--
		}
		return
	}
	x := p.open[0]
	x.answer.Extend(m.Span())
	switch m.Header[0] {
	case 'E':
		x.Failed = true
		x.Code = sqlstate(m.Body)
	case 'Z':
		if x.sealed {
			p.finish()
		}
	}
}

// parameter takes what the server says about its settings. The one that matters is how it
// reads backslashes.
func (p *parser) parameter(body []byte) {
	name, rest := text(body)
	if string(name) != "standard_conforming_strings" {
		return
	}
	switch value, _ := text(rest); string(value) {
	case "on":
		p.syntax.Backslash = sqltext.Plain
	case "off":
		p.syntax.Backslash = sqltext.Escape
	default:
		p.syntax.Backslash = sqltext.Unknown
	}
}

// sqlstate finds the code among an error's fields: a letter and a text each.
func sqlstate(body []byte) string {
	for len(body) > 0 && body[0] != 0 {
		letter := body[0]
		var value []byte
		value, body = text(body[1:])
		if letter == 'C' && len(value) == 5 && isCode(value) {
			return string(value)
		}
	}
	return ""
}

func isCode(code []byte) bool {
	for _, c := range code {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
