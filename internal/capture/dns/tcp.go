package dns

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

// OverTCP reads DNS over TCP, where each message follows its length. As for Protocol, its
// parsers are for one goroutine.
func OverTCP() capture.Protocol {
	names := new(names)
	return capture.Protocol{
		Name:      capture.DNS,
		Transport: capture.TCP,
		Ports:     []uint16{53},
		Recognise: recogniseTCP,
		New: func(c *capture.Conn, emit capture.Emit) capture.Parser {
			s := &stream{messages: parser{names: names, emit: emit}}
			for side := range s.sides {
				s.sides[side].Reset(&framed, !c.Mid)
			}
			return s
		},
	}
}

var framed = framing.Format{
	Header: 2,
	Size: func(h []byte) (int64, bool) {
		n := binary.BigEndian.Uint16(h)
		return int64(n), n >= headerLen
	},
	Keep: func(h []byte) int { return int(binary.BigEndian.Uint16(h)) },
	Sync: func(data []byte) bool { return len(data) > 2+headerLen && recogniseTCP(data) != capture.NotIt },
}

// minMessage is the length of the shortest question: a header, the root, type and class.
const minMessage = headerLen + 1 + 4

// recogniseTCP tells a message behind its length, which some send by itself.
func recogniseTCP(first []byte) capture.Recognition {
	switch {
	case len(first) >= 2 && binary.BigEndian.Uint16(first) < minMessage:
		return capture.NotIt
	case len(first) <= 2+headerLen:
		return capture.Perhaps
	}
	return recognise(first[2:])
}

// stream is a TCP connection.
type stream struct {
	sides    [2]framing.Reader
	messages parser
}

func (s *stream) Chunk(c capture.Chunk) capture.Handover {
	var m framing.Message
	for s.sides[c.Side].Next(&c, &m) {
		s.messages.message(c.Side, m.Body, m.Span())
	}
	return capture.Handover{}
}

func (s *stream) Close() { s.messages.Close() }

func (s *stream) Lost() uint64 {
	return s.messages.lost + s.sides[capture.Client].Lost() + s.sides[capture.Server].Lost()
}
