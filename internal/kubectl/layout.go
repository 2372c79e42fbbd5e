package kubectl

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// styled is a piece of text and the ANSI colour it gets where colours are on.
type styled struct {
	text  string
	style style
}

type style string

const (
	normal style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// printer writes text that fits. Write errors are kept until it is flushed.
type printer struct {
	*bufio.Writer
	color bool
	// width is the number of columns; 0 means that there is no limit, as in a file.
	width int
}

// newPrinter finds out what is at the other end. There are no colours where no
// person looks, or one who does not want them (https://no-color.org).
func newPrinter(w io.Writer) *printer {
	p := &printer{Writer: bufio.NewWriter(w)}
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return p
	}
	p.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
		p.width = columns
	}
	return p
}

func (p *printer) line(parts ...styled) {
	var line strings.Builder
	for _, part := range parts {
		if p.color && part.style != normal && strings.TrimSpace(part.text) != "" {
			fmt.Fprintf(&line, "\x1b[%sm%s\x1b[0m", part.style, part.text)
		} else {
			line.WriteString(part.text)
		}
	}
	fmt.Fprintln(p, strings.TrimRight(line.String(), " "))
}

// paragraph writes a text in lines that fit; all but the first are indented.
func (p *printer) paragraph(s styled, indent int) {
	for i, line := range wrap(plain(s.text), p.width-indent) {
		if i > 0 {
			line = strings.Repeat(" ", indent) + line
		}
		p.line(styled{line, s.style})
	}
}

// column is one of a table.
type column struct {
	title string
	// right aligns numbers.
	right bool
	// spare is the order in which columns are left out where there is no room: the
	// highest first, 0 never.
	spare int
	// wrap lets the last column continue on further lines.
	wrap bool
}

const (
	gap = 2
	// leastName is as far as the first column is shortened, and leastWrap the last.
	leastName = 12
	leastWrap = 20
)

// table writes rows under the columns' titles, if they have any.
func (p *printer) table(columns []column, rows [][]styled) {
	header := make([]styled, len(columns))
	titled := false
	for i, c := range columns {
		header[i] = styled{c.title, faint}
		titled = titled || c.title != ""
	}
	if titled {
		rows = append([][]styled{header}, rows...)
	}
	columns, rows = p.fit(columns, clean(rows))
	widths := widthsOf(rows)
	for _, row := range rows {
		p.row(columns, widths, row)
	}
}

// row writes one row, in several lines where its last cell wraps.
func (p *printer) row(columns []column, widths []int, row []styled) {
	last := len(columns) - 1
	before := total(widths[:last]) + gap
	lines := []string{row[last].text}
	if columns[last].wrap && p.width > 0 {
		lines = wrap(row[last].text, max(p.width-before, leastWrap))
	}
	parts := make([]styled, 0, 2*len(row))
	for i, cell := range row[:last] {
		parts = append(parts, pad(cell, widths[i], columns[i].right)...)
		parts = append(parts, styled{text: strings.Repeat(" ", gap)})
	}
	for i, text := range lines {
		cell := styled{text, row[last].style}
		if i > 0 {
			p.line(styled{text: strings.Repeat(" ", before)}, cell)
			continue
		}
		if columns[last].right {
			parts = append(parts, pad(cell, widths[last], true)...)
		} else {
			parts = append(parts, cell)
		}
		p.line(parts...)
	}
}

// pad puts the padding outside of the colour, so that it does not show.
func pad(cell styled, width int, right bool) []styled {
	padding := styled{text: strings.Repeat(" ", max(0, width-utf8.RuneCountInString(cell.text)))}
	if right {
		return []styled{padding, cell}
	}
	return []styled{cell, padding}
}

// fit leaves out columns, then shortens the first one, until a table fits.
func (p *printer) fit(columns []column, rows [][]styled) ([]column, [][]styled) {
	if p.width <= 0 {
		return columns, rows
	}
	for {
		over := total(least(columns, rows)) - p.width
		if over <= 0 {
			return columns, rows
		}
		out := -1
		for i, c := range columns {
			if c.spare > 0 && (out < 0 || c.spare > columns[out].spare) {
				out = i
			}
		}
		if out < 0 {
			return columns, shorten(rows, max(leastName, widthsOf(rows)[0]-over))
		}
		columns, rows = without(columns, rows, out)
	}
}

// least are the widths that columns need.
func least(columns []column, rows [][]styled) []int {
	widths := widthsOf(rows)
	if last := len(columns) - 1; columns[last].wrap {
		widths[last] = min(widths[last], leastWrap)
	}
	return widths
}

// without returns the table without one of its columns, as a copy.
func without(columns []column, rows [][]styled, out int) ([]column, [][]styled) {
	fewer := append(append([]column{}, columns[:out]...), columns[out+1:]...)
	shorter := make([][]styled, len(rows))
	for i, row := range rows {
		shorter[i] = append(append([]styled{}, row[:out]...), row[out+1:]...)
	}
	return fewer, shorter
}

// shorten cuts the first column from the left: pods of one service differ at the end.
func shorten(rows [][]styled, width int) [][]styled {
	for _, row := range rows {
		if runes := []rune(row[0].text); len(runes) > width {
			row[0].text = "…" + string(runes[len(runes)-width+1:])
		}
	}
	return rows
}

func clean(rows [][]styled) [][]styled {
	copied := make([][]styled, len(rows))
	for i, row := range rows {
		copied[i] = make([]styled, len(row))
		for k, cell := range row {
			copied[i][k] = styled{plain(cell.text), cell.style}
		}
	}
	return copied
}

func widthsOf(rows [][]styled) []int {
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

// total is how many columns of the terminal a table takes.
func total(widths []int) int {
	sum := gap * max(0, len(widths)-1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// wrap breaks a text between words; a width of 0 or less does not limit it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// plain takes out what could move the cursor: texts come from whoever may write
// objects of the cluster.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}
