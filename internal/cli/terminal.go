package cli

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// plainWidth is assumed where there is no terminal to ask.
const plainWidth = 100

// isTerminal tells whether a person looks at what is written there, and has not
// asked for no colours (https://no-color.org).
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""
}

func width(w io.Writer) int { return widthOr(w, plainWidth) }

// widthOr is the terminal's width, or what is given where there is no terminal.
func widthOr(w io.Writer, unknown int) int {
	if file, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return unknown
}

// progressLine is a line on a terminal that is written over again and again. What
// else is written through it, such as a log, goes above. It shows nothing where
// there is no terminal.
type progressLine struct {
	mu   sync.Mutex
	out  io.Writer
	live bool
}

func newProgressLine(out io.Writer) *progressLine {
	file, ok := out.(*os.File)
	return &progressLine{out: out, live: ok && term.IsTerminal(int(file.Fd()))}
}

const eraseLine = "\r\x1b[K"

// Show replaces the line.
func (p *progressLine) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return
	}
	if runes, columns := []rune(text), width(p.out); len(runes) >= columns {
		text = string(runes[:columns-1])
	}
	fmt.Fprint(p.out, eraseLine, text)
}

// Clear removes the line.
func (p *progressLine) Clear() { p.Show("") }

// Write implements io.Writer.
func (p *progressLine) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, eraseLine)
	}
	return p.out.Write(b)
}
