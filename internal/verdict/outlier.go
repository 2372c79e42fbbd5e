package verdict

import (
	"math"
	"slices"
)

// Kind is what is unlike the rest of a matrix.
type Kind string

// The kinds: what an agent sends, what it receives, what one sends to another, and the same
// of all agents that share a block.
const (
	Sends    Kind = "sends"
	Receives Kind = "receives"
	OnePair  Kind = "pair"
	Block    Kind = "block"
)

// Outlier is what is unlike the rest.
type Outlier struct {
	Kind Kind
	// From and To are agents: From is -1 unless the kind is Sends or OnePair, To unless it
	// is Receives or OnePair.
	From, To int
	// FromBlock and ToBlock are set for a Block: what the one sends, what the other
	// receives, or, with both, what goes from the one to the other.
	FromBlock, ToBlock string
	// Share is its figure over what it would be if it were like the rest.
	Share float64
}

const (
	// leastShare is how much a figure must be off: to 80 % or less, or to 125 % or more.
	leastShare = 0.8
	// fewestCells is of how many cells an effect is the median at least: of two, either may
	// be the odd one.
	fewestCells = 3
	// heavier is by how much thresholds for normal noise are raised, since noise has heavier
	// tails, and since scales come from few figures.
	heavier = 1.4
)

// Outliers finds what is unlike the rest of a matrix, of which many cells may be missing:
// blocks, then rows (sends) and columns (receives), then single pairs, each kind with the
// most unlike first. blocks are the labels of agents, such as zones: "" for an agent
// without one, nil for none at all.
//
// The logarithms are taken apart by median polish. An effect is told if it is at least 20 %,
// if most of what it sums up goes the same way, and if it is beyond what chance gives once
// in 20 healthy matrices (Bonferroni, and two fifths as much again), by a robust scale: the
// median absolute deviation of effects of its kind, and that of cells.
//
// A single pair is told only if it was measured more than once, and each of its trials was
// odd: of 40,000 trials, some fail by half without meaning. again are pairs that one trial
// alone makes look odd: measure them once more, and ask again with both cells.
func Outliers(agents int, blocks []string, cells []Cell) (found []Outlier, again []Pair) {
	if len(blocks) != agents {
		blocks = nil
	}
	if agents < 1 {
		return nil, nil
	}
	p := polish(agents, blocks, cells)
	if len(p.cells) == 0 {
		return nil, nil
	}
	j := newJury(p, blocks)
	found = append(j.blocks(Sends, p.sends, p.row), j.blocks(Receives, p.receives, p.column)...)
	found = append(found, j.blockPairs(found)...)
	found = append(found, j.lines(Sends, p.sends, p.row)...)
	found = append(found, j.lines(Receives, p.receives, p.column)...)
	pairs, again := j.pairs(found)
	return inOrder(append(found, pairs...)), again
}

// inOrder puts what explains most first.
func inOrder(found []Outlier) []Outlier {
	kinds := []Kind{Block, Sends, Receives, OnePair}
	slices.SortStableFunc(found, func(a, b Outlier) int {
		if a.Kind != b.Kind {
			return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
		}
		far := func(o Outlier) float64 { return math.Abs(math.Log(o.Share)) }
		switch {
		case far(a) > far(b):
			return -1
		case far(a) < far(b):
			return 1
		}
		return 0
	})
	return found
}

// jury knows what is usual in a polished matrix.
type jury struct {
	polished
	labels []string
	// members are the agents of each block, names the blocks in order.
	members map[string][]int
	names   []string
	// threshold is how many scales an effect must be away.
	threshold float64
	// noise is the scale of single cells.
	noise float64
}

func newJury(p polished, labels []string) *jury {
	j := &jury{polished: p, labels: labels, members: map[string][]int{}}
	for i, l := range labels {
		if l == "" {
			continue
		}
		if len(j.members[l]) == 0 {
			j.names = append(j.names, l)
		}
		j.members[l] = append(j.members[l], i)
	}
	agents, blocks := len(p.sends), len(j.names)
	tests := float64(2*agents + 2*blocks + blocks*blocks + len(p.cells))
	j.threshold = heavier * normalQuantile(1-0.05/(2*tests))
	// Effects took up some of the noise, as many cells' as there are effects.
	free := max(1, len(p.cells)-2*agents+1)
	j.noise = tailScale(p.residual) * math.Sqrt(float64(len(p.cells))/float64(free))
	return j
}

// tailScale is the standard deviation that normal figures around 0 would have whose middle
// half is as wide, or whose outermost twentieth is as far out, whichever is more: where
// trials often fail by half, one that did is nothing to tell.
func tailScale(values []float64) float64 {
	from := make([]float64, len(values))
	for i, v := range values {
		from[i] = math.Abs(v)
	}
	slices.Sort(from)
	outer := from[int(math.Ceil(0.95*float64(len(from))))-1]
	return max(sigma*sortedMedian(from), outer/normalQuantile(0.975))
}

// unlike tells whether an effect is one to tell, given its scale.
func (j *jury) unlike(effect, scale float64) bool {
	return math.Abs(effect) >= -math.Log(leastShare) && math.Abs(effect) > j.threshold*scale
}

// ofMedian is the scale of the median of so many figures: √(π/2n) of that of one.
func ofMedian(scale float64, n int) float64 {
	return scale * math.Sqrt(math.Pi/2/float64(n))
}

// blocks finds blocks whose agents are nearly all unlike the agents of others, and takes
// that out of the agents' effects.
func (j *jury) blocks(kind Kind, effects []float64, lines [][]int) []Outlier {
	var found []Outlier
	// Most agents are in other blocks, so all of them stand for the others.
	centre := Median(effects)
	scale := deviation(effects, centre)
	for _, name := range j.names {
		members := j.members[name]
		// Of two halves, nobody can say which one is odd.
		if len(members) < 2 || 2*len(members) >= len(effects) {
			continue
		}
		in := make([]float64, len(members))
		cells := 0
		for i, agent := range members {
			in[i] = effects[agent] - centre
			cells += len(lines[agent])
		}
		effect := Median(in)
		scale := max(scale, ofMedian(j.noise, max(1, cells/len(in))))
		if !j.unlike(effect, ofMedian(scale, len(in))) || !most(in, effect) {
			continue
		}
		o := Outlier{Kind: Block, From: -1, To: -1, Share: math.Exp(effect)}
		if kind == Sends {
			o.FromBlock = name
		} else {
			o.ToBlock = name
		}
		found = append(found, o)
		for _, i := range members {
			effects[i] -= effect
		}
	}
	return found
}

// most tells whether at least three quarters of the members go the same way as their
// median, by at least half of it: else it is not the block, or the line, that is odd.
func most(members []float64, median float64) bool {
	same := 0
	for _, m := range members {
		if m/median >= 0.5 {
			same++
		}
	}
	return 4*same >= 3*len(members)
}

// blockPairs finds ordered pairs of blocks, unless one of them was found already, and takes
// that out of the residuals.
func (j *jury) blockPairs(already []Outlier) []Outlier {
	if len(j.names) < 2 {
		return nil
	}
	between := map[[2]string][]int{}
	for i, c := range j.cells {
		k := [2]string{j.labels[c.From], j.labels[c.To]}
		between[k] = append(between[k], i)
	}
	known := func(from, to string) bool {
		return slices.ContainsFunc(already, func(o Outlier) bool {
			return o.FromBlock == from || o.FromBlock == to || o.ToBlock == from || o.ToBlock == to
		})
	}
	var found []Outlier
	for i, c := range j.cells {
		from, to := j.labels[c.From], j.labels[c.To]
		cells := between[[2]string{from, to}]
		if cells[0] != i || len(cells) < fewestCells || from == "" || to == "" || known(from, to) {
			continue // each pair of blocks once, at its first cell
		}
		effect := j.medianOf(cells)
		if !j.unlike(effect, ofMedian(j.noise, len(cells))) {
			continue
		}
		// Rows and columns have taken up a part of it, so its size is that of plain cells.
		found = append(found, Outlier{
			Kind: Block, From: -1, To: -1, FromBlock: from, ToBlock: to,
			Share: math.Exp(medianAt(j.plain, cells)),
		})
		j.shift(cells, effect)
	}
	return found
}

// lines finds rows or columns. Their scale is that of their like, but at least what the
// noise of their cells makes of it: of a few, all may be alike by luck.
func (j *jury) lines(kind Kind, effects []float64, lines [][]int) []Outlier {
	scale := deviation(effects, Median(effects))
	var found []Outlier
	for i, effect := range effects {
		n := len(lines[i])
		if n < fewestCells || !j.unlike(effect, max(scale, ofMedian(j.noise, n))) || !most(j.unadjusted(lines[i], effect), effect) {
			continue
		}
		o := Outlier{Kind: kind, From: i, To: -1, Share: math.Exp(effect)}
		if kind == Receives {
			o.From, o.To = -1, i
		}
		found = append(found, o)
	}
	return found
}

// unadjusted are the residuals of a line with its effect put back.
func (j *jury) unadjusted(cells []int, effect float64) []float64 {
	values := make([]float64, len(cells))
	for i, c := range cells {
		values[i] = j.residual[c] + effect
	}
	return values
}

// pairs finds single cells, but not of agents that were found to be odd themselves.
func (j *jury) pairs(already []Outlier) (found []Outlier, again []Pair) {
	odd := map[Pair]bool{}
	for _, o := range already {
		odd[Pair{o.From, o.To}] = true
	}
	for i, c := range j.cells {
		switch {
		case min(len(j.row[c.From]), len(j.column[c.To])) < fewestCells,
			odd[Pair{c.From, -1}], odd[Pair{-1, c.To}], !j.unlike(j.leastOdd(i), j.noise):
		case len(j.values[i]) == 1:
			again = append(again, Pair{c.From, c.To})
		default:
			found = append(found, Outlier{Kind: OnePair, From: c.From, To: c.To, Share: math.Exp(j.residual[i])})
		}
	}
	return found, again
}

// leastOdd is by how much that value of a cell is odd which is the least so: beside others
// of its row and column, and beside all others as well, since of a few cells in a row the
// others may be the odd ones. It is 0 if they are not all odd in the same way.
func (j *jury) leastOdd(cell int) float64 {
	low, high := slices.Min(j.values[cell]), slices.Max(j.values[cell])
	least := min(j.residual[cell], j.plain[cell]) + low
	most := max(j.residual[cell], j.plain[cell]) + high
	return max(least, 0) + min(most, 0)
}
