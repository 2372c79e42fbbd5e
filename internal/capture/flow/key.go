package flow

import (
	"encoding/binary"
	"net/netip"

	"taper.dev/taper/internal/capture"
)

// key names a connection in both directions.
type key struct {
	aHigh, aLow, bHigh, bLow uint64
	// rest is a's port, b's port and the transport, 16 bits each.
	rest uint64
}

// is says whether two keys are the same, what differs most often first. It is not written
// as ==, which compares bytes by a call.
func (k *key) is(other *key) bool {
	return k.rest == other.rest && k.aLow == other.aLow && k.bLow == other.bLow && k.aHigh == other.aHigh && k.bHigh == other.bHigh
}

// end is one of a key's two ends: 0 is a, which is the lesser, 1 is b. Which of them is
// the client may turn out later; what is kept by end then need not move.
type end uint8

func (e end) other() end { return 1 - e }

// keyOf returns a frame's key, and which end sent it.
func keyOf(f *capture.Frame) (key, end) {
	srcHigh, srcLow := words(f.Src.Addr())
	dstHigh, dstLow := words(f.Dst.Addr())
	src, dst := uint64(f.Src.Port()), uint64(f.Dst.Port())
	transport := uint64(f.Transport)
	if less(srcHigh, srcLow, src, dstHigh, dstLow, dst) {
		return key{srcHigh, srcLow, dstHigh, dstLow, src<<32 | dst<<16 | transport}, 0
	}
	return key{dstHigh, dstLow, srcHigh, srcLow, dst<<32 | src<<16 | transport}, 1
}

// less orders ends by address, then port; a connection to itself is its own order.
func less(aHigh, aLow, a, bHigh, bLow, b uint64) bool {
	if aHigh != bHigh {
		return aHigh < bHigh
	}
	if aLow != bLow {
		return aLow < bLow
	}
	return a <= b
}

// words are an address as two numbers; an IPv4 address is mapped into IPv6. It is asked for
// twice a packet, and most are IPv4: four bytes are read faster than sixteen.
func words(a netip.Addr) (high, low uint64) {
	if a.Is4() {
		bytes := a.As4()
		return 0, mapped | uint64(binary.BigEndian.Uint32(bytes[:]))
	}
	bytes := a.As16()
	return binary.BigEndian.Uint64(bytes[:8]), binary.BigEndian.Uint64(bytes[8:])
}

// mapped begins the lower half of an IPv6 address that stands for an IPv4 one.
const mapped = 0xffff << 32
