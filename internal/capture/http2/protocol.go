package http2

import (
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
)

// preface is what a client begins with (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Protocol is HTTP/2 in clear. Its parsers share a cache of strings, so all of them belong
// to one goroutine.
func Protocol() capture.Protocol {
	cache := new(fields.Cache)
	return capture.Protocol{
		Name:      capture.HTTP2,
		Ports:     []uint16{50051, 80, 8080, 8081, 9090, 9000, 3000, 2379, 4317, 10000, 15010},
		Recognise: recognise,
		New: func(conn *capture.Conn, emit capture.Emit) capture.Parser {
			return newParser(conn, emit, cache)
		},
	}
}

// recognise knows the client's preface and the server's first settings. In the middle of
// a connection, headers tell who sent them by the field that they begin with; frames
// without headers come from either side.
func recognise(first []byte) capture.Recognition {
	if n := min(len(first), len(preface)); n >= 4 && string(first[:n]) == preface[:n] {
		return capture.ByClient
	}
	if len(first) < headerLength || !follows(first) {
		return capture.NotIt
	}
	h := parseHeader(first)
	switch rest := first[headerLength:]; {
	case h.kind == frameSettings && h.flags == 0:
		return capture.ByServer
	case h.kind == frameHeaders && h.stream%2 == 1:
		if block, ok := h.fragment(rest); ok && len(block) > 0 {
			return bySide(block)
		}
	}
	return capture.Perhaps
}

// bySide tells requests from responses by the first field of a block, if that is an entry
// of HPACK's static table: :authority to :scheme are 1 to 7, :status is 8 to 14.
func bySide(block []byte) capture.Recognition {
	switch index := block[0] & 0x7f; {
	case block[0] < 0x80 || index == 0:
		return capture.Perhaps
	case index <= 7:
		return capture.ByClient
	case index <= 14:
		return capture.ByServer
	}
	return capture.Perhaps
}
