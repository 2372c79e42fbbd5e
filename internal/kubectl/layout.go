package kubectl

import (
	"io"

	"taper.dev/taper/internal/terminal"
)

// printer writes what people read: a method for each view.
type printer struct{ *terminal.Printer }

// newPrinter is for what is at the other end: a terminal, or a file without a limit.
func newPrinter(w io.Writer) *printer { return &printer{terminal.New(w, terminal.Of(w, 0))} }

// factColumns are those of names and what is said of them.
var factColumns = []terminal.Column{{Tail: true}, {Wrap: true}}
