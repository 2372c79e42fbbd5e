package text

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

const (
	// mostName is how much of an agent's name is shown in front of its row.
	mostName = 24
	// wideCell fits a share in percent, with a space in front.
	wideCell = 4
	// mostRows bounds a map's lines.
	mostRows = 64
	// mostSentences bounds what stands above the maps.
	mostSentences = 12
)

// Matrix writes what was found between all agents. The error is the writer's.
func Matrix(w io.Writer, m *probe.Matrix, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	a := answer.Matrix(m)
	hidden := len(a.Rest) - mostSentences
	a.Rest = a.Rest[:min(len(a.Rest), mostSentences)]
	out.answer(a)
	if hidden > 0 {
		out.notes("… and " + report.Count(uint64(hidden)) + " sentences more in the report and the JSON.")
	}
	grids := answer.Grids(m)
	out.overview(grids)
	for i := range grids {
		g := &grids[i]
		// Of a sample of pairs a map would be empty for the most part.
		if n := len(g.Agents); g.Known > 0 && (g.Metric == answer.Bandwidth || 2*g.Known >= n*(n-1)) {
			out.heat(g)
		}
	}
	out.prices(m)
	return out.Flush()
}

// overview is one row for each path and metric.
func (p *printer) overview(grids []answer.Grid) {
	if len(grids) == 0 {
		return
	}
	columns := []terminal.Column{{}, {}, {Title: "median", Right: true}, {Title: "lowest", Right: true}, {Title: "highest", Right: true}, {Title: "pairs", Right: true}}
	var rows [][]terminal.Text
	for i := range grids {
		g := &grids[i]
		rows = append(rows, terminal.Row(string(g.Path), g.Metric, g.Write(g.Median), g.Write(g.Low), g.Write(g.High), report.Count(uint64(g.Known))))
	}
	p.Line()
	p.Table(columns, rows)
}

// cell is what a map shows at one place.
type cell struct {
	share   float64 // NaN if unknown
	self    bool
	problem bool
}

// heatMap is a grid as it fits: its places are agents, or groups of them.
type heatMap struct {
	names []string
	cells [][]cell
	about string
}

// heat draws a map: who sends in rows, who receives in columns.
func (p *printer) heat(g *answer.Grid) {
	room := 0
	if p.Width > 0 {
		room = max(8, p.Width-mostName-1)
	}
	m := mapOf(g, room)
	name := 0
	for _, n := range m.names {
		name = max(name, min(utf8.RuneCountInString(terminal.Plain(n)), mostName))
	}
	wide := room == 0 || (len(m.names)+1)*wideCell <= room // rows are numbered, too
	const corner = "sends ↓ receives →"
	if wide {
		name = max(name, utf8.RuneCountInString(corner))
	}
	what := "Share of the median"
	if g.Metric == answer.RTT {
		what = "The median over the"
	}
	p.title(fmt.Sprintf("%s %s over %s (median %s)", what, g.Metric, g.Path, g.Write(g.Median)))
	if wide {
		p.Line(terminal.Faint.Text(terminal.Fit(corner, name)), p.header(len(m.names)))
	}
	for i, row := range m.cells {
		line := []terminal.Text{terminal.Normal.Text(terminal.Fit(terminal.Elide(m.names[i], mostName), name) + " ")}
		if wide {
			line[0].Text = terminal.Fit(terminal.Elide(m.names[i], mostName), name) + fmt.Sprintf("%4d", i+1)
		}
		p.Line(append(line, p.row(row, wide)...)...)
	}
	p.legend(m.about, wide)
}

// header numbers the columns, whose names are those of the rows.
func (p *printer) header(n int) terminal.Text {
	text := "    "
	for i := range n {
		text += fmt.Sprintf("%4d", i+1)
	}
	return terminal.Faint.Text(text)
}

func (p *printer) row(cells []cell, wide bool) []terminal.Text {
	var parts []terminal.Text
	for _, c := range cells {
		text := symbol(c)
		if wide {
			text = fmt.Sprintf("%4s", text)
			if !c.self && !c.problem && !math.IsNaN(c.share) {
				text = fmt.Sprintf("%4.0f", min(100*c.share, 999))
			}
		}
		parts = append(parts, shade(c).Text(text))
	}
	return parts
}

// levels are how good a share is, the worst first, with a symbol and a background of
// the 256 colours (black on red, orange, yellow, and greens).
var levels = []struct {
	below      float64
	symbol     string
	background int
	words      string
}{
	{.4, "█", 203, "under 40 %"}, {.6, "▓", 215, "to 60"}, {.8, "▒", 228, "to 80"}, {.95, "░", 193, "to 95"}, {math.Inf(1), "·", 150, "more"},
}

func symbol(c cell) string {
	switch {
	case c.self:
		return `\`
	case c.problem:
		return "!"
	case math.IsNaN(c.share):
		return " "
	}
	for _, l := range levels {
		if c.share < l.below {
			return l.symbol
		}
	}
	return " "
}

func shade(c cell) terminal.Style {
	if c.self || c.problem || math.IsNaN(c.share) {
		return terminal.Faint
	}
	for _, l := range levels {
		if c.share < l.below {
			return terminal.Style(fmt.Sprintf("38;5;16;48;5;%d", l.background))
		}
	}
	return terminal.Normal
}

func (p *printer) legend(about string, wide bool) {
	text := "In percent; worst first, rows and columns in the same order."
	if !wide {
		text = "Worst first, rows and columns in the same order:"
		for i, l := range levels {
			if i > 0 {
				text += ","
			}
			text += " " + l.symbol + " " + l.words
		}
		text += "."
	}
	p.notes(text + ` \ itself, ! failed, blank not measured.` + about)
}

// mapOf is the grid with as many places as fit: agents, else blocks, else groups of
// neighbours. A group shows the worst of its pairs.
func mapOf(g *answer.Grid, room int) heatMap {
	n := len(g.Agents)
	group := make([]int, n)
	m := heatMap{names: g.Agents}
	most := mostRows
	if room > 0 {
		most = min(most, room)
	}
	for i := range group {
		group[i] = i
	}
	if n > most {
		m.names, group = blocks(g)
		m.about = " Agents of a block share a row and a column, which show the worst pair."
		if len(m.names) < 2 || len(m.names) > most {
			size := (n + most - 1) / most
			m.names, group = neighbours(g, size)
			m.about = fmt.Sprintf(" Each row and column is %d agents, and shows the worst pair.", size)
		}
	}
	m.cells = make([][]cell, len(m.names))
	for i := range m.cells {
		m.cells[i] = slices.Repeat([]cell{{share: math.NaN(), self: len(m.names) == n}}, len(m.names))
		for j := range m.cells[i] {
			m.cells[i][j].self = m.cells[i][j].self && i == j
		}
	}
	for i := range n {
		for j := range n {
			c := &m.cells[group[i]][group[j]]
			if s := g.Share(g.Values[i][j]); !math.IsNaN(s) && !(c.share <= s) {
				c.share = s
			} else if math.IsNaN(s) && g.Problems[i][j] != "" {
				c.problem = true
			}
		}
	}
	return m
}

// blocks groups agents that share one; the order of the grid keeps them together.
func blocks(g *answer.Grid) (names []string, group []int) {
	for _, block := range g.Blocks {
		at := slices.Index(names, cmp.Or(block, "no block"))
		if at < 0 {
			at = len(names)
			names = append(names, cmp.Or(block, "no block"))
		}
		group = append(group, at)
	}
	return names, group
}

func neighbours(g *answer.Grid, size int) (names []string, group []int) {
	for i, agent := range g.Agents {
		if i%size == 0 {
			names = append(names, agent+" …")
		}
		group = append(group, i/size)
	}
	return names, group
}

// mostPrices bounds the rows of the table of prices.
const mostPrices = 20

// prices says what bandwidth costs, the dearest first.
func (p *printer) prices(m *probe.Matrix) {
	var priced []probe.Agent
	for _, a := range m.Agents {
		if a.PricePerGbit > 0 {
			priced = append(priced, a)
		}
	}
	if len(priced) == 0 {
		return
	}
	slices.SortStableFunc(priced, func(a, b probe.Agent) int { return cmp.Compare(b.PricePerGbit, a.PricePerGbit) })
	p.title(strings.TrimSuffix("Price, "+m.Currency, ", "))
	rows := [][]terminal.Text{}
	for _, a := range priced[:min(len(priced), mostPrices)] {
		rows = append(rows, terminal.Row(a.Name, a.Block, answer.Price(a.PricePerHour), answer.Price(a.PricePerGbit)))
	}
	p.Table([]terminal.Column{{Tail: true}, {}, {Title: "per hour", Right: true}, {Title: "per hour and Gbit/s", Right: true}}, rows)
	if more := len(priced) - mostPrices; more > 0 {
		p.notes(fmt.Sprintf("… and %d agents more", more))
	}
}
