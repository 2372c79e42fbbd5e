// Package random is chance that is the same in every run: engines that draw have the same
// answer for the same input. A [Source] begins from its seed and is not safe for use by
// several goroutines.
package random

import (
	"math"
	"math/bits"
)

// Source is SplitMix64 (Steele, Lea and Flood 2014). Its zero value is seeded with 0.
type Source struct{ state uint64 }

// New is a source with a seed.
func New(seed uint64) *Source { return &Source{seed} }

// Next is uniform over all numbers.
func (s *Source) Next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below is uniform in 0 … n-1. The bias of the multiplication, n/2⁶⁴, does not matter.
func (s *Source) Below(n int) int {
	hi, _ := bits.Mul64(s.Next(), uint64(n))
	return int(hi)
}

// Unit is uniform in (0, 1].
func (s *Source) Unit() float64 { return float64(s.Next()>>11+1) / (1 << 53) }

// Normal is normally distributed, with a mean of 0 and a deviation of 1 (Box and Muller 1958).
func (s *Source) Normal() float64 {
	return math.Sqrt(-2*math.Log(s.Unit())) * math.Cos(2*math.Pi*s.Unit())
}

// Shuffle puts a list in random order (Fisher and Yates).
func Shuffle[T any](s *Source, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := s.Below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
