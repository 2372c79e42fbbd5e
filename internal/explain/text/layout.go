package text

import (
	"bufio"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// styled is a piece of text and the ANSI colour it gets where colours are on.
type styled struct {
	text  string
	style style
}

type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

type printer struct {
	*bufio.Writer
	Options
}

// line writes one line; write errors are kept by the buffer until it is flushed.
func (p *printer) line(parts ...styled) {
	last := len(parts)
	for last > 0 && strings.TrimSpace(parts[last-1].text) == "" {
		last--
	}
	var line strings.Builder
	for i, part := range parts[:last] {
		text := part.text
		if i == last-1 {
			text = strings.TrimRight(text, " ")
		}
		if p.Color && part.style != "" && strings.TrimSpace(text) != "" {
			fmt.Fprintf(&line, "\x1b[%sm%s\x1b[0m", part.style, text)
		} else {
			line.WriteString(text)
		}
	}
	fmt.Fprintln(p, line.String())
}

// paragraph writes a text in lines that fit, broken between words. All lines but the
// first are indented by as much as the lead is long, which comes before it.
func (p *printer) paragraph(lead styled, s styled) {
	indent := utf8.RuneCountInString(lead.text)
	line := ""
	flush := func() {
		p.line(lead, styled{line, s.style})
		lead = styled{text: strings.Repeat(" ", indent)}
	}
	for word := range strings.FieldsSeq(s.text) {
		switch {
		case line == "":
			line = word
		case p.Width > 0 && indent+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.Width:
			flush()
			line = word
		default:
			line += " " + word
		}
	}
	flush()
}

const gap = 2

// table writes rows in columns: the first is aligned left, those with figures right.
// A row of one cell stands across the columns.
// Colours are put around padded text, so that they do not move it.
func (p *printer) table(rows [][]styled) {
	widths := columns(rows)
	for _, row := range rows {
		if len(row) == 1 {
			p.line(row...)
			continue
		}
		var line []styled
		for i, cell := range row {
			padding := styled{text: strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.text))}
			if i == 0 {
				line = append(line, cell, padding)
				continue
			}
			line = append(line, styled{text: strings.Repeat(" ", gap)}, padding, cell)
		}
		p.line(line...)
	}
}

func columns(rows [][]styled) []int {
	var widths []int
	for _, row := range rows {
		if len(row) == 1 {
			continue
		}
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

// fit makes a text n characters long, cutting or padding it at its end.
func fit(s string, n int) string { return fmt.Sprintf("%-*s", n, shorten(s, n)) }

func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// elide makes a text at most n characters long by leaving out its middle: where it goes
// to stands in front, and what for at the end.
func elide(s string, n int) string {
	r := []rune(s)
	if len(r) <= n || n < 3 {
		return shorten(s, n)
	}
	front := n / 2
	return string(r[:front]) + "…" + string(r[len(r)-(n-front-1):])
}

// plain takes out what could move the cursor: texts come from the network.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
