package random

import (
	"slices"
	"testing"
)

// The numbers that the algorithm's authors give for the seed 1234567.
func TestNextIsSplitMix64(t *testing.T) {
	t.Parallel()
	s := New(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if got := s.Next(); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

func TestDrawsStayInTheirBounds(t *testing.T) {
	t.Parallel()
	s := New(1)
	seen := map[int]bool{}
	for range 1000 {
		if n := s.Below(7); n < 0 || n > 6 {
			t.Fatalf("%d is not below 7", n)
		} else {
			seen[n] = true
		}
		if u := s.Unit(); u <= 0 || u > 1 {
			t.Fatalf("%v is not in (0, 1]", u)
		}
	}
	if len(seen) != 7 {
		t.Errorf("of 7 numbers %d were drawn", len(seen))
	}
	list := []int{1, 2, 3, 4, 5}
	Shuffle(s, list)
	if slices.Sort(list); !slices.Equal(list, []int{1, 2, 3, 4, 5}) {
		t.Errorf("shuffled, it is %v", list)
	}
}
