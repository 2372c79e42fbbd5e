package flow

import (
	"encoding/binary"
	"math/bits"
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// copyWindow is how long a packet may take from one interface to another: it may
	// wait in a queue between them, but not for as long as a retransmission timer.
	copyWindow = 50 * time.Millisecond
	// echoWindow is how far apart two sights of one packet at one place may be, where no
	// IP id tells them apart. No retransmission is that early.
	echoWindow = 200 * time.Microsecond
	// sightings is how many packets are remembered; a power of two.
	sightings = 1 << 13
)

// place is where in the machine a packet was seen: interface and direction.
type place uint32

func placeOf(f *capture.Frame) place {
	return place(uint32(f.Interface)<<2 | uint32(f.Direction))
}

// sighting is a packet that was seen. Two are half a cache line: each packet is looked up,
// and hardly any is found. With the slot that it is in, a print is 44 bits of a hash, so
// that on average less than one of a billion packets is taken for another.
type sighting struct {
	at    capture.Time
	print uint32 // 0 is none
	place place
}

// duplicates remembers the last packets, each in one of two places of the slot that its
// hash says, so that neither time nor memory grow.
type duplicates struct {
	slots *[sightings / 2][2]sighting
}

func newDuplicates() duplicates { return duplicates{new([sightings / 2][2]sighting)} }

// again says whether the frame is a packet that was seen already, and remembers it if
// not.
//
// Linux gives each packet of a connection its own IP id, retransmissions too: an id that
// is not 0 and comes again is the same packet, wherever it was seen. Without one (IPv6,
// and some packets that must not be fragmented) the place decides: a retransmission
// passes all places once more, beginning with the first, so what comes from another
// place is a copy. At one place only packets that occupy sequence numbers, and come too
// soon to have been sent again, are copies; acknowledgements are often alike.
func (d *duplicates) again(hash uint64, f *capture.Frame) bool {
	at := placeOf(f)
	pair := &d.slots[hash%uint64(len(d.slots))]
	print := max(uint32(hash>>32), 1)
	for i := range pair {
		s := &pair[i]
		if s.print != print {
			continue
		}
		apart := f.Time.Sub(s.at)
		if apart < 0 {
			apart = -apart // interfaces may be captured out of order
		}
		if isCopy(f, apart, s.place != at) {
			return true
		}
		*s = sighting{f.Time, print, at}
		return false
	}
	older := 0
	if pair[1].at < pair[0].at {
		older = 1
	}
	pair[older] = sighting{f.Time, print, at}
	return false
}

func isCopy(f *capture.Frame, apart time.Duration, elsewhere bool) bool {
	if f.ID != 0 || elsewhere {
		return apart <= copyWindow
	}
	return apart <= echoWindow && (f.Length > 0 || f.Flags&(capture.SYN|capture.FIN) != 0)
}

// hashOf mixes what two sights of one packet have in common.
func hashOf(conn uint64, from end, f *capture.Frame) uint64 {
	h := mix(conn<<1|uint64(from), uint64(f.Seq)<<32|uint64(f.Ack))
	h = mix(h^uint64(f.ID)<<32^uint64(f.Window)<<48^uint64(f.Flags)<<24^uint64(uint32(f.Length)),
		uint64(f.Options.Value)<<32|uint64(f.Options.Echo))
	if f.Transport == capture.UDP {
		h = mixBytes(h, f.Payload)
	}
	return h
}

// mixBytes mixes the first bytes of a datagram, which has no sequence number.
func mixBytes(h uint64, b []byte) uint64 {
	b = b[:min(len(b), 64)]
	for len(b) >= 8 {
		h = mix(h, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	var last [8]byte
	copy(last[:], b)
	return mix(h, binary.LittleEndian.Uint64(last[:]))
}

// mix folds a 128-bit product, whose every bit depends on all of both operands.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return high ^ low
}
