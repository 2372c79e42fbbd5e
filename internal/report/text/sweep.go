package text

import (
	"io"
	"strconv"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// Sweep writes what a sweep found. The error is the writer's.
func Sweep(w io.Writer, s *report.Sweep, opts terminal.Options) error {
	out := &printer{terminal.New(w, opts)}
	out.Paragraph(terminal.Bold.Text(s.Verdict()), 0)
	out.Paragraph(terminal.Faint.Text(s.Conditions()), 0)
	out.about(&s.Simulation)
	for _, q := range report.Quantities {
		out.swept(s, q.Name+", "+q.Unit, s.Rows(q))
	}
	if failed := s.Failures(); len(failed) > 0 {
		out.swept(s, "errors", failed)
	}
	out.remarks(s.Remarks())
	if command := s.Command(); command != "" {
		out.Line()
		out.command(command)
	}
	return out.Flush()
}

// swept is a table of one quantity: a row for each arm and a column for each value, or the
// other way round where only that fits. The spread of the rounds is there if there is room.
func (p *printer) swept(s *report.Sweep, title string, rows []report.Row) {
	fits := func(table [][]terminal.Text) bool { return p.Width <= 0 || terminal.TableWidth(table) <= p.Width }
	table := sweepTable(s, rows, true)
	if !fits(table) {
		table = sweepTable(s, rows, false)
	}
	if turned := transposed(table); !fits(table) && terminal.TableWidth(turned) < terminal.TableWidth(table) {
		table = turned
	}
	p.Line()
	p.Line(terminal.Bold.Text(title))
	p.Table(terminal.Figures(len(table[0])), table)
}

func sweepTable(s *report.Sweep, rows []report.Row, spread bool) [][]terminal.Text {
	header := []terminal.Text{terminal.Faint.Text(s.Parameter)}
	for _, v := range s.Values {
		header = append(header, terminal.Faint.Text(strconv.FormatFloat(v, 'g', -1, 64)))
	}
	table := [][]terminal.Text{header}
	for _, row := range rows {
		table = append(table, cells(row, spread))
	}
	return table
}

// transposed has the columns of a table of equally long rows as its rows.
func transposed(table [][]terminal.Text) [][]terminal.Text {
	turned := make([][]terminal.Text, len(table[0]))
	for i := range turned {
		for _, row := range table {
			turned[i] = append(turned[i], row[i])
		}
	}
	return turned
}
