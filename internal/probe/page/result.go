package page

import (
	"math"
	"slices"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
)

// colours is as many paths as page.css has colours for; then they repeat.
const colours = 6

// resultContent is what result.html is filled with.
type resultContent struct {
	*probe.Result
	Answer answer.Answer
}

// Latencies, Tools, Wanting and Notes are what is said below the figures.
func (c resultContent) Latencies() []answer.Latency { return answer.Latencies(c.Result) }
func (c resultContent) Tools() []answer.Tool        { return answer.Tools(c.Result) }
func (c resultContent) Wanting() string             { return answer.Wanting(c.Result) }
func (c resultContent) Notes() []string             { return answer.Notes(c.Result) }

// HasCurves and HasBins tell whether there is something to draw.
func (c resultContent) HasCurves() bool {
	return c.has(func(t *probe.TestResult) bool { return len(t.Curve) > 1 })
}
func (c resultContent) HasBins() bool {
	return c.has(func(t *probe.TestResult) bool { return len(t.Bins) > 1 })
}

func (c resultContent) has(it func(*probe.TestResult) bool) bool {
	for _, p := range answer.Paths(c.Result) {
		for i := range p.Tests {
			if it(&p.Tests[i]) {
				return true
			}
		}
	}
	return false
}

// Percentiles are the titles of their columns.
func (resultContent) Percentiles() []string {
	var names []string
	for _, p := range answer.Percentiles {
		names = append(names, p.Name)
	}
	return names
}

// figureRow is a row of figures with a strip: the trials as dots, in the units of a
// drawing that is stripWidth wide. Rows of one test have one scale.
type figureRow struct {
	answer.Row
	Colour int
	Dots   []float64
	Middle float64
	// Low is where the interval begins, Long how long it is; Long is 0 if there is none.
	Low, Long float64
	// Begins is set for the first row of a test.
	Begins bool
}

// stripWidth is that of a strip's viewBox; dots stay stripMargin away from its ends.
const stripWidth, stripMargin = 300, 6

// Rows are the figures of all paths.
func (c resultContent) Rows() []figureRow {
	var rows []figureRow
	all := answer.Figures(c.Result)
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Test == all[i].Test {
			end++
		}
		scale := scaleOf(all[i:end])
		for k := i; k < end; k++ {
			row := figureRow{Row: all[k], Colour: all[k].Of % colours, Begins: k == i, Middle: scale(all[k].Median)}
			for _, v := range all[k].Values {
				row.Dots = append(row.Dots, scale(v))
			}
			if ci := all[k].CI; ci != nil {
				row.Low = scale(ci[0])
				row.Long = scale(ci[1]) - row.Low
			}
			rows = append(rows, row)
		}
		i = end
	}
	return rows
}

// scaleOf puts the figures of one test between the ends of a strip.
func scaleOf(rows []answer.Row) func(float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	take := func(v float64) { low, high = min(low, v), max(high, v) }
	for _, r := range rows {
		for _, v := range r.Values {
			take(v)
		}
		if r.CI != nil {
			take(r.CI[0])
			take(r.CI[1])
		}
	}
	return func(v float64) float64 {
		if !(high > low) {
			return stripWidth / 2
		}
		return stripMargin + min(max((v-low)/(high-low), 0), 1)*(stripWidth-2*stripMargin)
	}
}

// chart is one test of a result as page.js draws it, a line for each path. BinS is how long
// a bin of its lines is, seconds.
type chart struct {
	Test  string  `json:"test"`
	Lines []line  `json:"lines"`
	BinS  float64 `json:"bin_s,omitempty"`
}

// line is one path. Curve has rising quantiles with microseconds, Bins bytes per bin,
// Levels the plateaus of shaping, bytes per second.
type line struct {
	Name   string        `json:"name"`
	Colour int           `json:"colour"`
	Curve  []probe.Point `json:"curve,omitempty"`
	Bins   []int64       `json:"bins,omitempty"`
	Levels []float64     `json:"levels,omitempty"`
}

// data is what page.js draws, in the page as JSON.
type data struct {
	Curves []chart `json:"curves"`
	Bins   []chart `json:"bins"`
	Loads  []load  `json:"loads"`
}

func resultData(r *probe.Result) data {
	var d data
	for _, test := range answer.Tests(r) {
		curves, bins := chart{Test: test.Name}, chart{Test: test.Name}
		for _, of := range test.Of {
			l := line{Name: of.Path, Colour: of.Index % colours}
			if len(of.Test.Curve) > 1 {
				l.Curve = of.Test.Curve
				curves.Lines = append(curves.Lines, l)
				l.Curve = nil
			}
			if len(of.Test.Bins) > 1 {
				l.Bins = of.Test.Bins
				if s := of.Result.Conditions.Shaping; s != nil && s.Direction == of.Test.Direction {
					l.Levels = []float64{s.BurstBytesPerS, s.SustainedBytesPerS}
				}
				bins.Lines = append(bins.Lines, l)
			}
		}
		if len(curves.Lines) > 0 {
			d.Curves = append(d.Curves, curves)
		}
		if len(bins.Lines) > 0 {
			bins.thin()
			d.Bins = append(d.Bins, bins)
		}
	}
	return d
}

// mostBins is more than a chart has pixels. Hours of trials have more.
const mostBins = 4000

// thin makes bins longer, those of all lines alike, until there are not too many.
func (c *chart) thin() {
	longest := 0
	for _, l := range c.Lines {
		longest = max(longest, len(l.Bins))
	}
	group := (longest + mostBins - 1) / mostBins
	c.BinS = float64(group) * probe.BinWidth.Seconds()
	for i := range c.Lines {
		c.Lines[i].Bins = merged(c.Lines[i].Bins, group)
	}
}

// merged adds up neighbouring bins. A last group that is not whole counts as if it went on
// like that: it would look like a fall.
func merged(bins []int64, group int) []int64 {
	if group <= 1 {
		return bins
	}
	var all []int64
	for part := range slices.Chunk(bins, group) {
		sum := int64(0)
		for _, b := range part {
			sum += b
		}
		all = append(all, sum*int64(group)/int64(len(part)))
	}
	return all
}
