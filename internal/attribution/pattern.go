package attribution

import (
	"strings"

	"taper.dev/taper/internal/capture"
)

const (
	// maxPatterns bounds the patterns of a server's routes, or of a peer's calls. Beyond
	// it, path segments with many values are replaced; beyond twice as many, one pattern
	// stands for all others.
	maxPatterns = 500
	// manyValues is how many values of a segment are many.
	manyValues = 20
	// maxSegments bounds the segments of a pattern.
	maxSegments = 24
	// longToken is how long letters and digits are at least to be a token.
	longToken = 16
	// longHex is how many hexadecimal digits make an id.
	longHex = 8

	idMark    = "{id}"
	tokenMark = "{token}"
	manyMark  = "{…}"
)

// patterns turns targets into patterns, of which there are few.
type patterns struct {
	made   map[string]string // each to itself
	text   []byte            // reused
	paths  segment
	varied bool // segments with many values are replaced from now on
}

// segment is a node in the tree of paths.
type segment struct {
	next map[string]*segment
	any  *segment // stands for all values, once there were many
}

func newPatterns() *patterns {
	return &patterns{made: map[string]string{}}
}

// of is the pattern of what an exchange asks for.
func (p *patterns) of(x *capture.Exchange) string {
	p.text = appendPattern(p.text[:0], x.Protocol, x.Target)
	if !p.varied {
		if pattern, ok := p.made[string(p.text)]; ok {
			return pattern
		}
	}
	return p.bound(string(p.text))
}

// bound keeps the patterns few.
func (p *patterns) bound(pattern string) string {
	if p.varied {
		pattern = p.paths.generalise(pattern)
	}
	if made, ok := p.made[pattern]; ok {
		return made
	}
	if len(p.made) >= 2*maxPatterns {
		return manyMark
	}
	p.made[pattern] = pattern
	p.paths.add(pattern)
	if len(p.made) <= maxPatterns || p.varied {
		return pattern
	}
	p.varied = true
	p.paths.merge()
	old := p.made
	p.made = map[string]string{}
	for pattern := range old {
		general := p.paths.generalise(pattern)
		p.made[general] = general
	}
	return p.paths.generalise(pattern)
}

func (s *segment) child(part string) *segment {
	if s.next == nil {
		s.next = map[string]*segment{}
	}
	n := s.next[part]
	if n == nil {
		n = &segment{}
		s.next[part] = n
	}
	return n
}

func (s *segment) add(pattern string) {
	for part := range strings.SplitSeq(pattern, "/") {
		if s.any != nil {
			s = s.any
		} else {
			s = s.child(part)
		}
	}
}

// merge lets one node stand for the values of a segment that has many.
func (s *segment) merge() {
	if len(s.next) > manyValues {
		s.any = &segment{}
		for _, n := range s.next {
			s.any.absorb(n)
		}
		s.next = nil
		s.any.merge()
	}
	for _, n := range s.next {
		n.merge()
	}
}

func (s *segment) absorb(other *segment) {
	for part, n := range other.next {
		s.child(part).absorb(n)
	}
}

func (s *segment) generalise(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		switch {
		case s == nil:
		case s.any != nil:
			parts[i] = manyMark
			s = s.any
		default:
			s = s.next[part]
		}
	}
	return strings.Join(parts, "/")
}

// appendPattern appends a target with its ids replaced.
func appendPattern(out []byte, protocol, target string) []byte {
	switch protocol {
	case capture.HTTP, capture.HTTP2:
		return appendPath(out, target)
	case capture.PostgreSQL, capture.MySQL:
		return appendList(out, target)
	}
	return append(out, target...)
}

func appendPath(out []byte, path string) []byte {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	for segments := 0; ; segments++ {
		part, rest, more := strings.Cut(path, "/")
		if segments == maxSegments {
			return append(out, manyMark...)
		}
		out = appendSegment(out, part)
		if !more {
			return out
		}
		out, path = append(out, '/'), rest
	}
}

// appendSegment replaces an id, or the pieces of a segment that are ids.
func appendSegment(out []byte, s string) []byte {
	switch {
	case !hasDigit(s):
		return append(out, s...)
	case isID(s):
		return append(out, idMark...)
	case isToken(s):
		return append(out, tokenMark...)
	}
	for from := 0; from <= len(s); {
		to := from
		for to < len(s) && !strings.ContainsRune("-_.:~=,;@", rune(s[to])) {
			to++
		}
		piece := s[from:to]
		if len(piece) > 2 && isID(piece) {
			piece = idMark
		}
		out = append(out, piece...)
		if to < len(s) {
			out = append(out, s[to])
		}
		from = to + 1
	}
	return out
}

// hasDigit says whether a text has a digit, as all ids have.
func hasDigit(s string) bool {
	for i := range len(s) {
		if s[i]-'0' <= 9 {
			return true
		}
	}
	return false
}

// isID says whether a text is a number, a UUID, or hexadecimal with a digit in it.
func isID(s string) bool {
	digits, letters, marks := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			letters++
		case c == '-' || c == '.' || c == ':':
			marks++
		default:
			return false
		}
	}
	if digits == 0 {
		return false
	}
	uuid := len(s) == 36 && marks == 4 && s[8] == '-' && s[13] == '-'
	return letters == 0 || uuid || marks == 0 && digits+letters >= longHex
}

// isToken says whether a text has a long piece of letters and digits, as no words do.
func isToken(s string) bool {
	digits, letters, found := 0, 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case c == '-' || c == '_' || c == '.' || c == '=' || c == '%' || c == '~' || c == '+':
			digits, letters = 0, 0
		default:
			return false
		}
		found = found || digits >= 3 && letters > 0 && digits+letters >= longToken
	}
	return found
}

// appendList makes lists of placeholders one: the number of values is no new statement.
func appendList(out []byte, statement string) []byte {
	if !strings.Contains(statement, "?,") {
		return append(out, statement...)
	}
	for i := 0; i < len(statement); i++ {
		out = append(out, statement[i])
		if statement[i] != '?' {
			continue
		}
		j := i
		for {
			rest := strings.TrimLeft(statement[j+1:], " ")
			if !strings.HasPrefix(rest, ",") {
				break
			}
			rest = strings.TrimLeft(rest[1:], " ")
			if !strings.HasPrefix(rest, "?") {
				break
			}
			j = len(statement) - len(rest)
		}
		if j > i {
			out = append(out, ", …"...)
			i = j
		}
	}
	return out
}
