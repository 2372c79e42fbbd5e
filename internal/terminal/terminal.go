// Package terminal prints text for people. In come pieces of [Text], each with a [Style];
// out go lines, paragraphs and aligned tables that fit the width of the terminal, in
// colour where a person looks who wants it. [Of] finds out what is at the other end,
// [New] makes the [Printer].
//
// Texts may come from anywhere, the network among others: nothing in them can move the
// cursor. Widths are counted in characters.
package terminal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Options say what the terminal can show.
type Options struct {
	// Color allows ANSI colours.
	Color bool
	// Width is the number of columns; 0 or less means that there is no limit, as in a file.
	Width int
}

// Of finds out what is at the other end. Where that is no terminal, or one that does not
// tell, the width is the one given. There are no colours where no person looks, or one
// who does not want them (https://no-color.org).
func Of(w io.Writer, unknown int) Options {
	color := Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Options{Color: color, Width: Width(w, unknown)}
}

// Is tells whether a person is at the other end of a reader or writer.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width is the number of columns of a terminal, or what is given where that is not known.
func Width(w io.Writer, unknown int) int {
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return unknown
}

// Style is how text looks where colours are on: the parameters of the ANSI escape
// sequence Select Graphic Rendition.
type Style string

// Normal text is left as it is.
const (
	Normal Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Text returns the text in this style.
func (s Style) Text(text string) Text { return Text{text, s} }

// Text is a piece of a line.
type Text struct {
	Text  string
	Style Style
}

// Row returns the texts as cells of a table.
func Row(texts ...string) []Text {
	cells := make([]Text, len(texts))
	for i, text := range texts {
		cells[i] = Normal.Text(text)
	}
	return cells
}

func spaces(n int) Text { return Normal.Text(strings.Repeat(" ", max(n, 0))) }

// Printer writes text that fits. Write errors are kept until it is flushed.
type Printer struct {
	*bufio.Writer
	Options
}

// New returns a printer for such a terminal. It is to be flushed.
func New(w io.Writer, o Options) *Printer { return &Printer{bufio.NewWriter(w), o} }

// Line writes one line, without spaces at its end.
func (p *Printer) Line(parts ...Text) {
	texts := make([]string, len(parts))
	last := -1 // what is written last
	for i, part := range parts {
		texts[i] = Plain(part.Text)
		if strings.TrimSpace(texts[i]) != "" {
			last = i
		}
	}
	var line strings.Builder
	for i, part := range parts[:last+1] {
		text := texts[i]
		if i == last {
			text = strings.TrimRight(text, " ")
		}
		if p.Color && part.Style != Normal && strings.TrimSpace(text) != "" {
			fmt.Fprintf(&line, "\x1b[%sm%s\x1b[0m", part.Style, text)
		} else {
			line.WriteString(text)
		}
	}
	fmt.Fprintln(p, line.String())
}

// Paragraph writes a text in lines that fit, broken between words. All but the first are
// indented.
func (p *Printer) Paragraph(text Text, indent int) { p.item(Text{}, text, indent) }

// Item writes a text behind its lead, in lines that fit. All but the first are indented
// by as much as the lead is long.
func (p *Printer) Item(lead, text Text) { p.item(lead, text, utf8.RuneCountInString(Plain(lead.Text))) }

func (p *Printer) item(lead, text Text, indent int) {
	for _, line := range Wrap(text.Text, p.Beside(indent)) {
		p.Line(lead, text.Style.Text(line))
		lead = spaces(indent)
	}
}

// Beside is how many columns there are beside n others: at least one, and 0 where there
// is no limit.
func (p *Printer) Beside(n int) int {
	if p.Width <= 0 {
		return 0
	}
	return max(p.Width-n, 1)
}
