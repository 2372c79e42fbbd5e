package stream_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"taper.dev/taper/internal/probe/stream"
)

// FuzzMarks: however a stream of frames is cut, the same marks are found; and whatever
// the bytes are, nothing worse happens than wrong marks.
func FuzzMarks(f *testing.F) {
	for _, n := range []int{1, 64, 65, 1000} {
		f.Add(append(stream.Frame(n, 7), stream.Frame(n, 1<<62)...), n, uint64(n))
		f.Add(append(stream.Frame(n, 0), stream.Frame(n, -1)...), n, uint64(3))
	}
	f.Add([]byte{}, 5, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n int, seed uint64) {
		if n < 1 || n > 1<<24 {
			t.Skip()
		}
		want := stream.NewMarks(n).All(b)
		random := rand.New(rand.NewPCG(seed, 0))
		var got []int64
		pieces := stream.NewMarks(n)
		for rest := b; len(rest) > 0; {
			cut := 1 + random.IntN(len(rest))
			got = append(got, pieces.All(rest[:cut])...)
			rest = rest[cut:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces %v, whole %v", got, want)
		}
		if most := len(b)/max(n, 64) + 1; len(want) > most {
			t.Errorf("%d marks in %d bytes of frames of %d", len(want), len(b), n)
		}
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	var all []byte
	for _, m := range []int64{0, 5, 0, 6, -1} {
		all = append(all, stream.Frame(100, m)...)
	}
	if got, want := stream.NewMarks(100).All(all), []int64{5, 6, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		averages []float64
		want     bool
	}{
		{"none", nil, false},
		{"too few to be averages", []float64{100, 100, 100, 100, 100, 100}, false},
		{"flat", []float64{1, 2, 3, 100, 100, 100, 100}, true},
		// The standard deviation of 91, 97, 103, 109 is 6.7: 6.2 % of 109.
		{"rising", []float64{1, 2, 3, 91, 97, 103, 109}, false},
		// That of 94, 98, 102, 106 is 4.5: 4.2 % of 106.
		{"rising little", []float64{1, 2, 3, 94, 98, 102, 106}, true},
		{"nothing moves", []float64{0, 0, 0, 0, 0, 0, 0}, false},
	} {
		if got := stream.Stable(c.averages); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}
