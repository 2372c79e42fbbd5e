package synth

import (
	"encoding/binary"
	"time"

	"taper.dev/taper/internal/capture"
)

// Sizes of what a handshake of TLS 1.3 sends closed: the server's certificate and what
// proves it, and the client's Finished.
const (
	sealedCertificate = 2600
	sealedFinished    = 53
)

// Secure shakes hands for TLS 1.3 with a server of that name: the ClientHello is at a
// time, the server's part half a round trip later, the client's end another half.
func (t *Talk) Secure(at, roundTrip time.Duration, name string) {
	t.Send(at, capture.Client, clientHello(name))
	t.Send(at+roundTrip/2, capture.Server, append(serverHello(), Sealed(sealedCertificate)...))
	t.Send(at+roundTrip, capture.Client, Sealed(sealedFinished))
}

// Sealed is a record of TLS with so many bytes that only its two ends can read.
func Sealed(size int) []byte { return record(23, filler(size)) }

// record is a record of TLS (RFC 8446, section 5.1).
func record(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(body)))
	return append(b, body...)
}

// clientHello offers TLS 1.3 for a name (RFC 8446, section 4.1.2; RFC 6066, section 3).
func clientHello(name string) []byte {
	host := append([]byte{0}, prefixed(2, []byte(name))...)
	extensions := extension(0, prefixed(2, host))
	extensions = append(extensions, extension(43, prefixed(1, []byte{3, 4}))...)
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)                                  // session
	body = append(body, prefixed(2, []byte{0x13, 0x01})...) // ciphers
	body = append(body, prefixed(1, []byte{0})...)          // compressions
	body = append(body, prefixed(2, extensions)...)
	return record(22, append([]byte{1}, prefixed(3, body)...))
}

// serverHello takes TLS 1.3 (RFC 8446, section 4.1.3).
func serverHello() []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0x13, 0x01, 0)
	body = append(body, prefixed(2, extension(43, []byte{3, 4}))...)
	return record(22, append([]byte{2}, prefixed(3, body)...))
}

func extension(kind uint16, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, kind), prefixed(2, body)...)
}

// prefixed puts the length of bytes before them, in so many bytes.
func prefixed(length int, body []byte) []byte {
	size := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	return append(size[4-length:], body...)
}
