package redis

import (
	"strings"

	"taper.dev/taper/internal/capture"
)

// reply is one that is being read. Its elements, however nested, are counted.
type reply struct {
	kind byte // of the whole; 0 between replies
	left int64
	span capture.Span
	at   int // elements read
	// word is the first element if it is a text, and the whole of an error.
	word [maxLine]byte
	size int
}

// maxElements bounds what a reply may say to hold.
const maxElements = 1 << 40

// takeReply takes the server's next token, and says whether it can be one.
func (p *parser) takeReply() bool {
	r, s := &p.reply, &p.server
	if r.kind == 0 {
		if s.isBulk || len(s.text) == 0 {
			return false
		}
		*r = reply{kind: s.text[0], left: 1}
		r.span.First = s.first
	} else if r.kind == '|' && r.left == 1 && !s.isBulk && len(s.text) > 0 {
		r.kind, r.at = s.text[0], 0 // what the attributes belong to
	}
	r.span.Last = s.last
	r.span.Bytes += s.size
	if s.isBulk {
		r.element(s.text)
	} else if !p.line() {
		return false
	}
	if r.left == 0 {
		p.endReply()
	}
	return r.left <= maxElements
}

// line takes a line, which is an element or announces some.
func (p *parser) line() bool {
	r, s := &p.reply, &p.server
	if len(s.text) == 0 {
		return false
	}
	switch kind := s.text[0]; kind {
	case '+', '-', ':', ',', '#', '_', '(':
		r.element(s.text[1:])
		return true
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, ok := number(s.text)
		switch {
		case !ok:
			return false
		case n < 0:
			r.element(nil)
		case kind == '$' || kind == '=' || kind == '!':
			s.bulk(n)
		case kind == '%':
			r.left += 2*n - 1
		case kind == '|': // attributes stand before what they belong to
			r.left += 2 * n
		default:
			r.left += n - 1
		}
		return true
	}
	return false
}

func (r *reply) element(text []byte) {
	if r.at == 0 {
		r.size = copy(r.word[:], text)
	}
	r.at++
	r.left--
}

// endReply takes a reply that is complete.
func (p *parser) endReply() {
	r := p.reply
	p.reply = reply{}
	word := r.word[:r.size]
	confirms := (r.kind == '>' || r.kind == '*' && p.mode.subscribed) && strings.HasSuffix(string(word), "subscribe")
	pushed := r.kind == '>' || r.kind == '*' && p.mode.subscribed && strings.HasSuffix(string(word), "message")
	switch {
	case confirms && (len(p.open) == 0 || !p.open[0].subscribes), pushed && !confirms:
		return
	case p.skip > 0:
		p.skip--
		return
	case len(p.open) == 0:
		return // the command was before the capture
	}
	x := p.open[0]
	if !x.answer.First.Seen() {
		x.answer.First = r.span.First
	}
	x.answer.Last = r.span.Last
	x.answer.Bytes += r.span.Bytes
	if r.kind == '-' || r.kind == '!' {
		x.Failed, x.Code, x.replies = true, errorCode(word), 1
	}
	if x.replies--; x.replies == 0 {
		p.finish()
	}
}

// errorCode is the first word of an error.
func errorCode(text []byte) string {
	for i, c := range text {
		if c == ' ' {
			return string(text[:i])
		}
		if c < 'A' || c > 'Z' || i == maxName {
			return ""
		}
	}
	return string(text)
}
