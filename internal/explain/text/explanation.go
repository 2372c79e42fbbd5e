// Package text draws explanations for a terminal. The first lines are the answer; the
// rest is the evidence, most telling first. [Explanation] draws one explanation,
// [Difference] that of two.
package text

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
	"taper.dev/taper/internal/trap"
)

// UnknownWidth is assumed of a terminal that does not tell. Where there is no limit to
// texts, waterfalls are as wide as that.
const UnknownWidth = 80

// printer writes explanations: a method for each part.
type printer struct{ *terminal.Printer }

// What is listed must not scroll the answer away.
const (
	maxRoutes     = 20
	maxWaterfalls = 3
	maxBackground = 3
	maxPackets    = 8
)

// Explanation writes what an explanation says. The error is the writer's.
func Explanation(w io.Writer, e *explain.Explanation, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	answer := e.Answer()
	out.answer(answer)
	out.refusals(e)
	out.findings(e, answer)
	out.routes(e)
	out.waterfalls(e)
	out.background(e)
	out.capture(e)
	return out.Flush()
}

// capture says what one has to know of the capture to believe the rest.
func (p *printer) capture(e *explain.Explanation) {
	var notes []string
	if lacks := e.Capture.Lacks(); lacks != "" {
		notes = append(notes, "The capture lacks: "+lacks)
	}
	if e.Recognised != "" {
		notes = append(notes, e.Recognised)
	}
	if files := e.Capture.Files; len(files) > 1 {
		last := files[len(files)-1]
		notes = append(notes, fmt.Sprintf("Packets are counted through all %d files; the last one, %s, begins with %d", len(files), last.Name, last.FirstPacket))
	}
	if len(notes) > 0 {
		p.Line()
	}
	for _, note := range notes {
		p.Paragraph(terminal.Faint.Text(sentence(note)), 0)
	}
}

func (p *printer) answer(a explain.Answer) {
	p.Paragraph(terminal.Bold.Text(a.Headline), 0)
	if len(a.Rest) > 0 {
		p.Paragraph(terminal.Normal.Text(strings.Join(a.Rest, " ")), 0)
	}
}

func (p *printer) refusals(e *explain.Explanation) {
	if len(e.Refusals) > 0 {
		p.Line()
	}
	for _, refusal := range e.Refusals {
		p.Paragraph(terminal.Yellow.Text(sentence(refusal)), 0)
	}
}

// sentence makes a sentence of a phrase.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".") + "."
}

var severities = map[trap.Severity]terminal.Style{trap.High: terminal.Red, trap.Medium: terminal.Yellow, trap.Low: terminal.Faint}

// findings lists all; what the answer says already is not said again.
func (p *printer) findings(e *explain.Explanation, a explain.Answer) {
	if len(e.Findings) == 0 {
		return
	}
	p.Line()
	p.Line(terminal.Bold.Text("Findings"))
	for i := range e.Findings {
		f := &e.Findings[i]
		lead := severities[f.Severity].Text(terminal.Fit(string(f.Severity), len(trap.Medium)) + "  ")
		p.Item(lead, terminal.Bold.Text(f.ID+costs(f)))
		indent := terminal.Normal.Text(strings.Repeat(" ", len(trap.Medium)+2))
		if f != a.Finding {
			p.Item(indent, terminal.Normal.Text(f.Title))
			p.Item(indent, terminal.Normal.Text("Fix: "+f.Fix))
		}
		if f.Confirmed != "" {
			p.Item(indent, terminal.Normal.Text("Confirmed: "+f.Confirmed))
		}
		if where := evidence(f); where != "" {
			p.Item(indent, terminal.Faint.Text(where))
		}
	}
}

func costs(f *explain.Finding) string {
	if f.CostMSPerRequest <= 0 {
		return ""
	}
	return ", " + report.Number(f.CostMSPerRequest) + " ms per request"
}

// evidence says where to look: packets, and what to read.
func evidence(f *explain.Finding) string {
	var all []string
	if packets := f.Evidence.Packets; len(packets) > 0 {
		var numbers []string
		for _, n := range packets[:min(len(packets), maxPackets)] {
			numbers = append(numbers, strconv.FormatUint(n, 10))
		}
		text := "packets " + strings.Join(numbers, ", ")
		if len(packets) > maxPackets {
			text += ", …"
		}
		all = append(all, text)
	}
	if f.Reference != "" {
		all = append(all, "see "+f.Reference)
	}
	return strings.Join(all, "; ")
}

func (p *printer) background(e *explain.Explanation) {
	if len(e.Background) == 0 {
		return
	}
	p.Line()
	p.Line(terminal.Bold.Text("Without a request"))
	for _, b := range e.Background[:min(len(e.Background), maxBackground)] {
		what := fmt.Sprintf("%s × %s %s", report.Count(b.Count), b.Cause, b.Peer)
		if b.Op != "" {
			what += ", " + b.Op
		}
		p.Item(terminal.Normal.Text("  "), terminal.Normal.Text(terminal.Shorten(what, 100)+": "+report.Number(b.TotalMS)+" ms in all"))
	}
	if hidden := len(e.Background) - maxBackground; hidden > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("  … and %d kinds more", hidden)))
	}
}

func (p *printer) routes(e *explain.Explanation) {
	if len(e.Routes) == 0 {
		return
	}
	shown := e.Routes[:min(len(e.Routes), maxRoutes)]
	p.Line()
	p.Line(terminal.Bold.Text("Routes, in ms; per cause the mean"))
	rows := p.routeTable(shown)
	p.Table(terminal.Figures(len(rows[0])), rows)
	if hidden := len(e.Routes) - len(shown); hidden > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("… and %d routes more", hidden)))
	}
}

// routeTable is the widest of the tables that fits: first p90 is left out, then names
// are cut, then they stand above their figures.
func (p *printer) routeTable(routes []explain.Route) [][]terminal.Text {
	name := 60
	rows := routeRows(routes, name, true)
	if p.Width == 0 || terminal.TableWidth(rows) <= p.Width {
		return rows
	}
	rows = routeRows(routes, name, false)
	over := terminal.TableWidth(rows) - p.Width
	if over <= 0 {
		return rows
	}
	const least = 16
	if cut := terminal.Widths(rows)[0] - over; cut >= least {
		return routeRows(routes, cut, false)
	}
	var apart [][]terminal.Text
	for i, row := range routeRows(routes, 0, false) {
		if i > 0 {
			apart = append(apart, terminal.Row(terminal.Shorten(routes[i-1].Name(), p.Width)))
		}
		apart = append(apart, row)
	}
	return apart
}

func routeRows(routes []explain.Route, name int, p90 bool) [][]terminal.Text {
	causes := causesOf(routes)
	header := []terminal.Text{terminal.Faint.Text(""), terminal.Faint.Text("count"), terminal.Faint.Text("p50")}
	if p90 {
		header = append(header, terminal.Faint.Text("p90"))
	}
	header = append(header, terminal.Faint.Text("p99"))
	for _, c := range causes {
		header = append(header, terminal.Bold.Text(columnNames[c]))
	}
	rows := [][]terminal.Text{header}
	for i := range routes {
		r := &routes[i]
		row := terminal.Row(terminal.Shorten(r.Name(), name), report.Count(r.Count), report.Number(r.P50MS))
		if p90 {
			row = append(row, terminal.Normal.Text(report.Number(r.P90MS)))
		}
		row = append(row, terminal.Normal.Text(report.Number(r.P99MS)))
		for _, c := range causes {
			row = append(row, spent(r, c))
		}
		rows = append(rows, row)
	}
	return rows
}

// columnNames of causes are short, so that all fit beside each other.
var columnNames = map[attribution.Cause]string{
	attribution.Retransmit: "resent", attribution.DNS: "dns", attribution.Metadata: "metadata",
	attribution.Connect: "connect", attribution.TLS: "tls", attribution.Call: "call",
	attribution.ClientNetwork: "client", attribution.Self: "self",
}

// worthwhile is the share of its time from which a cause gets a column.
const worthwhile = 0.001

// causesOf are the causes that matter to any of the routes.
func causesOf(routes []explain.Route) []attribution.Cause {
	has := map[attribution.Cause]bool{}
	for _, r := range routes {
		for _, p := range r.Parts {
			has[p.Cause] = has[p.Cause] || p.Share >= worthwhile
		}
	}
	var causes []attribution.Cause
	for _, c := range attribution.Causes() {
		if has[c] {
			causes = append(causes, c)
		}
	}
	return causes
}

// spent is the mean time on a cause, with what most of the time went to standing out.
func spent(r *explain.Route, cause attribution.Cause) terminal.Text {
	var ms, share float64
	known := false
	for _, p := range r.Parts {
		if p.Cause == cause {
			ms, share, known = ms+p.MeanMS, share+p.Share, true
		}
	}
	switch {
	case !known:
		return terminal.Faint.Text(report.Missing)
	case share >= 0.5:
		return terminal.Bold.Text(report.Number(ms))
	}
	return terminal.Normal.Text(report.Number(ms))
}
