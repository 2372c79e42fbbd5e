package sqltext

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"taper.dev/taper/internal/capture"
)

// Backslash says what a backslash in a plain string is.
type Backslash uint8

// Meanings of a backslash.
const (
	Unknown Backslash = iota
	Plain             // a character like others
	Escape            // it takes the next character into the string
)

// Syntax is how a connection writes statements.
type Syntax struct {
	// MySQL says that it is MySQL's; else it is PostgreSQL's.
	MySQL     bool
	Backslash Backslash
}

// Normalise is a statement without data: its first word in upper case, and the statement
// in at most capture.MaxText bytes. The end of the statement may be missing. Time is
// proportional to its length.
func (s Syntax) Normalise(statement []byte) (op, text string) {
	var room [capture.MaxText + 64]byte
	n := normaliser{syntax: s, in: statement, out: room[:0]}
	for n.at < len(n.in) && len(n.out) <= capture.MaxText {
		n.token()
	}
	return n.op, n.text()
}

// normaliser reads tokens of in and writes out.
type normaliser struct {
	syntax Syntax
	in     []byte
	at     int
	out    []byte
	op     string
	blank  bool // there is white space before the next token
	// continued says that a string that follows only white space may be part of the
	// string before, in which backslashes escape.
	continued bool
}

// token reads the next token, or space between tokens.
func (n *normaliser) token() {
	c := n.in[n.at]
	switch {
	case c <= ' ' || c == 0x7f:
		n.blank = true
		n.at++
		return
	case n.comment(c):
		n.blank = true
		return
	case c == '\'':
		n.quoted(n.plain())
		return
	case c == '"' && n.syntax.MySQL:
		n.quoted(n.ambiguous())
	case c == '"', c == '`' && n.syntax.MySQL:
		n.name(c)
	case c == '?':
		n.at++
		n.data()
	case c == '$' && !n.syntax.MySQL:
		n.dollar()
	case isDigit(c), c == '.' && n.at+1 < len(n.in) && isDigit(n.in[n.at+1]) && !n.afterWord():
		n.number()
	case isWord(c):
		n.word()
		return
	default:
		n.operator(c)
	}
	n.continued = false
}

// end ends the text: what follows could be read in several ways.
func (n *normaliser) end() { n.at = len(n.in) }

// plain says what a backslash is in a string that begins here without a prefix.
func (n *normaliser) plain() Backslash {
	if n.continued {
		return Unknown
	}
	return n.syntax.Backslash
}

// ambiguous says what a backslash is in something that is not for all a plain string, or
// in which it escapes for none: certainly nothing only if it is in no string.
func (n *normaliser) ambiguous() Backslash {
	if n.plain() == Plain {
		return Plain
	}
	return Unknown
}

// quoted reads a string from its opening quote on.
func (n *normaliser) quoted(backslash Backslash) {
	n.continued = backslash != n.syntax.Backslash
	n.data()
	quote := n.in[n.at]
	for n.at++; n.at < len(n.in); n.at++ {
		switch c := n.in[n.at]; {
		case c == quote:
			if n.at++; n.at == len(n.in) || n.in[n.at] != quote {
				return
			}
		case c != '\\' || backslash == Plain:
		case backslash == Escape && n.in[n.at-1] < 0x80:
			n.at++
		case !n.harmless(quote):
			n.end()
			return
		}
	}
}

// harmless skips a row of backslashes that may or may not escape, and says whether it
// makes no difference: whether no quote follows.
func (n *normaliser) harmless(quote byte) bool {
	for n.at+1 < len(n.in) && n.in[n.at+1] == '\\' {
		n.at++
	}
	return n.at+1 == len(n.in) || n.in[n.at+1] != quote
}

// name keeps a quoted name.
func (n *normaliser) name(quote byte) {
	from := n.at
	for n.at++; n.at < len(n.in); n.at++ {
		if n.in[n.at] != quote {
			continue
		}
		if n.at++; n.at == len(n.in) || n.in[n.at] != quote {
			n.write(n.in[from:n.at])
			return
		}
	}
	n.data() // it has no end
}

// dollar reads what begins with a dollar sign in PostgreSQL: $1, or $tag$…$tag$.
func (n *normaliser) dollar() {
	tag := n.at + 1
	for tag < len(n.in) && isWord(n.in[tag]) {
		tag++
	}
	switch {
	case n.at+1 < len(n.in) && isDigit(n.in[n.at+1]):
		n.data()
		for n.at++; n.at < len(n.in) && isDigit(n.in[n.at]); n.at++ {
		}
	case tag < len(n.in) && n.in[tag] == '$':
		n.data()
		delimiter := n.in[n.at : tag+1]
		length := bytes.Index(n.in[tag+1:], delimiter)
		if length < 0 {
			n.end()
			return
		}
		n.at = tag + 1 + length + len(delimiter)
	default:
		n.write(n.in[n.at : n.at+1])
		n.at++
	}
}

// number reads a number of any base, with all that looks as if it were part of it.
func (n *normaliser) number() {
	n.data()
	for from := n.at; n.at < len(n.in); n.at++ {
		if c := n.in[n.at]; !isWord(c) && c != '.' && !(n.at > from && n.exponent(c)) {
			break
		}
	}
	// After "1E" some read a plain string, others one with escapes.
	if n.at < len(n.in) && n.in[n.at] == '\'' && n.in[n.at-1]|0x20 == 'e' && !n.syntax.MySQL {
		n.quoted(Unknown)
	}
}

// exponent says whether c is the sign of an exponent.
func (n *normaliser) exponent(c byte) bool {
	return (c == '+' || c == '-') && n.in[n.at-1]|0x20 == 'e' && n.at+1 < len(n.in) && isDigit(n.in[n.at+1])
}

// word reads a keyword or a name, or the prefix of a string.
func (n *normaliser) word() {
	from := n.at
	for n.at < len(n.in) && (isWord(n.in[n.at]) || n.in[n.at] == '$') {
		n.at++
	}
	word := n.in[from:n.at]
	if n.prefixes(word) {
		return
	}
	n.continued = false
	n.write(word)
	switch {
	case n.op == "":
		n.op = operation(word)
	case n.op == "SET" && bytes.EqualFold(word, []byte("TO")):
		n.value()
	}
}

// maxOperation bounds the first word, in bytes.
const maxOperation = 32

// usual are first words that need no memory of their own.
var usual = [...]string{"SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "SET", "WITH", "SHOW"}

// operation is a statement's first word in upper case; "?" if it is none of SQL's.
func operation(word []byte) string {
	for _, known := range usual {
		if len(word) == len(known) && strings.EqualFold(string(word), known) {
			return known
		}
	}
	for _, c := range word {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			return "?"
		}
	}
	if len(word) > maxOperation {
		return "?"
	}
	return strings.ToUpper(string(word))
}

// prefixes reads the string that a word is a prefix of, if it is one.
func (n *normaliser) prefixes(word []byte) bool {
	rest := n.in[n.at:]
	if len(word) > 1 || len(rest) == 0 {
		return false
	}
	switch prefix := word[0] | 0x20; {
	case prefix == 'u' && bytes.HasPrefix(rest, []byte("&'")) && !n.syntax.MySQL:
		n.at++
		n.quoted(n.ambiguous())
	case rest[0] != '\'':
		return false
	case prefix == 'e' && !n.syntax.MySQL:
		n.quoted(Escape)
	case (prefix == 'b' || prefix == 'x') && !n.syntax.MySQL:
		n.quoted(n.ambiguous())
	case prefix == 'b' || prefix == 'x' || prefix == 'n':
		n.quoted(n.plain())
	default:
		return false
	}
	return true
}

// value leaves out what follows in SET.
func (n *normaliser) value() {
	n.blank = true
	n.data()
	n.end()
}

func (n *normaliser) operator(c byte) {
	n.at++
	switch {
	case c == ')' && bytes.HasSuffix(n.out, []byte("(?), (?")):
		n.out = n.out[:len(n.out)-len("), (?")]
		n.blank = false
	case c == ')' && bytes.HasSuffix(n.out, []byte("(?),(?")):
		n.out = n.out[:len(n.out)-len("),(?")]
		n.blank = false
	case c == ')' || c == ',':
		n.blank = false
	}
	n.write([]byte{c})
	if c == '=' && n.op == "SET" {
		n.value()
	}
}

// data writes the place of data. Of a list, one is enough.
func (n *normaliser) data() {
	for _, list := range []string{"?, ", "?,", "? ", "?"} {
		if s, ok := bytes.CutSuffix(n.out, []byte(list)); ok {
			n.out, n.blank = s, false
			break
		}
	}
	n.write([]byte{'?'})
}

// write writes a token.
func (n *normaliser) write(token []byte) {
	if n.blank && len(n.out) > 0 && n.out[len(n.out)-1] != '(' {
		n.out = append(n.out, ' ')
	}
	n.blank = false
	n.out = append(n.out, token[:min(len(token), capture.MaxText+1)]...)
}

func (n *normaliser) afterWord() bool { return n.at > 0 && isWord(n.in[n.at-1]) }

// text is what was written, cut between characters.
func (n *normaliser) text() string {
	out := n.out
	if len(out) > capture.MaxText {
		cut := capture.MaxText
		for cut > 0 && cut > capture.MaxText-utf8.UTFMax && !utf8.RuneStart(out[cut]) {
			cut--
		}
		out = out[:cut]
	}
	s := strings.TrimRight(string(out), "; ")
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return strings.Map(printable, s)
		}
	}
	return s
}

// printable replaces what would not print as one character, and bytes that are none.
func printable(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord says whether c can be in a name that is not quoted.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_' || c >= 0x80
}
