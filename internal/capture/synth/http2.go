package synth

import "encoding/binary"

// Types and flags of frames of HTTP/2 (RFC 9113, sections 4.1 and 6).
const (
	frameHeaders  = 1
	frameSettings = 4
	endsStream    = 0x1
	endsHeaders   = 0x4
)

// OpenHTTP2 is what a client of HTTP/2 begins a connection with.
func OpenHTTP2() []byte {
	return append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, nil)...)
}

// CallGRPC is a unary call on a stream, AnswerGRPC its answer: without messages, which
// nobody who reads a capture looks into.
func CallGRPC(stream uint32, authority, path string) []byte {
	return headers(stream, ":method", "POST", ":scheme", "http", ":path", path, ":authority", authority,
		"content-type", "application/grpc", "te", "trailers", "authorization", "Bearer "+Planted)
}

// AnswerGRPC is the answer to a call that went well.
func AnswerGRPC(stream uint32) []byte {
	return headers(stream, ":status", "200", "content-type", "application/grpc", "grpc-status", "0")
}

// headers is a frame with names and values in turn, all that is said on its stream. The
// fields are literals that nothing refers to (RFC 7541, section 6.2.2), each name and
// value shorter than 127 bytes.
func headers(stream uint32, fields ...string) []byte {
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = append(block, 0)
		for _, text := range fields[i : i+2] {
			block = append(append(block, byte(len(text))), text...)
		}
	}
	return frame(frameHeaders, endsStream|endsHeaders, stream, block)
}

func frame(kind, flags byte, stream uint32, body []byte) []byte {
	b := append(prefixed(3, body)[:3], kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, body...)
}
