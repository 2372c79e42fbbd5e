package datagram

// search looks for the largest size that gets through, by halving. It only thinks; what
// becomes of a packet of some size it is told.
type search struct {
	// low is the largest that got through, high the largest that may still.
	low, high int
	// try is the size to try next, where something better than the middle is known; hint
	// is one that somebody has named.
	try, hint int
	// hole is the smallest size that vanished without a word; 0 if none did.
	hole int
}

// newSearch looks between a size that gets through and the largest that can be sent,
// which it tries first: mostly that is the answer.
func newSearch(low, high int) *search { return &search{low: low, high: high, try: high} }

// next is the size to try; false if the answer is known: low.
func (s *search) next() (int, bool) {
	if s.low >= s.high {
		return 0, false
	}
	if s.try > s.low && s.try <= s.high {
		return s.try, true
	}
	return s.low + (s.high-s.low+1)/2, true
}

// passed notes that a size got through. If it was named as the largest, the next one is
// tried: mostly that settles it.
func (s *search) passed(size int) {
	s.low = max(s.low, size)
	s.try = 0
	if size == s.hint {
		s.try = size + 1
	}
}

// refused notes that a size did not get through and that who refused it says so, and a
// size that would; 0 if nobody knows one.
func (s *search) refused(size, better int) {
	s.high = min(s.high, size-1)
	s.try, s.hint = better, better
}

// vanished notes that a size did not get through, and nobody said a word.
func (s *search) vanished(size int) {
	s.high = min(s.high, size-1)
	s.try = 0
	if s.hole == 0 || size < s.hole {
		s.hole = size
	}
}

// holeWithin tells whether a size vanished that somebody believes to get through.
func (s *search) holeWithin(believed int) bool { return s.hole > 0 && s.hole <= believed }
