package cli

import (
	"fmt"
	"io"
	"sync"

	"taper.dev/taper/internal/terminal"
)

// plainWidth is assumed where there is no terminal to ask.
const plainWidth = 100

// progressLine is a line on a terminal that is written over again and again. What
// else is written through it, such as a log, goes above. It shows nothing where
// there is no terminal.
type progressLine struct {
	mu   sync.Mutex
	out  io.Writer
	live bool
}

func newProgressLine(out io.Writer) *progressLine {
	return &progressLine{out: out, live: terminal.Is(out)}
}

const eraseLine = "\r\x1b[K"

// Show replaces the line.
func (p *progressLine) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return
	}
	if runes, columns := []rune(text), terminal.Width(p.out, plainWidth); len(runes) >= columns {
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
