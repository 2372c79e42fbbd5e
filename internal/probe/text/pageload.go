package text

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/terminal"
)

// mostServers bounds the lines of bytes over time.
const mostServers = 12

// PageLoad writes what loading a page found. The error is the writer's.
func PageLoad(w io.Writer, l *probe.PageLoad, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.answer(answer.PageLoad(l))
	for i := range l.Targets {
		out.target(&l.Targets[i])
	}
	return out.Flush()
}

func (p *printer) target(t *probe.PageTarget) {
	if len(t.Steps) == 0 {
		return
	}
	about := t.URL
	if t.Objects > 0 {
		about += fmt.Sprintf(", %d objects, %s", t.Objects, answer.Size(float64(t.PageBytes)))
	}
	p.title(answer.TargetName(t))
	p.notes(about)
	columns := []terminal.Column{
		{Title: "users", Right: true}, {Title: "throughput", Right: true}, {Title: "pages/s", Right: true, Spare: 2},
		{Title: "p50", Right: true}, {Title: "p90", Right: true, Spare: 1}, {Title: "p99", Right: true}, {Title: "errors", Right: true}, {Title: "client busy", Right: true, Spare: 3},
	}
	var rows [][]terminal.Text
	for i, s := range answer.Steps(t) {
		row := terminal.Row(s.Users, s.Rate, s.Pages, s.P50, s.P90, s.P99, s.Errors, s.Client)
		if t.Steps[i].Errors > 0 {
			row[len(row)-2].Style = terminal.Red
		}
		if t.Users > 0 && t.Steps[i].Users == t.Users {
			row[0].Style, row[1].Style = terminal.Bold, terminal.Bold
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
	if s := answer.Busiest(t); s != nil && len(s.Served) > 1 {
		p.overTime(s)
	}
}

// overTime draws the bytes that each server gave, to one scale: where a balancer is full,
// the sum is flat, and servers take turns.
func (p *printer) overTime(s *probe.PageStep) {
	p.title(fmt.Sprintf("Bytes over time with %d users", s.Users))
	names := answer.Servers(s)
	shown := names[:min(len(names), mostServers)]
	name := len("all")
	for _, n := range shown {
		name = max(name, min(utf8.RuneCountInString(terminal.Plain(n)), mostName))
	}
	width := 60
	if p.Width > 0 {
		width = max(10, min(width, p.Width-name-1))
	}
	top := slices.Max(squeeze(s.Bins, width))
	draw := func(label string, bins []int64) {
		p.Line(terminal.Normal.Text(terminal.Fit(terminal.Elide(label, mostName), name)+" "), terminal.Normal.Text(bars(squeeze(bins, width), top)))
	}
	draw("all", s.Bins)
	for _, n := range shown {
		draw(n, s.Served[n])
	}
	if more := len(names) - len(shown); more > 0 {
		p.notes(fmt.Sprintf("… and %d servers more", more))
	}
}

// squeeze is the means of neighbouring bins, so many that they fit.
func squeeze(bins []int64, width int) []float64 {
	n := min(len(bins), width)
	means := make([]float64, n)
	for i := range n {
		from, to := i*len(bins)/n, (i+1)*len(bins)/n
		for _, b := range bins[from:to] {
			means[i] += float64(b) / float64(to-from)
		}
	}
	return means
}

// bars draws figures from 0 to the top as characters.
func bars(values []float64, top float64) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	var text strings.Builder
	for _, v := range values {
		if v <= 0 || top <= 0 {
			text.WriteByte('_')
			continue
		}
		text.WriteRune(blocks[min(len(blocks)-1, int(v/top*float64(len(blocks))))])
	}
	return text.String()
}
