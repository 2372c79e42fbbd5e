package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// printed is what a printer writes.
func printed(t testing.TB, o Options, write func(*Printer)) string {
	t.Helper()
	var out bytes.Buffer
	p := New(&out, o)
	write(p)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parts       []Text
		plain, with string
	}{
		{nil, "", ""},
		{[]Text{Normal.Text("a"), Bold.Text("b"), Red.Text(" ")}, "ab", "a\x1b[1mb\x1b[0m"},
		{[]Text{Bold.Text("a  "), Normal.Text("  ")}, "a", "\x1b[1ma\x1b[0m"},
		{[]Text{Bold.Text("  "), Green.Text("b")}, "  b", "  \x1b[32mb\x1b[0m"},
		{[]Text{Faint.Text("a\x1b[2J\u202e"), Normal.Text("\r\a")}, "a[2J", "\x1b[2ma[2J\x1b[0m"},
		{[]Text{Normal.Text("one\ntwo\tthree")}, "one two three", "one two three"},
		{[]Text{Style("38;5;208;48;5;17").Text("own")}, "own", "\x1b[38;5;208;48;5;17mown\x1b[0m"},
	} {
		line := func(p *Printer) { p.Line(tt.parts...) }
		if got := printed(t, Options{}, line); got != tt.plain+"\n" {
			t.Errorf("%q without colours: %q, want %q", tt.parts, got, tt.plain)
		}
		if got := printed(t, Options{Color: true}, line); got != tt.with+"\n" {
			t.Errorf("%q with colours: %q, want %q", tt.parts, got, tt.with)
		}
	}
}

func TestParagraphs(t *testing.T) {
	t.Parallel()
	const text = "the quick  brown\nfox jumps over"
	for _, tt := range []struct {
		width              int
		paragraph, hanging string
	}{
		{0, "- the quick brown fox jumps over\n", "the quick brown fox jumps over\n"},
		{14, "- the quick\n  brown fox\n  jumps over\n", "the quick\n  brown fox\n  jumps over\n"},
		{1, "- the\n  quick\n  brown\n  fox\n  jumps\n  over\n", "the\n  quick\n  brown\n  fox\n  jumps\n  over\n"},
	} {
		o := Options{Width: tt.width}
		if got := printed(t, o, func(p *Printer) { p.Item(Normal.Text("- "), Bold.Text(text)) }); got != tt.paragraph {
			t.Errorf("in %d columns %q, want %q", tt.width, got, tt.paragraph)
		}
		if got := printed(t, o, func(p *Printer) { p.Paragraph(Bold.Text(text), 2) }); got != tt.hanging {
			t.Errorf("hanging in %d columns %q, want %q", tt.width, got, tt.hanging)
		}
	}
	if got := printed(t, Options{Width: 9}, func(p *Printer) { p.Paragraph(Text{}, 0) }); got != "\n" {
		t.Errorf("an empty paragraph is %q, want one line", got)
	}
}

func TestCutting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text                        string
		n                           int
		fit, shorten, elide, ending string
	}{
		{"größer", 6, "größer", "größer", "größer", "größer"},
		{"größer", 8, "größer  ", "größer", "größer", "größer"},
		{"größer", 5, "größ…", "größ…", "gr…er", "…ößer"},
		{"größer", 2, "g…", "g…", "g…", "…r"},
		{"größer", 1, "…", "…", "…", "…"},
	} {
		got := []string{Fit(tt.text, tt.n), Shorten(tt.text, tt.n), Elide(tt.text, tt.n), tail(tt.text, tt.n)}
		if diff := cmp.Diff([]string{tt.fit, tt.shorten, tt.elide, tt.ending}, got); diff != "" {
			t.Errorf("%q in %d (-want +got):\n%s", tt.text, tt.n, diff)
		}
	}
	for _, n := range []int{0, -1} {
		if got := Shorten("a", n) + Elide("abc", n); got != "" {
			t.Errorf("in %d characters there is %q", n, got)
		}
	}
}

// table has a row across, short rows, an empty one, and a cell that does not count.
func table() [][]Text {
	return [][]Text{
		Row("cart-7d9f6c5b8-00001", "12", "30 %", "no sample is younger than a minute"),
		Row("a row across all of the columns, however long it is, is left alone"),
		Row("cart-2", "1234"),
		nil,
		Row("cart-3", "7", "5 %", "warming up"),
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	columns := []Column{{Title: "pod", Tail: true}, {Title: "weight", Right: true}, {Title: "share", Right: true, Spare: 1}, {Title: "why", Wrap: true}}
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, `
pod                   weight  share  why
cart-7d9f6c5b8-00001      12   30 %  no sample is younger than a minute
a row across all of the columns, however long it is, is left alone
cart-2                  1234

cart-3                     7    5 %  warming up
`},
		{62, `
pod                   weight  share  why
cart-7d9f6c5b8-00001      12   30 %  no sample is younger than
                                     a minute
a row across all of the columns, however long it is, is left alone
cart-2                  1234

cart-3                     7    5 %  warming up
`},
		{52, `
pod                   weight  why
cart-7d9f6c5b8-00001      12  no sample is younger
                              than a minute
a row across all of the columns, however long it is, is left alone
cart-2                  1234

cart-3                     7  warming up
`},
		{45, `
pod              weight  why
…d9f6c5b8-00001      12  no sample is younger
                         than a minute
a row across all of the columns, however long it is, is left alone
cart-2             1234

cart-3                7  warming up
`},
		{3, `
pod           weight  why
…6c5b8-00001      12  no sample is younger
                      than a minute
a row across all of the columns, however long it is, is left alone
cart-2          1234

cart-3             7  warming up
`},
	} {
		got := "\n" + printed(t, Options{Width: tt.width}, func(p *Printer) { p.Table(columns, table()) })
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("in %d columns (-want +got):\n%s", tt.width, diff)
		}
	}
	if diff := cmp.Diff(Column{Title: "share", Right: true, Spare: 1}, columns[2]); diff != "" {
		t.Errorf("the caller's columns changed (-want +got):\n%s", diff)
	}
}

func TestFiguresStandOnTheRight(t *testing.T) {
	t.Parallel()
	rows := table()
	const want = `
cart-7d9f6c5b8-00001    12  30 %  no sample is younger than a minute
a row across all of the columns, however long it is, is left alone
cart-2                1234

cart-3                   7   5 %                          warming up
`
	got := "\n" + printed(t, Options{Width: 10}, func(p *Printer) { p.Table(Figures(4), rows) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a table without columns to spare (-want +got):\n%s", diff)
	}
	if got, want := TableWidth(rows), 68; got != want {
		t.Errorf("it is %d wide, want %d", got, want)
	}
	if len(Figures(0)) > 0 || TableWidth(nil) != 0 {
		t.Error("a table without columns has some")
	}
}

// Colours are for people, unless they do not want them.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name, noColor, term string
		want                bool
	}{{"terminal", "", "xterm", true}, {"NO_COLOR", "1", "xterm", false}, {"dumb", "", "dumb", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tt.noColor)
			t.Setenv("TERM", tt.term)
			if got, want := Of(openTerminal(t, 57), 80), (Options{tt.want, 57}); got != want {
				t.Errorf("a terminal of 57 columns is %+v, want %+v", got, want)
			}
			if got, want := Of(openTerminal(t, 0), 80), (Options{tt.want, 80}); got != want {
				t.Errorf("a terminal that does not tell is %+v, want %+v", got, want)
			}
		})
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []any{file, &bytes.Buffer{}} {
		if got := Of(w.(interface{ Write([]byte) (int, error) }), 0); got != (Options{}) {
			t.Errorf("%T is %+v, want no terminal", w, got)
		}
	}
}

// openTerminal returns the program's side of a pseudo-terminal.
func openTerminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { control.Close() })
	fd := int(control.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return terminal
}

func TestWriteErrorsAreKept(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	p := New(failing{full}, Options{})
	p.Line(Normal.Text(strings.Repeat("x", 100_000)))
	p.Table(nil, table())
	if err := p.Flush(); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

// Whatever the texts, nothing moves the cursor, and what can be broken or left out fits.
func FuzzPrinter(f *testing.F) {
	f.Add("no\x1b[2Jsample\r\n\tyounger", "cart-7d9f6c5b8-00001", 40)
	f.Add("", "", 0)
	f.Add("\xff\u202e wide", "a b c d e f g", -3)
	f.Add("x", "warming up after a start that took long", 1)
	f.Fuzz(func(t *testing.T, name, text string, width int) {
		width %= 300
		got := printed(t, Options{Width: width}, func(p *Printer) {
			p.Item(Normal.Text(Fit(name, 4)), Bold.Text(text))
			p.Paragraph(Bold.Text(text), 3)
			p.Table([]Column{{Title: name, Tail: true}, {Spare: 1}, {Wrap: true}}, [][]Text{
				{Normal.Text(name), Normal.Text(text), Normal.Text(text)}, {Normal.Text(text)}, nil, {Normal.Text(name), Normal.Text(text)},
				{Normal.Text(Elide(text, width)), Normal.Text(Shorten(text, width))},
			})
		})
		if !utf8.ValidString(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		for _, r := range got {
			if r != '\n' && Plain(string(r)) == "" {
				t.Fatalf("%q has the character %q", got, r)
			}
		}
		for line := range strings.Lines(printed(t, Options{Width: width}, func(p *Printer) {
			p.Table([]Column{{Tail: true}, {Spare: 1}, {Wrap: true}}, [][]Text{{Normal.Text(name), Normal.Text(text), Normal.Text("one two")}})
		})) {
			if n := utf8.RuneCountInString(line) - 1; width >= leastTail+Gap+leastWrap && n > width {
				t.Fatalf("%d characters in %d columns: %q", n, width, line)
			}
		}
	})
}
