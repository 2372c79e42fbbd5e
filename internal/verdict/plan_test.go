package verdict

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"testing"
)

// sizes are the numbers of agents for which plans are checked.
var sizes = []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 64, 199, 200, 201, 1000, 10_000}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			plan, err := Plan(n, 7)
			if err != nil {
				t.Fatal(err)
			}
			want := min(9, bits.Len(uint(n-1)))
			if n <= 10 {
				want = n - 1 + n%2
			}
			if len(plan) != want {
				t.Errorf("%d rounds, want %d", len(plan), want)
			}
			checkRounds(t, plan, n)
			if again, _ := Plan(n, 7); !reflect.DeepEqual(plan, again) {
				t.Error("the same seed gave another plan")
			}
			if other, _ := Plan(n, 8); n > 3 && reflect.DeepEqual(plan, other) {
				t.Error("another seed gave the same plan")
			}
		})
	}
}

// checkRounds checks that pairs are disjoint within rounds and distinct in all, that nobody
// sits out without need, and that sending and receiving are even.
func checkRounds(t *testing.T, plan []Round, n int) {
	t.Helper()
	met := map[Pair]bool{}
	sent, received := make([]int, n), make([]int, n)
	for i, round := range plan {
		if len(round) != n/2 {
			t.Errorf("round %d has %d pairs, want %d", i, len(round), n/2)
		}
		busy := make([]bool, n)
		for _, p := range round {
			if busy[p.From] || busy[p.To] || p.From == p.To {
				t.Fatalf("in round %d, an agent of %v is in two pairs", i, p)
			}
			busy[p.From], busy[p.To] = true, true
			sent[p.From]++
			received[p.To]++
			if p.From > p.To {
				p.From, p.To = p.To, p.From
			}
			if met[p] {
				t.Fatalf("%v meet twice", p)
			}
			met[p] = true
		}
	}
	if n <= 10 && len(met) != n*(n-1)/2 {
		t.Errorf("%d pairs, want all %d", len(met), n*(n-1)/2)
	}
	for i := range n {
		if d := sent[i] - received[i]; d < -2 || d > 2 {
			t.Errorf("agent %d sends %d times and receives %d times", i, sent[i], received[i])
		}
		if len(plan) > 2 && (sent[i] == 0 || received[i] == 0) {
			t.Errorf("agent %d sends %d times and receives %d times", i, sent[i], received[i])
		}
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	for _, n := range sizes {
		for _, perAgent := range []int{1, 4, 1_000_000} {
			if n > 1000 && perAgent > 4 {
				continue // all pairs of that many: 50 million
			}
			pairs, err := Sample(n, perAgent, 7)
			if err != nil {
				t.Fatal(err)
			}
			met := map[Pair]bool{}
			asks, asked := make([]int, n), make([]int, n)
			for _, p := range pairs {
				asks[p.From]++
				asked[p.To]++
				if p.From > p.To {
					p.From, p.To = p.To, p.From
				}
				if met[p] || p.From == p.To {
					t.Fatalf("%d agents, %d each: %v twice, or with itself", n, perAgent, p)
				}
				met[p] = true
			}
			if want := n * (n - 1) / 2; perAgent >= n && len(met) != want {
				t.Errorf("%d agents: %d pairs, want all %d", n, len(met), want)
			}
			for i := range n {
				if most := min(perAgent, n/2); asks[i] > most || asks[i] < most-1 || asked[i] < most-1 {
					t.Fatalf("%d agents, %d each: agent %d asks %d and is asked by %d", n, perAgent, i, asks[i], asked[i])
				}
			}
		}
	}
}

func TestImpossiblePlans(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1, 10_001} {
		if _, err := Plan(n, 1); err == nil {
			t.Errorf("a plan for %d agents", n)
		}
		if _, err := Sample(n, 1, 1); err == nil {
			t.Errorf("a sample of %d agents", n)
		}
	}
	if _, err := Sample(10, 0, 1); err == nil {
		t.Error("a sample without pairs")
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	names := []string{"a", "a", "b"}
	first := map[string]int{}
	for round := range 3000 {
		order := Order(round, names, 42)
		first[order[0]]++
		if !slices.Equal(order, Order(round, names, 42)) {
			t.Fatalf("round %d has two orders", round)
		}
		if slices.Sort(order); !slices.Equal(order, names) {
			t.Fatalf("round %d measures %v", round, order)
		}
	}
	// A third of 3,000; 5 σ are 129.
	if first["b"] < 871 || first["b"] > 1129 {
		t.Errorf("of 3000 rounds %d begin with b", first["b"])
	}
	if !slices.Equal(names, []string{"a", "a", "b"}) {
		t.Error("the list was changed")
	}
}
