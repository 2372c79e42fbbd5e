package balance

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"taper.dev/taper/internal/model"
)

func TestQuantizeKeepsSharesWithinHalfAPercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{2, 15, 1000} {
		members := make([]member, n)
		var sum float64
		for i := range members {
			members[i].Endpoint = model.Endpoint{Address: fmt.Sprint(i)}
			members[i].next = 0.05 + 10*rng.Float64()*rng.Float64()
			sum += members[i].next
		}
		for i := range members {
			members[i].next /= sum
		}
		shares := (&state{members: members}).quantize().Shares()
		for _, m := range members {
			if off := math.Abs(shares[m.Address]/m.next - 1); off > 0.005 {
				t.Fatalf("%d endpoints: share %g became %g, %.2f %% off", n, m.next, shares[m.Address], 100*off)
			}
		}
	}
}

func TestQuantizeNeverOverflows(t *testing.T) {
	members := []member{{Endpoint: model.Endpoint{Address: "a"}, next: 1}, {Endpoint: model.Endpoint{Address: "b"}, next: 1e-300}}
	w := (&state{members: members}).quantize()
	if w["b"] != 1 || w["a"] != mostWeight {
		t.Errorf("got %v", w)
	}
}

func TestCoarseWeights(t *testing.T) {
	policy := Policy{EqualWeight: 20}
	var members []member
	for address, next := range map[string]float64{"slow": 0.0125, "a": 0.1951, "b": 0.2924, "fast": 0.5} {
		members = append(members, member{Endpoint: model.Endpoint{Address: address}, next: next})
	}
	s := &state{members: members, in: Input{Policy: policy}}
	want := model.Weights{"slow": 1, "a": 16, "b": 23, "fast": 40}
	if got := s.quantize(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	// 15.608 and 23.392 are near enough to 15 and 24 for these to stay; 40 is not
	// near enough to 39.
	s.in.Current = model.Weights{"slow": 1, "a": 15, "b": 24, "fast": 39}
	want = model.Weights{"slow": 1, "a": 15, "b": 24, "fast": 40}
	if got := s.quantize(); !maps.Equal(got, want) {
		t.Errorf("after %v: got %v, want %v", s.in.Current, got, want)
	}
	for address, w := range s.equalWeights() {
		if w != 20 {
			t.Errorf("%s starts with %d, want 20", address, w)
		}
	}
}

func TestDistributeMeetsItsBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		n := 2 + rng.IntN(30)
		appetites, bounds := make([]appetite, n), make([]bound, n)
		for i := range appetites {
			cores := 0.25 + 8*rng.Float64()
			appetites[i] = newAppetite(LeastLatency, 0.001+0.05*rng.Float64(), cores, cores, 100+1000*rng.Float64())
			low := rng.Float64() / float64(n)
			bounds[i] = bound{low, low + 3*rng.Float64()/float64(n)}
		}
		var lows float64
		for _, b := range bounds {
			lows += b.low
		}
		feasible := lows < 1 && highs(bounds) > 1
		var sum float64
		for i, share := range distribute(appetites, bounds) {
			sum += share
			if feasible && (share < bounds[i].low*(1-1e-6) || share > bounds[i].high*(1+1e-6)) {
				t.Fatalf("share %g is outside %v", share, bounds[i])
			}
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("shares add up to %g", sum)
		}
	}
}

// Least latency must beat every small move of load between two endpoints.
func TestLeastLatencyIsAMinimum(t *testing.T) {
	demands := []float64{0.002, 0.003, 0.005, 0.011}
	for _, cores := range []float64{0.5, 1, 2, 3, 4} {
		load := 400 * cores
		appetites, bounds := make([]appetite, len(demands)), make([]bound, len(demands))
		for i, d := range demands {
			appetites[i], bounds[i] = newAppetite(LeastLatency, d, cores, cores, load), bound{1e-6, 0.99 * cores / (d * load)}
		}
		shares := distribute(appetites, bounds)
		mean := func(shares []float64) (sum float64) {
			for i, d := range demands {
				utilization := shares[i] * load * d / cores
				sum += shares[i] * d / min(1, cores) / (1 - math.Pow(utilization, max(1, cores)))
			}
			return sum
		}
		best := mean(shares)
		for i := range demands {
			for j := range demands {
				const move = 1e-4
				if i == j || shares[i] < 2*move {
					continue
				}
				moved := append([]float64(nil), shares...)
				moved[i] -= move
				moved[j] += move
				if got := mean(moved); got < best*(1-1e-9) {
					t.Errorf("%g cores: moving load from %d to %d lowers the mean from %g to %g", cores, i, j, best, got)
				}
			}
		}
	}
}
