// Package text draws results for a terminal. In comes a result of package
// report, out goes plain text whose first line answers the question; the rest
// is the evidence. [Experiment] draws a balancing experiment, measured or simulated, and
// [Sweep] what a sweep found.
package text

import (
	"fmt"
	"io"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// printer writes an experiment: a method for each part.
type printer struct{ *terminal.Printer }

// maxEndpoints bounds the rows per endpoint: the answer must not scroll away.
const maxEndpoints = 40

// Experiment writes what an experiment found. The error is the writer's.
func Experiment(w io.Writer, e *report.Experiment, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.Paragraph(terminal.Bold.Text(e.Verdict()), 0)
	if conditions := e.Conditions(); conditions != "" {
		out.Paragraph(terminal.Faint.Text(conditions), 0)
	}
	if e.Simulation != nil {
		out.about(e.Simulation)
	}
	if len(e.Arms) > 0 {
		out.comparison(e)
		out.remarks(append(e.Caveats(), e.Settling()...))
		out.endpoints(e)
	}
	if command := e.Command(); command != "" {
		out.Line()
		out.command(command)
	}
	return out.Flush()
}

// command writes a command line that can be copied, broken by backslashes.
func (p *printer) command(line string) {
	const joint = ` \`
	lines := terminal.Wrap("repeat with: "+line, p.Beside(len(joint)))
	for i, part := range lines {
		if i < len(lines)-1 {
			part += joint
		}
		p.Line(terminal.Faint.Text(part))
	}
}

func (p *printer) comparison(e *report.Experiment) {
	rows := figures(e, true)
	tooWide := func() bool { return p.Width > 0 && terminal.TableWidth(rows) > p.Width }
	if tooWide() {
		rows = figures(e, false)
	}
	p.Line()
	if tooWide() {
		p.byArm(e)
		return
	}
	p.Table(nil, rows)
}

// spare is the order in which columns of the comparison by arm are left out where there is
// no room.
var spare = map[string]int{"p90": 1, "mean": 2, "p50 ×": 3, "p99.9": 4, "p95": 5}

// byArm is the comparison for more arms than fit side by side.
func (p *printer) byArm(e *report.Experiment) {
	names, rows := e.ByArm()
	caption := "medians over rounds; latencies in ms, CPU in cores"
	if len(e.Arms) > 1 {
		caption += "; ×: ratio to " + e.Arms[0].Name
	}
	p.Paragraph(terminal.Faint.Text(caption), 0)
	columns := terminal.Figures(len(names) + 1)
	for i, name := range names {
		columns[i+1].Title, columns[i+1].Spare = name, spare[name]
	}
	columns[0].Tail = true
	var lines [][]terminal.Text
	for _, row := range rows {
		line := cells(row, false)
		line[0].Style = terminal.Bold
		lines = append(lines, line)
	}
	p.Table(columns, lines)
}

// figures is the comparison; spread adds the rounds' lowest and highest.
func figures(e *report.Experiment, spread bool) [][]terminal.Text {
	header := []terminal.Text{terminal.Faint.Text("median over rounds")}
	if spread && e.Settings.Rounds > 1 {
		header[0].Text = "median (lowest–highest round)"
	}
	for _, arm := range e.Arms {
		header = append(header, terminal.Bold.Text(arm.Name))
	}
	rows := [][]terminal.Text{header}
	for _, row := range e.Figures() {
		rows = append(rows, cells(row, spread))
	}
	if len(e.Arms) > 1 {
		rows = append(rows, nil, []terminal.Text{terminal.Faint.Text("against " + e.Arms[0].Name), {}})
		for _, row := range e.RatioRows() {
			rows = append(rows, cells(row, spread))
		}
	}
	return rows
}

func cells(row report.Row, spread bool) []terminal.Text {
	name := row.Name
	if row.Unit != "" {
		name += ", " + row.Unit
	}
	line := []terminal.Text{terminal.Normal.Text(name)}
	for _, cell := range row.Cells {
		text := cell.Value
		if spread && cell.Spread != "" {
			text += " (" + cell.Spread + ")"
		}
		line = append(line, trends[cell.Trend].Text(text))
	}
	return line
}

// about says what a simulation is meant to show.
func (p *printer) about(s *report.Simulation) {
	if s.About != "" {
		p.Paragraph(terminal.Faint.Text(s.About), 0)
	}
}

// remarks are sentences below the comparison.
func (p *printer) remarks(sentences []string) {
	if len(sentences) > 0 {
		p.Line()
	}
	for _, sentence := range sentences {
		p.Paragraph(terminal.Normal.Text(sentence), 0)
	}
}

func (p *printer) endpoints(e *report.Experiment) {
	before, after := e.Compared()
	if after == nil {
		return
	}
	what := "endpoint"
	if len(after.Kinds) > 0 && (len(after.Endpoints) > maxEndpoints || len(after.Endpoints) == 0) {
		what = "endpoint of a kind, in the mean"
		before, after = before.ByKind(), after.ByKind()
	}
	if len(after.Endpoints) == 0 {
		return
	}
	all := report.EndpointRows(before, after)
	shown := all[:min(len(all), maxEndpoints)]
	columns := []terminal.Column{{Title: "endpoint"}, {Title: "demand"}, {Title: "requests/s"}, {Title: "CPU, cores"}, {Title: "p99, ms"}, {Title: "weight"}}
	var rows [][]terminal.Text
	var requests, cpu, p99 arrows
	weight := 0
	for _, row := range shown {
		requests.fit(row.Requests)
		cpu.fit(row.CPU)
		p99.fit(row.P99)
		weight = max(weight, len(row.Weight))
	}
	for _, row := range shown {
		rows = append(rows, terminal.Row(row.Address, row.Demand,
			requests.draw(row.Requests), cpu.draw(row.CPU), p99.draw(row.P99), fmt.Sprintf("%*s", weight, row.Weight)))
	}
	p.Line()
	p.Line(terminal.Bold.Text(fmt.Sprintf("each %s, %s → %s", what, before.Name, after.Name)))
	p.Table(columns, rows)
	if hidden := len(all) - len(shown); hidden > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("… and %d endpoints more", hidden)))
	}
}
