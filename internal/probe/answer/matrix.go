package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/verdict"
)

// Matrix says what is unlike the rest between all agents.
func Matrix(m *probe.Matrix) Answer {
	a := Answer{Headline: unlike(m)}
	if m.Incomplete != "" {
		a.Rest = append(a.Rest, "Incomplete: "+full(m.Incomplete))
	}
	for _, o := range m.Outliers[min(1, len(m.Outliers)):] {
		a.Rest = append(a.Rest, full(o.Sentence))
	}
	for _, s := range m.Native {
		a.Rest = append(a.Rest, native(s, m.Native[0]))
	}
	a.Rest = slices.DeleteFunc(a.Rest, func(s string) bool { return s == "" })
	for _, note := range m.Notes {
		a.Rest = append(a.Rest, full(note))
	}
	a.Rest = append(a.Rest, unmeasured(m.Agents)...)
	return a
}

// mostUnmeasured bounds the agents of which is said why they could not be measured.
const mostUnmeasured = 5

func unmeasured(agents []probe.Agent) []string {
	var all []string
	for _, a := range agents {
		if a.Problem != "" {
			all = append(all, fmt.Sprintf("%s could not be measured: %s", a.Name, full(a.Problem)))
		}
	}
	if more := len(all) - mostUnmeasured; more > 0 {
		all = append(all[:mostUnmeasured], fmt.Sprintf("%s could not be measured either.", plural(more, "agent")))
	}
	return all
}

func unlike(m *probe.Matrix) string {
	if len(m.Outliers) > 0 {
		text := strings.TrimRight(m.Outliers[0].Sentence, ".")
		if more := len(m.Outliers) - 1; more > 0 {
			text += fmt.Sprintf("; %s below", plural(more, "other outlier"))
		}
		return text
	}
	for _, g := range Grids(m) {
		if g.Known > 0 {
			return fmt.Sprintf("No outlier was seen: %s between two of %s at the median, %s to %s over %s",
				g.Write(g.Median), plural(len(g.Agents), "agent"), g.Write(g.Low), g.Write(g.High), g.Path)
		}
	}
	return "Nothing was measured between " + plural(len(m.Agents), "agent")
}

func native(s, first probe.Share) string {
	var parts []string
	if s.Path == first.Path || s.Pairs == 0 {
		return ""
	}
	if measured(s.Bandwidth) {
		parts = append(parts, Percent(s.Bandwidth)+" of its bandwidth")
	}
	if measured(s.RTT) {
		parts = append(parts, report.Number(s.RTT)+" × its round trip")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("Against %s, %s has %s (median of %s).", first.Path, s.Path, strings.Join(parts, " and "), plural(s.Pairs, "pair"))
}

// capital begins a phrase as a sentence.
func capital(s string) string {
	if s == "" {
		return s
	}
	r := []rune(s)
	return strings.ToUpper(string(r[0])) + string(r[1:])
}

// Metrics of a grid.
const (
	Bandwidth = "bandwidth"
	RTT       = "latency"
)

// Grid is one metric on one path between all agents, who are in the order of [Order].
type Grid struct {
	Path   probe.Path
	Metric string
	// Agents and Blocks belong to both rows (sends) and columns (receives).
	Agents, Blocks []string
	// Values are as measured (bytes per second, or microseconds at the median); NaN where
	// nothing was. Problems say why, where something should have been.
	Values   [][]float64
	Problems [][]string
	// Median, Low and High are of the Known values.
	Median, Low, High float64
	Known             int
}

// Write writes a value of the grid.
func (g *Grid) Write(v float64) string {
	if g.Metric == RTT {
		return Duration(v)
	}
	return Rate(v)
}

// Share is how good a value is compared with the median: below 1 is worse, of latencies
// too. NaN if it is unknown.
func (g *Grid) Share(v float64) float64 {
	if !measured(v) || !measured(g.Median) {
		return math.NaN()
	}
	if g.Metric == RTT {
		return g.Median / v
	}
	return v / g.Median
}

// Grids are those of which anything was measured, path by path, bandwidth first.
func Grids(m *probe.Matrix) []Grid {
	order := Order(m)
	place := map[string]int{}
	for i, agent := range order {
		place[m.Agents[agent].Name] = i
	}
	var all []Grid
	for _, path := range matrixPaths(m) {
		for _, metric := range []string{Bandwidth, RTT} {
			g := Grid{Path: path, Metric: metric}
			for _, agent := range order {
				g.Agents = append(g.Agents, m.Agents[agent].Name)
				g.Blocks = append(g.Blocks, m.Agents[agent].Block)
			}
			if g.fill(m.Cells, place); g.Known > 0 || metric == Bandwidth {
				all = append(all, g)
			}
		}
	}
	return all
}

func matrixPaths(m *probe.Matrix) []probe.Path {
	has := map[probe.Path]bool{}
	var rest []probe.Path
	for _, c := range m.Cells {
		if !has[c.Path] && !slices.Contains(probe.Paths, c.Path) {
			rest = append(rest, c.Path)
		}
		has[c.Path] = true
	}
	var all []probe.Path
	for _, p := range probe.Paths {
		if has[p] {
			all = append(all, p)
		}
	}
	return append(all, rest...)
}

// cellValue is a cell's figure; NaN if it has none.
func cellValue(c *probe.Cell, metric string) float64 {
	v := c.BytesPerS
	if metric == RTT {
		if v = 0; c.RTT != nil && c.RTT.P50 != nil {
			v = *c.RTT.P50
		}
	}
	if !measured(v) {
		return math.NaN()
	}
	return v
}

func (g *Grid) fill(cells []probe.Cell, place map[string]int) {
	n := len(g.Agents)
	g.Values, g.Problems = make([][]float64, n), make([][]string, n)
	for i := range n {
		g.Values[i], g.Problems[i] = slices.Repeat([]float64{math.NaN()}, n), make([]string, n)
	}
	var known []float64
	for i := range cells {
		c := &cells[i]
		from, ok1 := place[c.From]
		to, ok2 := place[c.To]
		if c.Path != g.Path || !ok1 || !ok2 {
			continue
		}
		g.Problems[from][to] = c.Problem
		if v := cellValue(c, g.Metric); !math.IsNaN(v) {
			g.Values[from][to] = v
			known = append(known, v)
		}
	}
	g.Known, g.Median = len(known), verdict.Median(known)
	if len(known) > 0 {
		g.Low, g.High = slices.Min(known), slices.Max(known)
	}
}

// Order is the agents' places in rows and columns: those of a block together, and first
// the block, and within it the agent, whose pairs give least at the median. So outliers
// are in the corner. Who was not measured comes last in its block.
func Order(m *probe.Matrix) []int {
	ofAgent, ofBlock := map[string][]float64{}, map[string][]float64{}
	blocks := map[string]string{}
	for _, a := range m.Agents {
		blocks[a.Name] = a.Block
	}
	paths := matrixPaths(m)
	for i := range m.Cells {
		c := &m.Cells[i]
		v := cellValue(c, Bandwidth)
		if c.Path != paths[0] || math.IsNaN(v) {
			continue
		}
		for _, name := range []string{c.From, c.To} {
			ofAgent[name] = append(ofAgent[name], v)
			ofBlock[blocks[name]] = append(ofBlock[blocks[name]], v)
		}
	}
	last := func(values []float64) float64 {
		if v := verdict.Median(values); !math.IsNaN(v) {
			return v
		}
		return math.Inf(1)
	}
	agents, of := map[string]float64{}, map[string]float64{}
	for _, a := range m.Agents {
		agents[a.Name], of[a.Block] = last(ofAgent[a.Name]), last(ofBlock[a.Block])
	}
	order := make([]int, len(m.Agents))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &m.Agents[i], &m.Agents[j]
		return cmp.Or(cmp.Compare(of[a.Block], of[b.Block]), cmp.Compare(a.Block, b.Block),
			cmp.Compare(agents[a.Name], agents[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	return order
}
