package trap

import "slices"

// evidence are packets that show a trap: the first MaxEvidence of them, in order.
type evidence []uint64

// add takes packets; number 0 is a packet that was not seen.
func (e *evidence) add(packets ...uint64) {
	for _, p := range packets {
		if p != 0 && len(*e) < MaxEvidence && !slices.Contains(*e, p) {
			*e = append(*e, p)
		}
	}
}

func (e evidence) sorted() []uint64 {
	s := slices.Clone(e)
	slices.Sort(s)
	return s
}
