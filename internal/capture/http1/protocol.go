package http1

import (
	"bytes"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
)

// Protocol is HTTP/1.x. Its parsers share a cache of strings, so all of them belong to
// one goroutine.
func Protocol() capture.Protocol {
	cache := new(fields.Cache)
	return capture.Protocol{
		Name:      capture.HTTP,
		Ports:     []uint16{80, 8080, 8000, 8081, 8888, 3000, 5000, 9200, 3128},
		Recognise: recognise,
		New: func(conn *capture.Conn, emit capture.Emit) capture.Parser {
			return newParser(conn, emit, cache)
		},
	}
}

// recognise knows requests by method, target and version, and responses by their version.
// The middle of a message is known by nothing, so where the port says HTTP, any text
// could be one.
func recognise(first []byte) capture.Recognition {
	switch {
	case len(first) == 0:
		return capture.NotIt
	case bytes.HasPrefix(first, []byte("HTTP/1.")):
		return capture.ByServer
	case bytes.HasPrefix(first, []byte("PRI * HTTP/2")):
		return capture.NotIt
	}
	switch method, rest, found := bytes.Cut(first, []byte{' '}); {
	case !found || !isMethod(method) || !isTarget(rest, string(method) == "CONNECT"):
	case usualMethod(method) != "" && len(rest) > 0 || bytes.Contains(rest, []byte(" HTTP/1.")):
		return capture.ByClient
	}
	if isText(first) {
		return capture.Perhaps
	}
	return capture.NotIt
}

// usual are the methods that are known by themselves, those asked for most first.
var usual = [...]string{"GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"}

// usualMethod is the method as one of the usual ones, or "".
func usualMethod(method []byte) string {
	for _, m := range usual {
		if string(method) == m {
			return m
		}
	}
	return ""
}

func isText(data []byte) bool {
	for _, b := range data {
		if b < ' ' && b != '\t' && b != '\r' && b != '\n' || b == 0x7f {
			return false
		}
	}
	return true
}
