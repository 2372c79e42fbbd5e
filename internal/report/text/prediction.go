package text

import (
	"fmt"
	"io"
	"strings"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// Prediction writes what ways to balance would make of a service. The error is the
// writer's.
func Prediction(w io.Writer, p *report.Prediction, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.Paragraph(terminal.Bold.Text(p.Verdict()), 0)
	for _, warning := range p.Warnings {
		out.Item(terminal.Yellow.Text("! "), terminal.Normal.Text(warning))
	}
	if len(p.Arms) == 0 {
		return out.Flush()
	}
	out.Paragraph(terminal.Faint.Text(p.Basis()), 0)
	out.predictedArms(p)
	out.predictedEndpoints(p)
	out.Line()
	for _, sentence := range p.Assumptions() {
		out.Item(terminal.Faint.Text("assumed: "), terminal.Faint.Text(sentence))
	}
	return out.Flush()
}

// predictedArms is a line for each arm: what it would give, and below how that compares.
func (p *printer) predictedArms(r *report.Prediction) {
	header := []terminal.Text{terminal.Faint.Text("median (90 % interval)")}
	for _, title := range []string{"p50, ms", "p99, ms", "CPU, cores"} {
		header = append(header, terminal.Bold.Text(title))
	}
	rows := [][]terminal.Text{header}
	ratios := [][]terminal.Text{nil, {terminal.Faint.Text("against today"), {}}}
	for i := range r.Arms {
		arm := &r.Arms[i]
		rows = append(rows, terminal.Row(armName(arm), arm.P50.Interval(), arm.P99.Interval(), arm.CPU.Interval()))
		if arm.Against == nil {
			continue
		}
		row := []terminal.Text{terminal.Normal.Text(arm.Name)}
		for _, e := range []report.Estimate{arm.Against.P50, arm.Against.P99, arm.Against.CPU} {
			row = append(row, trends[e.Tells()].Text(e.Interval()))
		}
		ratios = append(ratios, row)
	}
	p.Line()
	p.Table(terminal.Figures(len(header)), append(rows, ratios...))
}

func armName(arm *report.PredictedArm) string {
	switch {
	case arm.Bound:
		return arm.Name + " (a bound)"
	case arm.Against == nil:
		return arm.Name + " (" + arm.Policy + ")"
	}
	return arm.Name
}

func (p *printer) predictedEndpoints(r *report.Prediction) {
	columns := []terminal.Column{
		{Title: "endpoint", Tail: true}, {Title: "demand, ms", Right: true}, {Title: "cores", Right: true}, {Title: "used", Right: true},
		{Title: "requests/s", Right: true}, {Title: "share, " + r.Strategy, Right: true}, {Title: "note", Wrap: true},
	}
	var rows [][]terminal.Text
	shown := r.Endpoints[:min(len(r.Endpoints), maxEndpoints)]
	for _, e := range shown {
		share, used := report.Missing, report.Missing
		if s, ok := e.Shares[r.Strategy]; ok {
			share = fmt.Sprintf("%.2f %%", 100*s)
		}
		if e.Utilization != nil {
			used = fmt.Sprintf("%.0f %%", 100**e.Utilization)
		}
		rows = append(rows, terminal.Row(e.Address, optional(e.DemandMS), report.Number(e.Capacity), used, optional(e.Requests), share, e.Note))
	}
	p.Line()
	p.Table(columns, rows)
	if hidden := len(r.Endpoints) - len(shown); hidden > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("… and %d endpoints more", hidden)))
	}
}

// optional writes a figure that may not be known.
func optional(v *float64) string {
	if v == nil {
		return report.Missing
	}
	return report.Number(*v)
}

// Agreement writes what was measured and what was simulated, side by side.
func Agreement(w io.Writer, a *report.Agreement, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.Paragraph(terminal.Bold.Text(a.Verdict()), 0)
	out.Paragraph(terminal.Faint.Text(strings.Join(a.Conditions, "; ")), 0)
	out.Line()
	columns := append([]terminal.Column{{}, {}}, terminal.Figures(4)[1:]...)
	rows := [][]terminal.Text{{
		terminal.Normal.Text(""), terminal.Normal.Text(""), terminal.Bold.Text("measured (rounds)"), terminal.Bold.Text("simulated"), terminal.Bold.Text("simulated/measured"),
	}}
	for _, arm := range a.Arms {
		for i, f := range arm.Figures {
			name := arm.Name
			if i > 0 {
				name = ""
			}
			style := terminal.Green
			if !f.Within {
				style = terminal.Red
			}
			rows = append(rows, []terminal.Text{
				terminal.Normal.Text(name), terminal.Normal.Text(f.Name + ", " + f.Unit), terminal.Normal.Text(f.Spread()),
				terminal.Normal.Text(report.Number(f.Simulated)), style.Text(report.Number(f.Ratio)),
			})
		}
	}
	out.Table(columns, rows)
	return out.Flush()
}
