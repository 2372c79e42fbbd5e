package datagram

// windowBits is how many of the latest numbers are remembered: those of a second at the
// highest rate that can be asked for.
const windowBits = 1 << 20

// window remembers which of the latest numbers have come, in memory that does not grow.
type window struct {
	bits []uint64
	// next is one above the highest number that came.
	next uint64
}

// arrival is what a number is to those before it.
type arrival int

const (
	// fresh comes in order, or after a gap.
	fresh arrival = iota
	// reordered comes after one with a higher number.
	reordered
	// duplicate was there before. One so late that nobody remembers is taken for this,
	// so that it never hides a loss.
	duplicate
)

func newWindow() *window { return &window{bits: make([]uint64, windowBits/64)} }

// see notes that a number has come.
func (w *window) see(number uint64) arrival {
	switch {
	case number >= w.next:
		w.forget(w.next, number)
		w.next = number + 1
		w.set(number)
		return fresh
	case w.next-number > windowBits || w.has(number):
		return duplicate
	default:
		w.set(number)
		return reordered
	}
}

// forget clears the bits of numbers that have not come, from one up to another.
func (w *window) forget(from, to uint64) {
	if to-from >= windowBits {
		clear(w.bits)
		return
	}
	for i := range to - from + 1 { // to may be the highest number there is
		n := from + i
		w.bits[n%windowBits/64] &^= 1 << (n % 64)
	}
}

func (w *window) set(n uint64) { w.bits[n%windowBits/64] |= 1 << (n % 64) }

func (w *window) has(n uint64) bool { return w.bits[n%windowBits/64]&(1<<(n%64)) != 0 }
