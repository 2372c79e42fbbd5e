package dns

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
)

// nbName is the record type of a NetBIOS name question, which else looks like DNS.
const nbName = 32

// recognise tells a message by its first bytes. A question that wants recursion, and an
// answer that offers it, are DNS on any port; others, which multicast DNS and LLMNR send
// too, only on DNS's own.
func recognise(first []byte) capture.Recognition {
	if len(first) < headerLen+1 {
		return capture.NotIt
	}
	flags := binary.BigEndian.Uint16(first[2:])
	questions := binary.BigEndian.Uint16(first[4:])
	records := [3]uint16{
		binary.BigEndian.Uint16(first[6:]), binary.BigEndian.Uint16(first[8:]), binary.BigEndian.Uint16(first[10:]),
	}
	const zero = 1 << 6 // always 0
	m := message{flags: flags}
	if questions != 1 || flags&zero != 0 || m.opcode() != opcodeQuery && m.opcode() != opcodeNotify && m.opcode() != opcodeUpdate {
		return capture.NotIt
	}
	if !plausibleName(first) {
		return capture.NotIt
	}
	if !m.response() {
		switch {
		case m.opcode() != opcodeUpdate && (m.rcode() != 0 || records[0] > 1 || records[1] > 1 || records[2] > 3):
			return capture.NotIt
		case flags&flagRecursion != 0 && m.opcode() == opcodeQuery && records[0] == 0:
			return capture.ByClient
		}
		return capture.Perhaps
	}
	if records[0] > 4096 || records[1] > 256 || records[2] > 512 {
		return capture.NotIt
	}
	if flags&flagAvailable != 0 && flags&flagRecursion != 0 {
		return capture.ByServer
	}
	return capture.Perhaps
}

// plausibleName says whether a question follows the header, as far as its bytes go: names
// that are asked for are of letters, digits, hyphens and underscores.
func plausibleName(first []byte) bool {
	at := headerLen
	for at < len(first) {
		n := int(first[at])
		at++
		if n == 0 {
			return plausibleQuestion(first[at:])
		}
		if n > 63 {
			return false
		}
		for _, c := range first[at:min(at+n, len(first))] {
			if c <= ' ' || c >= 0x7f {
				return false
			}
		}
		at += n
	}
	return true
}

func plausibleQuestion(rest []byte) bool {
	if len(rest) < 4 {
		return true
	}
	kind, class := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	return kind != 0 && kind != nbName && (class >= 1 && class <= 4 || class == 254 || class == 255)
}
