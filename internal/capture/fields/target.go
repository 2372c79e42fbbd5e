package fields

import (
	"bytes"

	"taper.dev/taper/internal/capture"
)

// token stands for a path segment that looks like a credential.
const token = "{token}"

// Target is the path of a request target in any of its forms: the query string, the
// fragment and the authority of an absolute one are left out, and segments that look like
// credentials are replaced by "{token}". The authority form of CONNECT and "*" are
// themselves. Long paths are cut to capture.MaxText bytes.
//
// The query is what the target had after "?", for [Action].
func (c *Cache) Target(target []byte) (path string, query []byte) {
	if end := bytes.IndexByte(target, '#'); end >= 0 {
		target = target[:end]
	}
	if end := bytes.IndexByte(target, '?'); end >= 0 {
		target, query = target[:end], target[end+1:]
	}
	target = withoutAuthority(target)
	if !suspicious(target) {
		return c.Text(target), query
	}
	var clean [capture.MaxText]byte
	return c.Text(withoutTokens(clean[:0], target)), query
}

// withoutAuthority reduces scheme://authority/path to the path. User and password of an
// authority go with it.
func withoutAuthority(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	if _, after, absolute := bytes.Cut(target, []byte("://")); absolute {
		if slash := bytes.IndexByte(after, '/'); slash >= 0 {
			return after[slash:]
		}
		return []byte{'/'}
	}
	if at := bytes.LastIndexByte(target, '@'); at >= 0 {
		return target[at+1:]
	}
	return target
}

// shortest is the least length of what looks like a token.
const shortest = 33

// suspicious says whether any segment is long enough to be a token, or has parameters, or
// belongs to the paths whose last segment is one however short.
func suspicious(path []byte) bool {
	if bytes.IndexByte(path, ';') >= 0 || bytes.HasPrefix(path, containerCredentials) {
		return true
	}
	for len(path) >= shortest {
		// A slash within the first so many bytes: the segment before it is shorter.
		slash := bytes.LastIndexByte(path[:shortest], '/')
		if slash < 0 {
			return true
		}
		path = path[slash+1:]
	}
	return false
}

// containerCredentials begins the paths at which ECS serves credentials; the id that
// follows is what protects them.
var containerCredentials = []byte("/v2/credentials/")

// withoutTokens appends the path to clean without going beyond its capacity.
func withoutTokens(clean, path []byte) []byte {
	secret := bytes.HasPrefix(path, containerCredentials)
	for i := 0; len(clean) < cap(clean); i++ {
		segment, rest, more := bytes.Cut(path, []byte{'/'})
		// Parameters of a segment are like a query string: ";jsessionid=…".
		segment, _, _ = bytes.Cut(segment, []byte{';'})
		if LooksSecret(segment) || secret && i == 3 && len(segment) > 0 {
			segment = []byte(token)
		}
		clean = append(clean, segment[:min(len(segment), cap(clean)-len(clean))]...)
		if !more {
			break
		}
		if len(clean) < cap(clean) {
			clean = append(clean, '/')
		}
		path = rest
	}
	return clean
}

// LooksSecret says whether a path segment looks like a credential: a JSON Web Token, or a
// long text of letters and digits without pattern, in hexadecimal or base64. A UUID is an
// id, and what consists of words is a name.
func LooksSecret(segment []byte) bool {
	if len(segment) < shortest || isUUID(segment) {
		return false
	}
	if bytes.HasPrefix(segment, []byte("eyJ")) && bytes.IndexByte(segment, '.') >= 0 {
		return true
	}
	random := 0
	var piece piece
	for _, b := range segment {
		switch {
		case b >= 'a' && b <= 'z':
			piece.add(lower)
		case b >= 'A' && b <= 'Z':
			piece.add(upper)
		case b >= '0' && b <= '9':
			piece.add(digit)
		default:
			random += piece.random()
		}
	}
	return random+piece.random() >= mostRandom
}

// mostRandom is how many letters and digits without pattern a name may have, such as the
// 15 at the end of a Kubernetes pod's.
const mostRandom = 24

// kind is what a character of a piece is.
type kind byte

const (
	lower kind = iota + 1
	upper
	digit
)

// piece is a run of letters and digits, and the words in it: "getItem42" has three. Words
// of people have some five characters; what is drawn by lot changes between lower case,
// upper case and digits after two, in hexadecimal as in base64.
type piece struct {
	length, words int
	last          kind
}

func (p *piece) add(k kind) {
	if capital := p.last == upper && k == lower; k != p.last && !capital {
		p.words++
	}
	p.length++
	p.last = k
}

// random ends the piece, and returns its length if it was drawn by lot, else 0.
func (p *piece) random() int {
	length := p.length
	if p.words == 1 || 2*p.length > 7*p.words {
		length = 0
	}
	*p = piece{}
	return length
}

func isUUID(text []byte) bool {
	if len(text) != 36 {
		return false
	}
	for i, b := range text {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if b != '-' {
				return false
			}
		} else if !(b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f') {
			return false
		}
	}
	return true
}
