package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// planned is the cells of a matrix, measured in both directions of a plan.
func planned(t *testing.T, agents int, seed uint64, value func(from, to int) float64) []Cell {
	t.Helper()
	plan, err := Plan(agents, seed)
	if err != nil {
		t.Fatal(err)
	}
	var cells []Cell
	for _, p := range slices.Concat(plan...) {
		cells = append(cells, Cell{p.From, p.To, value(p.From, p.To)}, Cell{p.To, p.From, value(p.To, p.From)})
	}
	return cells
}

// outliers asks a second time for what one trial makes look odd, as callers do.
func outliers(agents int, blocks []string, cells []Cell, value func(from, to int) float64) []Outlier {
	found, again := Outliers(agents, blocks, cells)
	if len(again) == 0 {
		return found
	}
	for _, p := range again {
		cells = append(cells, Cell{p.From, p.To, value(p.From, p.To)})
	}
	found, _ = Outliers(agents, blocks, cells)
	return found
}

// zones are three labels in turn.
func zones(agents int) []string {
	z := make([]string, agents)
	for i := range z {
		z[i] = string(rune('a' + i%3))
	}
	return z
}

// matrixNoises are of single cells.
var matrixNoises = []noise{
	noises[0], noises[2], noises[3], noises[5],
	{name: "quiet", begin: around(func(r *rand.Rand) float64 { return math.Exp(0.01 * r.NormFloat64()) })},
	{name: "wide", begin: around(func(r *rand.Rand) float64 { return math.Exp(0.2 * r.NormFloat64()) })},
	{name: "t3", begin: around(func(r *rand.Rand) float64 {
		square := 0.0
		for range 3 {
			x := r.NormFloat64()
			square += x * x
		}
		return math.Exp(0.1 * r.NormFloat64() / math.Sqrt(square/3))
	})},
}

// matrixRuns is how many matrices of so many agents are simulated.
func matrixRuns(agents int) int { return max(6, *simulated*10/(10+agents)) }

func TestHealthyMatrix(t *testing.T) {
	t.Parallel()
	for _, n := range matrixNoises {
		for _, agents := range []int{3, 4, 5, 8, 10, 11, 20, 50, 200} {
			t.Run(fmt.Sprint(n.name, " ", agents), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(7, uint64(agents)))
				runs, told := matrixRuns(agents), map[Kind]int{}
				some := 0
				for i := range runs {
					next := n.begin(r)
					value := func(from, to int) float64 {
						if from%3 == to%3 {
							return 5 * next() // within a zone
						}
						return next()
					}
					found := outliers(agents, zones(agents), planned(t, agents, uint64(i), value), value)
					for _, o := range found {
						told[o.Kind]++
					}
					some += min(1, len(found))
				}
				share := float64(some) / float64(runs)
				t.Logf("in %.1f %% of %d matrices: %v", 100*share, runs, told)
				if share > 0.05+by(0.05, runs) {
					t.Errorf("outliers in %.1f %% of healthy matrices: %v", 100*share, told)
				}
			})
		}
	}
}

func TestOutliersAreFound(t *testing.T) {
	t.Parallel()
	type world struct {
		name   string
		agents []int
		slow   func(from, to int) float64 // factor of a cell
		want   []Outlier                  // with shares to be met within 15 %
	}
	receives := Outlier{Kind: Receives, From: -1, To: 2, Share: 0.4}
	for _, w := range []world{
		{"one receives badly", []int{4, 5, 8, 11, 20, 200}, func(_, to int) float64 {
			if to == 2 {
				return 0.4
			}
			return 1
		}, []Outlier{receives}},
		{"one sends badly", []int{4, 5, 8, 11, 20, 200}, func(from, _ int) float64 {
			if from == 1 {
				return 0.4
			}
			return 1
		}, []Outlier{{Kind: Sends, From: 1, To: -1, Share: 0.4}}},
		{"one is better than the rest", []int{5, 200}, func(_, to int) float64 {
			if to == 2 {
				return 2.5
			}
			return 1
		}, []Outlier{{Kind: Receives, From: -1, To: 2, Share: 2.5}}},
		{"zone a sends badly", []int{20, 200}, func(from, _ int) float64 {
			if from%3 == 0 {
				return 0.5
			}
			return 1
		}, []Outlier{{Kind: Block, From: -1, To: -1, FromBlock: "a", Share: 0.5}}},
		{"from zone a to zone b, and one in zone c receives badly", []int{200}, func(from, to int) float64 {
			switch {
			case from%3 == 0 && to%3 == 1:
				return 0.5
			case to == 2:
				return 0.4
			}
			return 1
		}, []Outlier{{Kind: Block, From: -1, To: -1, FromBlock: "a", ToBlock: "b", Share: 0.5}, receives}},
		{"further between zones", []int{5, 20, 200}, func(from, to int) float64 {
			if from%3 != to%3 {
				return 0.2
			}
			return 1
		}, nil},
	} {
		for _, agents := range w.agents {
			t.Run(fmt.Sprint(w.name, " ", agents), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(9, uint64(agents)))
				for i := range max(3, 200/agents) {
					value := func(from, to int) float64 {
						return 1e9 * w.slow(from, to) * math.Exp(0.05*r.NormFloat64())
					}
					checkFound(t, outliers(agents, zones(agents), planned(t, agents, uint64(i), value), value), w.want)
				}
			})
		}
	}
}

func checkFound(t *testing.T, found, want []Outlier) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("found %+v, want %+v", found, want)
	}
	for i, o := range found {
		if math.Abs(math.Log(o.Share/want[i].Share)) > 0.15 {
			t.Errorf("share %.2f, want %.2f", o.Share, want[i].Share)
		}
		if o.Share = want[i].Share; o != want[i] {
			t.Errorf("found %+v, want %+v", o, want[i])
		}
	}
}

// One pair is odd: it is measured again before it is told.
func TestOnePairIsMeasuredAgain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	value := func(from, to int) float64 {
		if from == 3 && to == 1 {
			return 0.3 * math.Exp(0.03*r.NormFloat64())
		}
		return math.Exp(0.03 * r.NormFloat64())
	}
	var cells []Cell
	for from := range 8 {
		for to := range 8 {
			cells = append(cells, Cell{from, to, value(from, to)})
		}
	}
	found, again := Outliers(8, nil, cells)
	if len(found) > 0 || !slices.Equal(again, []Pair{{3, 1}}) {
		t.Fatalf("after one trial: found %v, again %v", found, again)
	}
	found, again = Outliers(8, nil, append(slices.Clone(cells), Cell{3, 1, value(3, 1)}))
	checkFound(t, found, []Outlier{{Kind: OnePair, From: 3, To: 1, Share: 0.3}})
	if len(again) > 0 {
		t.Errorf("again %v", again)
	}
	if found, again = Outliers(8, nil, append(cells, Cell{3, 1, 1})); len(found)+len(again) > 0 {
		t.Errorf("it was chance: found %v, again %v", found, again)
	}
}

func TestOddMatrices(t *testing.T) {
	t.Parallel()
	var full []Cell
	for from := range 6 {
		for to := range 6 {
			v := 1.0
			if to == 2 {
				v = 0.4
			}
			full = append(full, Cell{from, to, v})
		}
	}
	receives := []Outlier{{Kind: Receives, From: -1, To: 2, Share: 0.4}}
	for _, c := range []struct {
		name   string
		agents int
		blocks []string
		cells  []Cell
		want   []Outlier
	}{
		{"none", 0, nil, nil, nil},
		{"fewer than none", -1, nil, full, nil},
		{"no cells", 5, nil, nil, nil},
		{"nothing usable", 5, nil, []Cell{{0, 1, math.NaN()}, {1, 2, 0}, {2, 3, -1}, {3, 4, math.Inf(1)}}, nil},
		{"not of this matrix", 2, nil, []Cell{{-1, 0, 1}, {0, 7, 1}, {1, 1, 1}}, nil},
		{"two", 2, nil, []Cell{{0, 1, 1}, {1, 0, 100}}, nil},
		{"all alike but one", 6, nil, full, receives},
		{"one agent without any cell", 7, nil, full, receives},
		{"labels for others", 6, []string{"a"}, full, receives},
		{"all in one block", 6, []string{"a", "a", "a", "a", "a", "a"}, full, receives},
		{"no labels", 6, make([]string, 6), full, receives},
		{"some labels", 6, []string{"a", "", "a", "", "a", ""}, full, receives},
		{"every third missing", 6, nil, everyThirdMissing(full), receives},
		{"tiny and huge", 6, nil, scaled(full, 1e-300), receives},
		{"huge", 6, nil, scaled(full, 1e300), receives},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, _ := Outliers(c.agents, c.blocks, c.cells)
			checkFound(t, found, c.want)
		})
	}
}

func everyThirdMissing(cells []Cell) []Cell {
	var some []Cell
	for i, c := range cells {
		if (c.From+2*c.To)%5 != 0 || i%2 == 0 {
			some = append(some, c)
		}
	}
	return some
}

func scaled(cells []Cell, by float64) []Cell {
	s := slices.Clone(cells)
	for i := range s {
		s[i].Value *= by
	}
	return s
}
