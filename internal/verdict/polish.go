package verdict

import (
	"maps"
	"math"
	"slices"
)

// Cell is what one agent gave another: From sends and To receives, places in the list of
// agents. A cell without a usable value is as good as missing.
type Cell struct {
	From, To int
	Value    float64
}

// polished is a matrix taken apart: log(value) = class + sends[from] + receives[to] +
// residual, where the class is whether the agents share a block.
type polished struct {
	cells    []Cell // usable ones, one for each pair: the median of its values
	residual []float64
	// values are the logarithms of all values of a cell, less that of their median.
	values [][]float64
	// plain is the logarithm of each cell with nothing but its class taken out.
	plain           []float64
	sends, receives []float64
	// row and column are the places in cells of those that an agent sends or receives.
	row, column [][]int
}

const (
	// sweeps is after how many rounds of medians polishing ends at the latest; it is after
	// three or four that nothing changes any more.
	sweeps = 20
	// settled is a change, of a logarithm, that does not matter.
	settled = 1e-6
)

// polish is Tukey's median polish (Exploratory Data Analysis, 1977, chapter 11) of the
// logarithms, over the cells that there are: medians of rows, then of columns, are taken
// out until they are 0. Medians leave outliers where they are, in the residuals.
func polish(agents int, blocks []string, cells []Cell) polished {
	p := polished{
		sends: make([]float64, agents), receives: make([]float64, agents),
		row: make([][]int, agents), column: make([][]int, agents),
	}
	p.take(cells, agents)
	p.takeOutClasses(blocks)
	p.plain = slices.Clone(p.residual)
	for range sweeps {
		moved := max(p.sweep(p.row, p.sends), p.sweep(p.column, p.receives))
		if moved < settled {
			break
		}
	}
	centred(p.sends)
	centred(p.receives)
	return p
}

// centred moves effects so that their median is 0: they say what is unlike the rest.
func centred(effects []float64) {
	m := Median(effects)
	for i := range effects {
		effects[i] -= m
	}
}

// take keeps usable cells between known agents; of several for one pair, their median.
func (p *polished) take(cells []Cell, agents int) {
	pairs := map[Pair][]float64{}
	for _, c := range cells {
		if usable(c.Value) && min(c.From, c.To) >= 0 && max(c.From, c.To) < agents && c.From != c.To {
			pairs[Pair{c.From, c.To}] = append(pairs[Pair{c.From, c.To}], c.Value)
		}
	}
	order := slices.SortedFunc(maps.Keys(pairs), func(a, b Pair) int {
		if a.From != b.From {
			return a.From - b.From
		}
		return a.To - b.To
	})
	for i, pair := range order {
		logs := logarithms(pairs[pair])
		centre := Median(logs)
		for k := range logs {
			logs[k] -= centre
		}
		p.cells = append(p.cells, Cell{pair.From, pair.To, math.Exp(centre)})
		p.residual = append(p.residual, centre)
		p.values = append(p.values, logs)
		p.row[pair.From] = append(p.row[pair.From], i)
		p.column[pair.To] = append(p.column[pair.To], i)
	}
}

// takeOutClasses makes pairs within a block, and pairs between blocks, comparable: that it
// is further to another zone is nobody's fault.
func (p *polished) takeOutClasses(blocks []string) {
	var classes [2][]int
	for i, c := range p.cells {
		class := 0
		if len(blocks) > max(c.From, c.To) && blocks[c.From] != blocks[c.To] {
			class = 1
		}
		classes[class] = append(classes[class], i)
	}
	for _, class := range classes {
		p.shift(class, p.medianOf(class))
	}
}

func (p *polished) medianOf(cells []int) float64 { return medianAt(p.residual, cells) }

func medianAt(values []float64, places []int) float64 {
	some := make([]float64, len(places))
	for i, place := range places {
		some[i] = values[place]
	}
	return Median(some)
}

func (p *polished) shift(cells []int, by float64) {
	for _, c := range cells {
		p.residual[c] -= by
	}
}

// sweep moves medians from residuals to effects, and says how far the furthest moved.
func (p *polished) sweep(lines [][]int, effects []float64) float64 {
	furthest := 0.0
	for i, cells := range lines {
		if len(cells) == 0 {
			continue
		}
		m := p.medianOf(cells)
		effects[i] += m
		p.shift(cells, m)
		furthest = max(furthest, math.Abs(m))
	}
	return furthest
}
