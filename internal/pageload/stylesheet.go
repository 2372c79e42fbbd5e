package pageload

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// styleReferences are what a browser would load of a style sheet, each once. It takes
// fonts and pictures to be used that may not be.
func styleReferences(css []byte, base *url.URL) []reference {
	r := references{base: base}
	for _, s := range scanStyles(string(css)) {
		r.add(s.raw, s.imported)
	}
	return r.found
}

// styleURL is a URL as a style sheet has it.
type styleURL struct {
	raw string
	// imported is set after @import: a style sheet itself.
	imported bool
}

// scanStyles finds url(…) and @import by the tokens of CSS Syntax Level 3, in one pass.
func scanStyles(css string) []styleURL {
	s := styleScanner{text: css}
	for s.at < len(s.text) && len(s.found) < mostReferences {
		s.token()
	}
	return s.found
}

type styleScanner struct {
	text  string
	at    int
	found []styleURL
	// importing is set from @import to the URL that follows.
	importing bool
}

func (s *styleScanner) token() {
	switch c := s.text[s.at]; {
	case strings.HasPrefix(s.text[s.at:], "/*"):
		s.skipPast("*/")
	case c == '"' || c == '\'':
		if text := s.quoted(); s.importing {
			s.add(text)
		}
	case c == '@':
		s.at++
		s.importing = strings.EqualFold(s.name(), "import")
	case inName(c):
		if strings.EqualFold(s.name(), "url") && s.at < len(s.text) && s.text[s.at] == '(' {
			s.at++
			s.add(s.address())
		}
	default:
		if c == ';' || c == '{' || c == '}' {
			s.importing = false
		}
		s.at++
	}
}

func (s *styleScanner) add(raw string) {
	s.found = append(s.found, styleURL{raw, s.importing})
	s.importing = false
}

func (s *styleScanner) skipPast(mark string) {
	if i := strings.Index(s.text[s.at+len(mark):], mark); i >= 0 {
		s.at += i + 2*len(mark)
	} else {
		s.at = len(s.text)
	}
}

func inName(c byte) bool {
	return c == '-' || c == '_' || c == '\\' || c >= utf8.RuneSelf ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (s *styleScanner) name() string {
	var name strings.Builder
	for s.at < len(s.text) && inName(s.text[s.at]) {
		s.character(&name)
	}
	return name.String()
}

// quoted reads a string. One that does not end on its line is broken, and ends there.
func (s *styleScanner) quoted() string {
	quote := s.text[s.at]
	s.at++
	var text strings.Builder
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case quote:
			s.at++
			return text.String()
		case '\n':
			return ""
		}
		s.character(&text)
	}
	return text.String()
}

// address reads what stands in url(…).
func (s *styleScanner) address() string {
	s.skipSpace()
	var text strings.Builder
	if s.at < len(s.text) && (s.text[s.at] == '"' || s.text[s.at] == '\'') {
		text.WriteString(s.quoted())
	} else {
		for s.at < len(s.text) && s.text[s.at] != ')' && !space(s.text[s.at]) {
			s.character(&text)
		}
	}
	s.skipSpace()
	if s.at < len(s.text) && s.text[s.at] == ')' {
		s.at++
	}
	return text.String()
}

func (s *styleScanner) skipSpace() {
	for s.at < len(s.text) && space(s.text[s.at]) {
		s.at++
	}
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

// character takes one, or what is escaped by a backslash: up to six hexadecimal digits
// and a space, a line's end (which is nothing), or anything else as it is.
func (s *styleScanner) character(to *strings.Builder) {
	c := s.text[s.at]
	s.at++
	if c != '\\' || s.at == len(s.text) {
		to.WriteByte(c)
		return
	}
	digits := 0
	for digits < 6 && s.at+digits < len(s.text) && strings.IndexByte("0123456789abcdefABCDEF", s.text[s.at+digits]) >= 0 {
		digits++
	}
	switch {
	case digits > 0:
		// Six digits always fit; what is no character is written as U+FFFD.
		code, _ := strconv.ParseUint(s.text[s.at:s.at+digits], 16, 32)
		to.WriteRune(rune(code))
		if s.at += digits; s.at < len(s.text) && space(s.text[s.at]) {
			s.at++
		}
	case s.text[s.at] == '\n':
		s.at++
	default:
		to.WriteByte(s.text[s.at])
		s.at++
	}
}
