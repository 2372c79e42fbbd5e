package datagram

import (
	"encoding/binary"
	"hash/crc32"
)

// kind is what a datagram is for.
type kind uint32

// The kinds. Zero is none, so that a number below 2^32 (see [putNumber]) never reads as a
// header.
const (
	// data carries bytes that are counted; its number is its place among them.
	data kind = iota + 1
	// begin lets the far end start to send.
	begin
	// finish says that all was sent, its number how many; it is sent again until finished comes.
	finish
	finished
	// bye lets the other end go: after finished, or in the middle of a trial.
	bye
	// packet is one of some size whose arrival is reported by arrived.
	packet
	arrived
	// ask wants a packet of some size, which comes as given, unless the far end's kernel
	// refuses to send it: refused.
	ask
	given
	refused
	kinds // how many there are, and one
)

// headerBytes is what a datagram has at least that is not a message of a latency test.
const headerBytes = 16

// header begins datagrams: 4 bytes of tag, 4 of kind, 8 of number, the low byte first.
type header struct {
	// tag says which trial this is, lest one before it at the same ports be mistaken for it.
	tag    uint32
	kind   kind
	number uint64
}

// tagOf is the tag of the trial with such a hello.
func tagOf(hello []byte) uint32 { return crc32.ChecksumIEEE(hello) }

// put writes the header to the first bytes of b, which has [headerBytes].
func (h header) put(b []byte) {
	_ = b[headerBytes-1]
	binary.LittleEndian.PutUint32(b, h.tag)
	binary.LittleEndian.PutUint32(b[4:], uint32(h.kind))
	binary.LittleEndian.PutUint64(b[8:], h.number)
}

// parse reads a header; false if b does not begin with one.
func parse(b []byte) (header, bool) {
	if len(b) < headerBytes {
		return header{}, false
	}
	h := header{
		tag:    binary.LittleEndian.Uint32(b),
		kind:   kind(binary.LittleEndian.Uint32(b[4:])),
		number: binary.LittleEndian.Uint64(b[8:]),
	}
	return h, h.kind > 0 && h.kind < kinds
}

// sizesBytes is what packets of a path MTU test have at least: a header, and a pair of
// sizes.
const sizesBytes = headerBytes + 8

// putSizes writes the size that is asked for or came, and the one that the sender's
// kernel believes in, behind a header.
func putSizes(b []byte, size, believed int) {
	binary.LittleEndian.PutUint32(b[headerBytes:], uint32(size))
	binary.LittleEndian.PutUint32(b[headerBytes+4:], uint32(believed))
}

// parseSizes reads them; false if they are missing or beyond what IP can carry.
func parseSizes(b []byte) (size, believed int, ok bool) {
	if len(b) < sizesBytes {
		return 0, 0, false
	}
	s, m := binary.LittleEndian.Uint32(b[headerBytes:]), binary.LittleEndian.Uint32(b[headerBytes+4:])
	return int(s), int(m), s <= maxPacketBytes && m <= maxPacketBytes+1
}

// maxPacketBytes is the largest IP packet. (The MTU of a loopback is one more.)
const maxPacketBytes = 1<<16 - 1

// numberBytes is what a whole number takes in a message of a latency test. A message or
// answer with less has the number's low byte alone.
const numberBytes = 8

// width is how many bytes of the number messages carry.
func width(message, reply int) int {
	if min(message, reply) < numberBytes {
		return 1
	}
	return numberBytes
}

// putNumber writes the number to the first bytes of a message.
func putNumber(b []byte, width int, number uint64) {
	if width == 1 {
		b[0] = byte(number)
		return
	}
	binary.LittleEndian.PutUint64(b, number)
}

// number reads what putNumber wrote: all of it, or its low byte.
func number(b []byte, width int) uint64 {
	if width == 1 {
		return uint64(b[0])
	}
	return binary.LittleEndian.Uint64(b)
}
