package http1

import (
	"bytes"

	"taper.dev/taper/internal/capture"
)

// requestLine is what the first line of a request says.
type requestLine struct {
	method, target []byte
	old            bool // HTTP/1.0
}

// parseRequestLine reads method, target and version. Where the line is only a beginning,
// the version may be missing; the target is nil when its end is not there.
func parseRequestLine(text []byte, cut bool) (r requestLine, ok bool) {
	space := bytes.IndexByte(text, ' ')
	if space < 0 || !isMethod(text[:space]) {
		return r, false
	}
	method, rest := text[:space], text[space:]
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if !isTarget(rest, string(method) == "CONNECT") {
		return r, false
	}
	r.method = method
	if cut {
		if end := bytes.IndexAny(rest, " ?"); end >= 0 {
			r.target = rest[:end]
		}
		return r, true
	}
	// Some clients leave spaces in targets: the last one counts.
	if space = len(rest) - len(" HTTP/1.1"); space < 0 || rest[space] != ' ' || !isVersion(rest[space+1:]) {
		return r, false
	}
	for space > 0 && rest[space-1] == ' ' {
		space--
	}
	r.target, r.old = rest[:space], rest[len(rest)-1] == '0'
	return r, true
}

// isMethod says whether a text is a method: those that are in use have capitals, and some
// a hyphen.
func isMethod(text []byte) bool {
	return len(text) >= 3 && len(text) <= longestMethod && areCapitals(text)
}

// longestMethod is longer than any method that is in use.
const longestMethod = 24

func areCapitals(text []byte) bool {
	for _, b := range text {
		if (b < 'A' || b > 'Z') && b != '-' {
			return false
		}
	}
	return true
}

// isTarget says whether a text can begin a request target: a path, a URL of HTTP, "*", or
// with CONNECT an authority.
func isTarget(text []byte, authority bool) bool {
	if len(text) == 0 {
		return true
	}
	switch text[0] {
	case '/':
		return true
	case '*':
		return len(text) == 1 || text[1] == ' '
	}
	if authority {
		return text[0] > ' ' && text[0] < 0x7f
	}
	return begins(text, "http://") || begins(text, "https://")
}

// begins says whether text begins with want, or is the beginning of it.
func begins(text []byte, want string) bool {
	n := min(len(text), len(want))
	return string(text[:n]) == want[:n]
}

func isVersion(text []byte) bool {
	return len(text) == 8 && string(text[:7]) == "HTTP/1." && (text[7] == '0' || text[7] == '1')
}

// parseStatusLine reads version and status; of a line that is cut as well.
func parseStatusLine(text []byte) (status int, old, ok bool) {
	if len(text) < 12 || !isVersion(text[:8]) || text[8] != ' ' || len(text) > 12 && text[12] != ' ' {
		return 0, false, false
	}
	for _, b := range text[9:12] {
		if b < '0' || b > '9' {
			return 0, false, false
		}
		status = 10*status + int(b-'0')
	}
	return status, text[7] == '0', status >= 100
}

// mayStart says whether data could be the beginning of a message of side; more bytes will
// tell.
func mayStart(data []byte, side capture.Side) bool {
	if side == capture.Server {
		return begins(data, "HTTP/1.")
	}
	data = data[:min(len(data), 32)]
	space := bytes.IndexByte(data, ' ')
	if space < 0 {
		return len(data) <= longestMethod && areCapitals(data)
	}
	return isMethod(data[:space]) && isTarget(data[space+1:], string(data[:space]) == "CONNECT")
}
