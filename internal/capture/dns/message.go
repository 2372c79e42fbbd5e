package dns

import (
	"encoding/binary"
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// headerLen is the length of a message's header, in bytes.
const headerLen = 12

// Response codes that matter here.
const (
	noError  = 0
	nxDomain = 3
)

// Classes and operations.
const (
	internet     = 1
	opcodeQuery  = 0
	opcodeNotify = 4
	opcodeUpdate = 5
)

// Flags of a message.
const (
	flagResponse  = 1 << 15
	flagTruncated = 1 << 9
	flagRecursion = 1 << 8 // desired
	flagAvailable = 1 << 7 // recursion is
)

// message is the beginning of a message: its header and its first question.
type message struct {
	id, flags uint16
	// asks says that there is a question, of this type.
	asks bool
	kind uint16
	// Numbers of records, and where they begin.
	answers, authorities uint16
	next                 int
	// name is the question's, as it is on the wire: labels behind their lengths.
	name []byte
}

func (m *message) response() bool { return m.flags&flagResponse != 0 }
func (m *message) opcode() int    { return int(m.flags >> 11 & 15) }
func (m *message) rcode() int     { return int(m.flags & 15) }

// read reads a message up to its records, and says whether it is one.
func (m *message) read(data []byte) bool {
	if len(data) < headerLen {
		return false
	}
	m.id = binary.BigEndian.Uint16(data)
	m.flags = binary.BigEndian.Uint16(data[2:])
	questions := binary.BigEndian.Uint16(data[4:])
	m.answers = binary.BigEndian.Uint16(data[6:])
	m.authorities = binary.BigEndian.Uint16(data[8:])
	switch m.opcode() {
	case opcodeQuery, opcodeNotify, opcodeUpdate:
	default:
		return false
	}
	if m.next = headerLen; questions == 0 {
		return m.response()
	}
	return questions == 1 && m.question(data)
}

func (m *message) question(data []byte) bool {
	end, ok := endOfLabels(data)
	if !ok || len(data)-end < 4 {
		return false
	}
	m.asks = true
	m.name = data[headerLen:end]
	m.kind = binary.BigEndian.Uint16(data[end:])
	m.next = end + 4
	return true
}

// maxName is the length of the longest name on the wire.
const maxName = 255

// endOfLabels is where the question's name ends. It is the first name of its message, so
// it cannot refer to another.
func endOfLabels(data []byte) (int, bool) {
	for at := headerLen; at < len(data) && at < headerLen+maxName; {
		switch n := int(data[at]); {
		case n == 0:
			return at + 1, true
		case n > 63:
			return 0, false
		default:
			at += 1 + n
		}
	}
	return 0, false
}

// Types of records that are looked at.
const (
	typeA    = 1
	typeSOA  = 6
	typeAAAA = 28
)

// records reads the answers, or the SOA of a negative answer, as far as they are there.
func (m *message) records(data []byte, d *capture.DNSDetail) {
	d.Truncated = m.flags&flagTruncated != 0
	at, least := m.next, time.Duration(-1)
	for n := int(m.answers) + int(m.authorities); n > 0; n-- {
		r, ok := readRecord(data, at)
		if !ok {
			break
		}
		at = r.end
		inAnswer := n > int(m.authorities)
		if !inAnswer && (m.answers > 0 || r.kind != typeSOA) {
			continue
		}
		if ttl := r.ttl(); least < 0 || ttl < least {
			least = ttl
		}
		if a, ok := r.address(); ok && inAnswer && len(d.Addresses) < capture.MaxAddresses {
			d.Addresses = append(d.Addresses, a)
		}
	}
	d.TTL = max(least, 0)
}

// record is a resource record.
type record struct {
	kind, class uint16
	seconds     uint32
	data        []byte
	end         int // where the next one begins
}

func readRecord(data []byte, at int) (r record, ok bool) {
	at, ok = skipName(data, at)
	if !ok || len(data)-at < 10 {
		return r, false
	}
	r.kind = binary.BigEndian.Uint16(data[at:])
	r.class = binary.BigEndian.Uint16(data[at+2:])
	r.seconds = binary.BigEndian.Uint32(data[at+4:])
	n := int(binary.BigEndian.Uint16(data[at+8:]))
	at += 10
	if n > len(data)-at {
		return r, false
	}
	r.data, r.end = data[at:at+n], at+n
	return r, true
}

// skipName is where the name at a place ends.
func skipName(data []byte, at int) (int, bool) {
	for at < len(data) {
		switch n := int(data[at]); {
		case n == 0:
			return at + 1, true
		case n >= 0xc0:
			return at + 2, true
		case n > 63:
			return 0, false
		default:
			at += 1 + n
		}
	}
	return 0, false
}

// ttl is how long the record may be kept; of an SOA, how long its absence may be
// (RFC 2308, section 5). Values beyond 2^31 mean zero (RFC 2181, section 8).
func (r *record) ttl() time.Duration {
	seconds := r.seconds
	if r.kind == typeSOA && len(r.data) >= 4 {
		seconds = min(seconds, binary.BigEndian.Uint32(r.data[len(r.data)-4:]))
	}
	if seconds > 1<<31-1 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (r *record) address() (netip.Addr, bool) {
	switch {
	case r.class != internet:
	case r.kind == typeA && len(r.data) == 4, r.kind == typeAAAA && len(r.data) == 16:
		return netip.AddrFromSlice(r.data)
	}
	return netip.Addr{}, false
}
