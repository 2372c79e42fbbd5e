package text

import (
	"io"
	"strings"

	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// maxDiffered bounds the routes of a difference that are shown in full.
const maxDiffered = 20

// Difference writes what differs between two explanations. The error is the writer's.
func Difference(w io.Writer, d *explain.Difference, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	if len(d.Routes) == 0 {
		out.Paragraph(terminal.Bold.Text("No requests: neither capture has any that could be compared."), 0)
		out.notes(d.Notes)
		return out.Flush()
	}
	shown := d.Routes[:min(len(d.Routes), maxDiffered)]
	for i := range shown {
		style := terminal.Normal
		if i == 0 {
			style = terminal.Bold
		}
		out.Paragraph(style.Text(d.Verdict(&shown[i])), 0)
	}
	for i := range shown {
		if shown[i].Delta != nil {
			out.Line()
			rows := out.differenceTable(d, &shown[i])
			out.Table(terminal.Figures(len(rows[0])), rows)
		}
	}
	out.Line()
	out.Paragraph(terminal.Faint.Text("Means in ms; differences with intervals that hold them with 95 % confidence, by drawing requests anew 2,000 times."), 0)
	out.notes(d.Notes)
	if hidden := len(d.Routes) - len(shown); hidden > 0 {
		out.Line(terminal.Faint.Text("… and " + report.Count(uint64(hidden)) + " routes more"))
	}
	return out.Flush()
}

func (p *printer) notes(notes []string) {
	for _, note := range notes {
		p.Paragraph(terminal.Faint.Text(note+"."), 0)
	}
}

func (p *printer) differenceTable(d *explain.Difference, r *explain.RouteDifference) [][]terminal.Text {
	name := 40
	if p.Width > 0 {
		const figures = 52 // columns of the figures, with usual file names
		name = max(p.Width-figures, 16)
	}
	rows := [][]terminal.Text{
		{terminal.Bold.Text(terminal.Shorten(r.Route, name)), terminal.Faint.Text(file(d.A)), terminal.Faint.Text(file(d.B)), terminal.Faint.Text("difference"), terminal.Faint.Text("95 %")},
		terminal.Row("requests", report.Count(r.A.Count), report.Count(r.B.Count)),
		terminal.Row("p50", report.Number(r.A.P50MS), report.Number(r.B.P50MS), explain.Signed(r.Delta.P50)),
		terminal.Row("p99", report.Number(r.A.P99MS), report.Number(r.B.P99MS), explain.Signed(r.Delta.P99)),
		differenceRow("mean", r.A.MeanMS, r.B.MeanMS, r.Delta.Mean, r.Delta.MeanCI),
	}
	for _, c := range r.Causes {
		if max(c.AMS, c.BMS) < worthwhile*max(r.A.MeanMS, r.B.MeanMS) {
			continue
		}
		label := strings.TrimSpace(string(c.Cause) + " " + c.Peer)
		rows = append(rows, differenceRow("  "+terminal.Elide(label, name-2), c.AMS, c.BMS, c.DeltaMS, c.CIMS))
	}
	return rows
}

func differenceRow(name string, a, b, delta float64, ci explain.Interval) []terminal.Text {
	row := append(terminal.Row(name, report.Number(a), report.Number(b), explain.Signed(delta)), terminal.Faint.Text(ci.String()))
	if ci.Apart() {
		row[3].Style = terminal.Green
		if delta > 0 {
			row[3].Style = terminal.Red
		}
	}
	return row
}

// file is a file's name as a column is called.
func file(name string) string {
	const most = 14
	return terminal.Elide(name, most)
}
