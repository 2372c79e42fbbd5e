package policy

import (
	"slices"
	"testing"

	"taper.dev/taper/internal/random"
)

func turns(s *edf, weight []float64, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = s.first()
		s.again(weight[list[i]])
	}
	return list
}

func TestScheduleOfKnownWeights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		weight []float64
		picks  uint32
		want   []int32
	}{
		{"1:2:3", []float64{1, 2, 3}, 0, []int32{2, 1, 2, 0, 1, 2, 2, 1, 2, 0, 1, 2}},
		{"1:2:3 after two", []float64{1, 2, 3}, 2, []int32{2, 0, 1, 2, 2, 1}},
		{"1:2:3 after a cycle", []float64{1, 2, 3}, 6, []int32{2, 1, 2, 0, 1, 2}},
		{"equal, in the order of entry", []float64{5, 5, 5}, 0, []int32{0, 1, 2, 0, 1, 2}},
		{"one", []float64{3}, 1000, []int32{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			endpoints := make([]int32, len(c.weight))
			for i := range endpoints {
				endpoints[i] = int32(i)
			}
			var s edf
			s.begin(endpoints, c.weight, c.picks)
			if got := turns(&s, c.weight, len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("the order is %v, want %v", got, c.want)
			}
		})
	}
}

// A schedule that begins after some picks is that of picking so often. Weights that are no
// multiples of each other leave no ties, which Envoy breaks differently then.
func TestBeginningLateIsPicking(t *testing.T) {
	t.Parallel()
	r := random.New(7)
	for try := range 200 {
		endpoints, weight := []int32{}, []float64{}
		for i := range 1 + r.Below(1+3*try) {
			w := 0.01 + 100*r.Unit()
			if try%2 == 1 {
				w = []float64{1, 1.37, 2.11}[i%3] // whose turns come all at once
			}
			endpoints, weight = append(endpoints, int32(i)), append(weight, w)
		}
		picks := r.Below(3000)
		var early, late edf
		early.begin(endpoints, weight, 0)
		turns(&early, weight, picks)
		late.begin(endpoints, weight, uint32(picks))
		if a, b := turns(&early, weight, 100), turns(&late, weight, 100); !slices.Equal(a, b) {
			t.Fatalf("after %d picks with weights %v the order is %v, picking so often %v", picks, weight, b, a)
		}
	}
}

// However long it runs, nobody is more than one turn off its share.
func TestScheduleKeepsShares(t *testing.T) {
	t.Parallel()
	weight := []float64{1, 10, 100, 1000, 17, 3.5}
	var s edf
	s.begin([]int32{0, 1, 2, 3, 4, 5}, weight, 123456789)
	var sum float64
	for _, w := range weight {
		sum += w
	}
	const n = 100000
	counts := make([]float64, len(weight))
	for _, e := range turns(&s, weight, n) {
		counts[e]++
	}
	for i, w := range weight {
		if want := n * w / sum; counts[i] < want-2 || counts[i] > want+2 {
			t.Errorf("weight %v had %v turns, want %.1f ± 2", w, counts[i], want)
		}
	}
}
