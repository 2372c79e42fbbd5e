package page

import (
	"io"
	"math"
	"slices"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/verdict"
)

// Matrix writes the page about all pairs of agents. The error is the writer's.
func Matrix(w io.Writer, m *probe.Matrix) error {
	page := pageOf("matrix.html")
	page.Script, page.Chartless = "matrix.js", true
	a, grids := answer.Matrix(m), answer.Grids(m)
	return page.Write(w, a.Headline, matrixContent{m, a, grids}, matrixData(m, grids))
}

// matrixContent is what matrix.html is filled with.
type matrixContent struct {
	*probe.Matrix
	Answer answer.Answer
	Grids  []answer.Grid
}

// Rest is what is said below the headline; outliers have a list of their own.
func (c matrixContent) Rest() []string {
	listed := map[string]bool{}
	for _, o := range c.Outliers {
		listed[strings.TrimRight(o.Sentence, ".")] = true
	}
	return slices.DeleteFunc(slices.Clone(c.Answer.Rest), func(s string) bool { return listed[strings.TrimRight(s, ".")] })
}

// summaryRow is one path and metric.
type summaryRow struct{ Path, Metric, Median, Low, High, Pairs string }

// Summary is a row for each map.
func (c matrixContent) Summary() []summaryRow {
	var rows []summaryRow
	for i := range c.Grids {
		g := &c.Grids[i]
		rows = append(rows, summaryRow{string(g.Path), g.Metric, g.Write(g.Median), g.Write(g.Low), g.Write(g.High), report.Count(uint64(g.Known))})
	}
	return rows
}

// agentRow is what an agent sends and receives, at the median, on each map.
type agentRow struct {
	Name, Block, Price, PerGbit, Problem string
	Figures                              []agentFigure
}

// agentFigure is what it sends and receives. Odd is set for what is low.
type agentFigure struct {
	Sends, Receives       string
	OddSends, OddReceives bool
}

// odd is from where on an agent's median stands out.
const odd = .8

// Rows are the agents in the order of the map.
func (c matrixContent) Rows() []agentRow {
	order := answer.Order(c.Matrix)
	var rows []agentRow
	for place, i := range order {
		a := &c.Agents[i]
		row := agentRow{Name: a.Name, Block: a.Block, Problem: a.Problem}
		if a.PricePerHour > 0 {
			row.Price = answer.Price(a.PricePerHour)
		}
		if a.PricePerGbit > 0 {
			row.PerGbit = answer.Price(a.PricePerGbit)
		}
		for k := range c.Grids {
			row.Figures = append(row.Figures, figureOf(&c.Grids[k], place))
		}
		rows = append(rows, row)
	}
	return rows
}

func figureOf(g *answer.Grid, place int) agentFigure {
	var sends, receives []float64
	for other := range g.Agents {
		for _, side := range []struct {
			v    float64
			into *[]float64
		}{{g.Values[place][other], &sends}, {g.Values[other][place], &receives}} {
			if !math.IsNaN(side.v) {
				*side.into = append(*side.into, side.v)
			}
		}
	}
	s, r := verdict.Median(sends), verdict.Median(receives)
	return agentFigure{g.Write(s), g.Write(r), g.Share(s) < odd, g.Share(r) < odd}
}

// HasPrices tells whether any agent has a price, HasBlocks whether any has a block.
func (c matrixContent) HasPrices() bool {
	for _, a := range c.Agents {
		if a.PricePerHour > 0 {
			return true
		}
	}
	return false
}
func (c matrixContent) HasBlocks() bool {
	for _, a := range c.Agents {
		if a.Block != "" {
			return true
		}
	}
	return false
}

// heatData is what matrix.js draws, in the page as JSON.
type heatData struct {
	Agents   []string        `json:"agents"`
	Blocks   []string        `json:"blocks"`
	Grids    []heatGrid      `json:"grids"`
	Outliers []probe.Outlier `json:"outliers"`
}

// heatGrid is a map, row by row: who sends, then who receives. A value that is unknown is
// null.
type heatGrid struct {
	Path     string     `json:"path"`
	Metric   string     `json:"metric"`
	Median   float64    `json:"median"`
	Values   []*float64 `json:"values"`
	Problems []problem  `json:"problems"`
}

// problem is why the pair at a place of the map has no figure.
type problem struct {
	At  int    `json:"at"`
	Why string `json:"why"`
}

func matrixData(m *probe.Matrix, grids []answer.Grid) heatData {
	d := heatData{Outliers: m.Outliers}
	for i := range grids {
		g := &grids[i]
		d.Agents, d.Blocks = g.Agents, g.Blocks
		h := heatGrid{Path: string(g.Path), Metric: g.Metric}
		if g.Known > 0 {
			h.Median = g.Median
		}
		for from := range g.Agents {
			for to := range g.Agents {
				if why := g.Problems[from][to]; why != "" {
					h.Problems = append(h.Problems, problem{len(h.Values), why})
				}
				h.Values = append(h.Values, shortest(g.Values[from][to]))
			}
		}
		d.Grids = append(d.Grids, h)
	}
	return d
}

// shortest is a value with four digits: more would only make the page larger. NaN is nil.
func shortest(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	power := math.Pow(10, 3-math.Floor(math.Log10(v)))
	if rounded := math.Round(v*power) / power; rounded > 0 && !math.IsInf(rounded, 0) {
		v = rounded
	}
	return &v
}
