package sim

import (
	"math"
	"slices"
)

// Histogram holds durations in buckets whose width is in proportion to their value, as
// HdrHistogram does; its memory does not grow with their number. Durations are in seconds.
// It is not safe for use by several goroutines.
type Histogram struct {
	// shift is how many low bits of a float64 do not matter: what is left of them, the
	// exponent and the highest bits of the fraction, is the number of a bucket.
	shift  uint
	counts []uint32
	count  uint64
	sum    float64
}

// Buckets divide each power of two, from some 60 ns to some 4.5 hours, into 128 parts, or
// into 16 where there are many histograms: values are exact to 0.4 % and to 3 %.
const (
	fraction  = 52
	fineBits  = 7
	roughBits = 4
	shortest  = 1.0 / (1 << 24)
	longest   = 1 << 14
	exponents = 24 + 14
)

// NewHistogram is exact to 0.4 %.
func NewHistogram() *Histogram { return newHistogram(fineBits) }

func newHistogram(bits uint) *Histogram {
	return &Histogram{shift: fraction - bits, counts: make([]uint32, exponents<<bits)}
}

// first is the number that the first bucket has in all floats.
func (h *Histogram) first() uint64 { return math.Float64bits(shortest) >> h.shift }

// Record adds a duration. What is outside of the range counts as its nearest end.
func (h *Histogram) Record(v float64) {
	i := math.Float64bits(max(shortest, v))>>h.shift - h.first()
	h.counts[min(i, uint64(len(h.counts)-1))]++
	h.count++
	h.sum += v
}

// Add adds all that another holds, which is as exact as this one.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.sum += other.sum
}

// Clone is a copy.
func (h *Histogram) Clone() *Histogram {
	c := *h
	c.counts = slices.Clone(h.counts)
	return &c
}

// Count is how many there are.
func (h *Histogram) Count() uint64 { return h.count }

// Mean is their exact mean; 0 if there are none.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return h.sum / float64(h.count)
}

// Quantile is what a part q (0..1) of them does not exceed; 0 if there are none.
func (h *Histogram) Quantile(q float64) float64 {
	rank := q * float64(h.count)
	var below float64
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if at := below + float64(n); at >= rank {
			low, high := h.edge(i), h.edge(i+1)
			return low + (high-low)*min(1, max(0, (rank-below)/float64(n)))
		}
		below += float64(n)
	}
	return 0
}

// edge is where a bucket begins.
func (h *Histogram) edge(i int) float64 {
	return math.Float64frombits((h.first() + uint64(i)) << h.shift)
}
