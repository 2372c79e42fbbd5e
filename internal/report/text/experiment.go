// Package text draws results for a terminal. In comes a result of package
// report, out goes plain text whose first line answers the question; the rest
// is the evidence. [Experiment] draws a balancing experiment.
package text

import (
	"bufio"
	"fmt"
	"io"

	"taper.dev/taper/internal/report"
)

// Options say what the terminal can show.
type Options struct {
	// Color allows ANSI colours.
	Color bool
	// Width is the number of columns; 0 means that there is no limit.
	Width int
}

// maxEndpoints bounds the rows per endpoint: the answer must not scroll away.
const maxEndpoints = 40

// Experiment writes what an experiment found. The error is the writer's.
func Experiment(w io.Writer, e *report.Experiment, opts Options) error {
	out := &printer{Writer: bufio.NewWriter(w), Options: opts}
	out.paragraph(styled{plain(e.Verdict()), bold}, "")
	if conditions := e.Conditions(); conditions != "" {
		out.paragraph(styled{plain(conditions), faint}, "")
	}
	if len(e.Arms) > 0 {
		out.comparison(e)
		out.settling(e)
		out.endpoints(e)
	}
	if command := e.Command(); command != "" {
		out.line()
		out.paragraph(styled{"repeat with: " + plain(command), faint}, " \\")
	}
	return out.Flush()
}

func (p *printer) comparison(e *report.Experiment) {
	rows := figures(e, true)
	if p.Width > 0 && width(rows) > p.Width {
		rows = figures(e, false)
	}
	p.line()
	p.table(rows)
}

// figures is the comparison; spread adds the rounds' lowest and highest.
func figures(e *report.Experiment, spread bool) [][]styled {
	header := []styled{{"median over rounds", faint}}
	if spread && e.Settings.Rounds > 1 {
		header[0].text = "median (lowest–highest round)"
	}
	for _, arm := range e.Arms {
		header = append(header, styled{plain(arm.Name), bold})
	}
	rows := [][]styled{header}
	for _, row := range e.Figures() {
		rows = append(rows, cells(row, spread))
	}
	if len(e.Arms) > 1 {
		rows = append(rows, nil, []styled{{"against " + plain(e.Arms[0].Name), faint}})
		for _, row := range e.RatioRows() {
			rows = append(rows, cells(row, spread))
		}
	}
	return rows
}

func cells(row report.Row, spread bool) []styled {
	name := row.Name
	if row.Unit != "" {
		name += ", " + row.Unit
	}
	line := []styled{{text: name}}
	for _, cell := range row.Cells {
		text := cell.Value
		if spread && cell.Spread != "" {
			text += " (" + cell.Spread + ")"
		}
		line = append(line, styled{text, trends[cell.Trend]})
	}
	return line
}

func (p *printer) settling(e *report.Experiment) {
	sentences := e.Settling()
	if len(sentences) > 0 {
		p.line()
	}
	for _, sentence := range sentences {
		p.paragraph(styled{text: plain(sentence)}, "")
	}
}

func (p *printer) endpoints(e *report.Experiment) {
	before, after := e.Compared()
	if after == nil || len(after.Endpoints) == 0 {
		return
	}
	all := report.EndpointRows(before, after)
	shown := all[:min(len(all), maxEndpoints)]
	rows := [][]styled{{
		{"endpoint", faint}, {"demand", faint}, {"requests/s", faint}, {"CPU, cores", faint},
		{"p99, ms", faint}, {"weight", faint},
	}}
	var requests, cpu, p99 arrows
	weight := 0
	for _, row := range shown {
		requests.fit(row.Requests)
		cpu.fit(row.CPU)
		p99.fit(row.P99)
		weight = max(weight, len(row.Weight))
	}
	for _, row := range shown {
		rows = append(rows, []styled{{text: plain(row.Address)}, {text: plain(row.Demand)},
			{text: requests.draw(row.Requests)}, {text: cpu.draw(row.CPU)}, {text: p99.draw(row.P99)},
			{text: fmt.Sprintf("%*s", weight, row.Weight)}})
	}
	p.line()
	p.line(styled{fmt.Sprintf("each endpoint, %s → %s", plain(before.Name), plain(after.Name)), bold})
	p.table(rows)
	if hidden := len(all) - len(shown); hidden > 0 {
		p.line(styled{fmt.Sprintf("… and %d endpoints more", hidden), faint})
	}
}
