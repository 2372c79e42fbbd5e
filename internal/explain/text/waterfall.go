package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// maxRows bounds the lines of one waterfall.
const maxRows = 24

// waterfalls draws the slowest requests of which can be said what they did.
func (p *printer) waterfalls(e *explain.Explanation) {
	var sure []*explain.Request
	for i := range e.Requests {
		if e.Requests[i].Link != attribution.Ambiguous {
			sure = append(sure, &e.Requests[i])
		}
	}
	if 2*len(sure) < len(e.Requests) {
		p.Line()
		p.Paragraph(terminal.Faint.Text("No single request is shown: which calls belong to which is ambiguous."), 0)
		return
	}
	// The answer is about the first route, so its slowest request goes first.
	slices.SortStableFunc(sure, func(a, b *explain.Request) int { return cmp.Compare(b.DurationMS, a.DurationMS) })
	ofFirst := func(r *explain.Request) bool { return len(e.Routes) > 0 && r.IsOf(&e.Routes[0]) }
	if i := slices.IndexFunc(sure, ofFirst); i > 0 {
		first := sure[i]
		sure = slices.Insert(slices.Delete(sure, i, i+1), 0, first)
	}
	sure = sure[:min(len(sure), maxWaterfalls)]
	for i, r := range sure {
		p.Line()
		if i == 0 {
			p.Line(terminal.Bold.Text("Slowest requests"))
		}
		p.waterfall(r)
	}
	if slices.ContainsFunc(sure, func(r *explain.Request) bool { return r.Link == attribution.Likely }) {
		p.Line(terminal.Faint.Text("≈ likely this request's, with a probability of at least 0.9"))
	}
}

// row is a line of a waterfall: where in the request's time something went on.
type row struct {
	label   string
	style   terminal.Style
	spans   []span
	ms      float64
	packets [2]uint64
	failed  bool
}

// span is a stretch of time in milliseconds.
type span struct{ from, to float64 }

// streamStyles tell connections apart.
var streamStyles = []terminal.Style{"36", "35", "34", "32", "33", "96", "95", "94"}

func (p *printer) waterfall(r *explain.Request) {
	rows := rowsOf(r)
	digits := 0
	for i := range rows {
		digits = max(digits, utf8.RuneCountInString(packets(rows[i].packets)))
	}
	w := newWaterfallLayout(p.Width, digits)
	p.waterfallTitle(r, w.total)
	hidden := max(len(rows)-maxRows, 0)
	for _, row := range rows[:len(rows)-hidden] {
		label := row.style
		if row.failed {
			label = terminal.Red
		}
		p.Line(
			label.Text(terminal.Fit(terminal.Elide(row.label, w.label), w.label)+"  "),
			row.style.Text(bar(w.bar, r.DurationMS, row.spans)),
			terminal.Normal.Text(fmt.Sprintf("%*s", w.ms, report.Number(row.ms))),
			terminal.Faint.Text(terminal.Shorten(fmt.Sprintf("%*s", w.packets, packets(row.packets)), w.packets)),
		)
	}
	if hidden += r.CallsOmitted; hidden > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("… and %d lines more", hidden)))
	}
}

func (p *printer) waterfallTitle(r *explain.Request, width int) {
	title := terminal.Plain(strings.TrimSpace(r.Method + " " + r.Target))
	about := terminal.Plain(fmt.Sprintf("%d, %s ms, %s, at %s from %s", r.Status, report.Number(r.DurationMS), r.Link,
		r.Start.UTC().Format("15:04:05.000"), r.Client))
	if utf8.RuneCountInString(title)+terminal.Gap+utf8.RuneCountInString(about) <= width {
		p.Line(terminal.Normal.Text(title+strings.Repeat(" ", terminal.Gap)), terminal.Faint.Text(about))
		return
	}
	p.Line(terminal.Normal.Text(terminal.Elide(title, width)))
	p.Paragraph(terminal.Faint.Text(about), 0)
}

// waterfallLayout are the widths of the columns.
type waterfallLayout struct{ total, label, bar, ms, packets int }

func newWaterfallLayout(total, digits int) waterfallLayout {
	if total <= 0 {
		total = UnknownWidth
	}
	w := waterfallLayout{total: total, ms: 7, packets: terminal.Gap + digits}
	if total < 60 {
		w.packets = 0
	}
	rest := max(total-w.ms-w.packets-terminal.Gap, 20)
	w.label = min(rest*11/20, 72)
	w.bar = rest - w.label
	return w
}

// rowsOf are the request's calls, its handshakes and losses, in the order in which
// they began, and last the time in which nothing went on.
func rowsOf(r *explain.Request) []row {
	var rows []row
	streams := map[uint64]terminal.Style{}
	for i := range r.Calls {
		c := &r.Calls[i]
		if _, known := streams[c.Stream]; !known {
			streams[c.Stream] = streamStyles[len(streams)%len(streamStyles)]
		}
		label := callName(c)
		if c.Link != attribution.Certain {
			label = doubts[c.Link] + label
		}
		rows = append(rows, row{
			label: label, style: streams[c.Stream], ms: c.DurationMS, packets: c.Packets, failed: c.Failed,
			spans: []span{{c.StartMS, c.StartMS + c.DurationMS}},
		})
	}
	for i := range r.Slices {
		rows = addSlice(rows, &r.Slices[i])
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.spans[0].from, b.spans[0].from))
	})
	return rows
}

// doubts mark calls that may be another request's.
var doubts = map[attribution.Certainty]string{attribution.Likely: "≈ ", attribution.Ambiguous: "? "}

// callName says as shortly as it can what a call was: whom a name is asked of, or which
// metadata service there is, everybody knows.
func callName(c *explain.Call) string {
	switch c.Cause {
	case attribution.DNS:
		return fmt.Sprintf("dns %s %s", c.Target, c.Op)
	case attribution.Metadata:
		return "metadata " + strings.TrimPrefix(c.Op+" ", "GET ") + c.Target
	case attribution.TLS:
		return "tls " + c.Peer
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Peer, c.Op, c.Target))
}

// own are the labels of rows that are no calls: a row for each.
func own(s *explain.Slice) (label string, is bool) {
	switch s.Cause {
	case attribution.Self:
		return "self", true
	case attribution.ClientNetwork:
		return "client's network", true
	case attribution.Connect, attribution.Retransmit:
		return strings.TrimSpace(string(s.Cause) + " " + s.Peer), true
	}
	return "", false
}

func addSlice(rows []row, s *explain.Slice) []row {
	label, is := own(s)
	if !is {
		return rows
	}
	at := slices.IndexFunc(rows, func(r row) bool { return r.label == label && r.style == sliceStyle(s) })
	if at < 0 {
		at = len(rows)
		rows = append(rows, row{label: label, style: sliceStyle(s), packets: s.Packets})
	}
	r := &rows[at]
	r.spans = append(r.spans, span{s.StartMS, s.StartMS + s.MS})
	r.ms += s.MS
	r.packets[1] = max(r.packets[1], s.Packets[1])
	return rows
}

func sliceStyle(s *explain.Slice) terminal.Style {
	switch s.Cause {
	case attribution.Retransmit:
		return terminal.Red
	case attribution.Connect:
		return terminal.Yellow
	}
	return terminal.Faint
}

func rank(r *row) int {
	if r.style == terminal.Faint {
		return 1
	}
	return 0
}

func packets(p [2]uint64) string {
	switch {
	case p[0] == 0 && p[1] == 0:
		return ""
	case p[0] == p[1] || p[1] == 0:
		return fmt.Sprint(p[0])
	case p[0] == 0:
		return fmt.Sprint(p[1])
	}
	return fmt.Sprintf("%d–%d", p[0], p[1])
}

// eighths fill a cell from its left.
var eighths = []rune(" ▏▎▍▌▋▊▉█")

// bar draws spans of a whole in n cells. However short a span is, it shows.
func bar(n int, whole float64, spans []span) string {
	cells := []rune(strings.Repeat(" ", n))
	if !(whole > 0) {
		return string(cells)
	}
	scale := float64(n) / whole
	for _, s := range spans {
		from, to := s.from*scale, s.to*scale
		from = min(max(from, 0), float64(n)-0.125)
		to = min(max(to, from+0.125), float64(n))
		for i := int(from); i < n && float64(i) < to; i++ {
			cells[i] = heavier(cells[i], cell(from-float64(i), to-float64(i)))
		}
	}
	return string(cells)
}

// cell draws what is filled of one cell, from and to being where in it, or outside.
func cell(from, to float64) rune {
	from, to = max(from, 0), min(to, 1)
	switch filled := to - from; {
	case filled > 0.9:
		return '█'
	case from < 0.1:
		return eighths[max(int(8*filled+0.5), 1)]
	case filled >= 0.3 && to > 0.9:
		return '▐'
	case from+to > 1:
		return '▕'
	}
	return '▏'
}

func heavier(a, b rune) rune {
	const weights = " ▏▕▎▍▌▐▋▊▉█"
	if strings.IndexRune(weights, a) > strings.IndexRune(weights, b) {
		return a
	}
	return b
}
