// Package text draws what taper net found for a terminal. In comes a result of package
// probe, out goes text whose first line answers the question; the rest is the evidence.
// [Result], [Matrix], [PageLoad] and [Comparison] draw one each. What they say is from
// package answer.
package text

import (
	"io"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/terminal"
)

// UnknownWidth is assumed of a terminal that does not tell.
const UnknownWidth = 100

// printer writes results: a method for each part.
type printer struct{ *terminal.Printer }

// answer writes the first lines.
func (p *printer) answer(a answer.Answer) {
	p.Paragraph(terminal.Bold.Text(a.Headline), 0)
	for _, sentence := range a.Rest {
		p.Paragraph(terminal.Yellow.Text(sentence), 0)
	}
}

func (p *printer) title(text string) {
	p.Line()
	p.Line(terminal.Bold.Text(text))
}

func (p *printer) notes(sentences ...string) {
	for _, s := range sentences {
		if s != "" {
			p.Paragraph(terminal.Faint.Text(s), 0)
		}
	}
}

var outcomes = map[probe.Outcome]terminal.Style{probe.Better: terminal.Green, probe.Worse: terminal.Red, probe.CannotTell: terminal.Faint}

// Result writes what a test between two places found. The error is the writer's.
func Result(w io.Writer, r *probe.Result, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.answer(answer.Result(r))
	if len(r.Others) > 0 {
		out.compared(r)
	} else {
		out.figures(r)
	}
	out.latencies(r)
	out.tools(r)
	if notes := answer.Notes(r); len(notes) > 0 {
		out.Line()
		out.notes(notes...)
	}
	return out.Flush()
}

// figures is the table of a single path.
func (p *printer) figures(r *probe.Result) {
	rows := answer.Figures(r)
	if len(rows) == 0 {
		return
	}
	columns := []terminal.Column{{}, {Title: "median", Right: true}, {Title: "95 %", Right: true}, {Title: "lost", Right: true, Spare: 1}, {Title: "trials", Right: true, Spare: 2}}
	var cells [][]terminal.Text
	for _, row := range rows {
		cells = append(cells, terminal.Row(row.Test, row.Figure, row.Interval, row.Lost, row.Trials))
	}
	p.Line()
	p.Table(columns, cells)
}

// compared is the table of several paths.
func (p *printer) compared(r *probe.Result) {
	columns, name := named(r)
	columns = append(columns,
		terminal.Column{Title: "median", Right: true}, terminal.Column{Title: "95 %", Right: true, Spare: 3},
		terminal.Column{Title: "of " + terminal.Shorten(r.Name, 12), Right: true}, terminal.Column{Title: "95 %", Right: true, Spare: 2},
		terminal.Column{Title: "lost", Right: true, Spare: 1}, terminal.Column{Title: "trials", Right: true, Spare: 4}, terminal.Column{Wrap: true},
	)
	var cells [][]terminal.Text
	for _, row := range answer.Figures(r) {
		line := append(name(row.Test, row.Path), terminal.Row(row.Figure, row.Interval, row.Share, row.ShareInterval, row.Lost, row.Trials)...)
		cells = append(cells, append(line, outcomes[row.Outcome].Text(row.Verdict)))
	}
	p.Line()
	p.Table(columns, cells)
}

// named are the first columns of a table, and a function that fills them: the test, and
// the path where there are several. A test is named once.
func named(r *probe.Result) ([]terminal.Column, func(test, path string) []terminal.Text) {
	last := ""
	once := func(test string) string {
		if test == last {
			return ""
		}
		last = test
		return test
	}
	if len(r.Others) == 0 {
		return []terminal.Column{{}}, func(test, _ string) []terminal.Text { return terminal.Row(once(test)) }
	}
	return []terminal.Column{{}, {Tail: true}}, func(test, path string) []terminal.Text { return terminal.Row(once(test), path) }
}

// latencies is the table of percentiles.
func (p *printer) latencies(r *probe.Result) {
	rows := answer.Latencies(r)
	if len(rows) == 0 {
		return
	}
	p.title("Round trips, from when messages were meant to be sent")
	columns, name := named(r)
	for i, percentile := range answer.Percentiles {
		spare := 0
		if i == 1 {
			spare = 1
		}
		columns = append(columns, terminal.Column{Title: percentile.Name, Right: true, Spare: spare})
	}
	columns = append(columns, terminal.Column{Title: "max", Right: true, Spare: 2},
		terminal.Column{Title: "mean", Right: true, Spare: 3}, terminal.Column{Title: "samples", Right: true, Spare: 4})
	var cells [][]terminal.Text
	for _, row := range rows {
		line := append(name(row.Test, row.Path), terminal.Row(row.At...)...)
		cells = append(cells, append(line, terminal.Row(row.Max, row.Mean, row.Samples)...))
	}
	p.Table(columns, cells)
	p.notes(answer.Wanting(r))
}

func (p *printer) tools(r *probe.Result) {
	rows := answer.Tools(r)
	if len(rows) == 0 {
		return
	}
	p.title("As other tools would say it")
	columns, name := named(r)
	columns = append(columns, terminal.Column{Title: "qperf", Right: true}, terminal.Column{Title: "netperf", Right: true}, terminal.Column{Title: "iperf3", Right: true})
	var cells [][]terminal.Text
	for _, row := range rows {
		cells = append(cells, append(name(row.Test, row.Path), terminal.Row(row.Qperf, row.Netperf, row.Iperf3)...))
	}
	p.Table(columns, cells)
}

// Comparison writes what differs between two runs. The error is the writer's.
func Comparison(w io.Writer, c *probe.Comparison, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.answer(answer.Comparison(c))
	if rows := answer.Differences(c); len(rows) > 0 {
		columns := []terminal.Column{
			{}, {Tail: true}, {Title: "old", Right: true}, {Title: "new", Right: true}, {Title: "change", Right: true},
			{Title: "95 %", Right: true, Spare: 1}, {Title: "trials", Right: true, Spare: 2}, {Wrap: true},
		}
		var cells [][]terminal.Text
		for _, row := range rows {
			line := terminal.Row(row.Test, row.Path, row.Old, row.New, row.Change, row.Interval, row.Trials)
			cells = append(cells, append(line, outcomes[row.Outcome].Text(row.Verdict)))
		}
		out.Line()
		out.Table(columns, cells)
	}
	return out.Flush()
}
