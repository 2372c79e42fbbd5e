package text

import (
	"bufio"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"taper.dev/taper/internal/report"
)

// styled is a piece of text and the ANSI colour it gets where colours are on.
type styled struct {
	text  string
	style style
}

type style string

const (
	bold  style = "1"
	faint style = "2"
)

var trends = map[report.Trend]style{report.Better: "32", report.Worse: "31"}

type printer struct {
	*bufio.Writer
	Options
}

// line writes one line; write errors are kept by the buffer until it is flushed.
func (p *printer) line(parts ...styled) {
	var line strings.Builder
	for _, part := range parts {
		if p.Color && part.style != "" && strings.TrimSpace(part.text) != "" {
			fmt.Fprintf(&line, "\x1b[%sm%s\x1b[0m", part.style, part.text)
		} else {
			line.WriteString(part.text)
		}
	}
	fmt.Fprintln(p, strings.TrimRight(line.String(), " "))
}

// paragraph writes a text in lines that fit, broken between words; each line
// but the last ends in joint.
func (p *printer) paragraph(s styled, joint string) {
	line := ""
	for word := range strings.FieldsSeq(s.text) {
		long := utf8.RuneCountInString(line) + 1 + utf8.RuneCountInString(word+joint)
		switch {
		case line == "":
			line = word
		case p.Width > 0 && long > p.Width:
			p.line(styled{line + joint, s.style})
			line = word
		default:
			line += " " + word
		}
	}
	p.line(styled{line, s.style})
}

// table writes rows in columns, all as wide as they need to be. Colours are put
// around padded text, so that they do not move it.
func (p *printer) table(rows [][]styled) {
	widths := columns(rows)
	for _, row := range rows {
		line := make([]styled, 0, 2*len(row))
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.text)+gap)
			line = append(line, cell, styled{text: padding})
		}
		p.line(line...)
	}
}

const gap = 2

func columns(rows [][]styled) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	return widths
}

// width is how many columns the table takes.
func width(rows [][]styled) int {
	total := -gap
	for _, w := range columns(rows) {
		total += w + gap
	}
	return total
}

// arrows lines up a column of "before → after".
type arrows struct{ before, after int }

func (a *arrows) fit(v report.BeforeAfter) {
	a.before = max(a.before, utf8.RuneCountInString(v.Before))
	a.after = max(a.after, utf8.RuneCountInString(v.After))
}

func (a *arrows) draw(v report.BeforeAfter) string {
	return fmt.Sprintf("%*s → %*s", a.before, v.Before, a.after, v.After)
}

// plain takes out what could move the cursor: names come from files and DNS.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
