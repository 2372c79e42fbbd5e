package text

import (
	"bufio"
	"io"
	"strings"

	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/report"
)

// maxDiffered bounds the routes of a difference that are shown in full.
const maxDiffered = 20

// Difference writes what differs between two explanations. The error is the writer's.
func Difference(w io.Writer, d *explain.Difference, opts Options) error {
	out := &printer{Writer: bufio.NewWriter(w), Options: opts}
	if len(d.Routes) == 0 {
		out.paragraph(styled{}, styled{"No requests: neither capture has any that could be compared.", bold})
		out.notes(d.Notes)
		return out.Flush()
	}
	shown := d.Routes[:min(len(d.Routes), maxDiffered)]
	for i := range shown {
		style := style("")
		if i == 0 {
			style = bold
		}
		out.paragraph(styled{}, styled{plain(d.Verdict(&shown[i])), style})
	}
	for i := range shown {
		if shown[i].Delta != nil {
			out.line()
			out.table(out.differenceTable(d, &shown[i]))
		}
	}
	out.line()
	out.paragraph(styled{}, styled{"Means in ms; differences with intervals that hold them with 95 % confidence, by drawing requests anew 2,000 times.", faint})
	out.notes(d.Notes)
	if hidden := len(d.Routes) - len(shown); hidden > 0 {
		out.line(styled{"… and " + report.Count(uint64(hidden)) + " routes more", faint})
	}
	return out.Flush()
}

func (p *printer) notes(notes []string) {
	for _, note := range notes {
		p.paragraph(styled{}, styled{plain(note) + ".", faint})
	}
}

func (p *printer) differenceTable(d *explain.Difference, r *explain.RouteDifference) [][]styled {
	name := 40
	if p.Width > 0 {
		const figures = 52 // columns of the figures, with usual file names
		name = max(p.Width-figures, 16)
	}
	rows := [][]styled{
		{{shorten(plain(r.Route), name), bold}, {file(d.A), faint}, {file(d.B), faint}, {"difference", faint}, {"95 %", faint}},
		{{text: "requests"}, {text: report.Count(r.A.Count)}, {text: report.Count(r.B.Count)}},
		{{text: "p50"}, {text: report.Number(r.A.P50MS)}, {text: report.Number(r.B.P50MS)}, {text: explain.Signed(r.Delta.P50)}},
		{{text: "p99"}, {text: report.Number(r.A.P99MS)}, {text: report.Number(r.B.P99MS)}, {text: explain.Signed(r.Delta.P99)}},
		differenceRow("mean", r.A.MeanMS, r.B.MeanMS, r.Delta.Mean, r.Delta.MeanCI),
	}
	for _, c := range r.Causes {
		if max(c.AMS, c.BMS) < worthwhile*max(r.A.MeanMS, r.B.MeanMS) {
			continue
		}
		label := strings.TrimSpace(string(c.Cause) + " " + plain(c.Peer))
		rows = append(rows, differenceRow("  "+elide(label, name-2), c.AMS, c.BMS, c.DeltaMS, c.CIMS))
	}
	return rows
}

func differenceRow(name string, a, b, delta float64, ci explain.Interval) []styled {
	change := styled{text: explain.Signed(delta)}
	if ci.Apart() {
		change.style = green
		if delta > 0 {
			change.style = red
		}
	}
	return []styled{{text: name}, {text: report.Number(a)}, {text: report.Number(b)}, change, {ci.String(), faint}}
}

// file is a file's name as a column is called.
func file(name string) string {
	const most = 14
	return elide(plain(name), most)
}
