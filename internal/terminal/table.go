package terminal

import (
	"slices"
	"unicode/utf8"
)

// Column is how one column of a table is drawn.
type Column struct {
	// Title stands above it, if any.
	Title string
	// Right aligns numbers.
	Right bool
	// Spare is the order in which columns are left out where there is no room: the
	// highest first, 0 never.
	Spare int
	// Tail lets a column that still has no room show the ends of its texts only: pods of
	// one service differ there.
	Tail bool
	// Wrap lets the last column continue on further lines.
	Wrap bool
}

const (
	// Gap is the number of spaces between columns.
	Gap = 2
	// leastTail is as far as a column's texts are cut, and leastWrap the width that the
	// last column keeps.
	leastTail = 12
	leastWrap = 20
)

// Figures are the columns of a table of so many: names on the left, and figures.
func Figures(columns int) []Column {
	all := slices.Repeat([]Column{{Right: true}}, columns)
	if columns > 0 {
		all[0].Right = false
	}
	return all
}

// Table writes rows under the columns' titles, if they have any. Of what the columns do
// not describe, texts are aligned on the left. A row may end before the last column; one
// of a single cell stands across the columns, and one of none is an empty line. Colours
// are put around texts without their padding.
func (p *Printer) Table(columns []Column, rows [][]Text) {
	rows = withTitles(columns, clean(rows))
	columns = append(slices.Clone(columns), make([]Column, max(0, longest(rows)-len(columns)))...)
	columns, rows = p.fit(columns, rows)
	widths := Widths(rows)
	for _, row := range rows {
		if len(row) > 1 {
			p.row(columns, widths, row)
		} else {
			p.Line(row...)
		}
	}
}

// longest is how many cells the longest of the rows has.
func longest(rows [][]Text) int {
	n := 0
	for _, row := range rows {
		n = max(n, len(row))
	}
	return n
}

func withTitles(columns []Column, rows [][]Text) [][]Text {
	header := make([]Text, len(columns))
	titled := false
	for i, c := range columns {
		header[i] = Faint.Text(c.Title)
		titled = titled || c.Title != ""
	}
	if !titled {
		return rows
	}
	return append([][]Text{header}, rows...)
}

// row writes one row, in several lines where its last cell wraps.
func (p *Printer) row(columns []Column, widths []int, row []Text) {
	last := len(columns) - 1
	var more []string
	if columns[last].Wrap && p.Width > 0 && len(row) > last {
		lines := Wrap(row[last].Text, max(p.Width-total(widths[:last])-Gap, leastWrap))
		row = append(slices.Clone(row[:last]), row[last].Style.Text(lines[0]))
		more = lines[1:]
	}
	var parts []Text
	for i, cell := range row {
		if i > 0 {
			parts = append(parts, spaces(Gap))
		}
		padding := spaces(widths[i] - utf8.RuneCountInString(cell.Text))
		if columns[i].Right {
			parts = append(parts, padding, cell)
		} else {
			parts = append(parts, cell, padding)
		}
	}
	p.Line(parts...)
	for _, line := range more {
		p.Line(spaces(total(widths[:last])+Gap), row[last].Style.Text(line))
	}
}

// fit leaves out columns, then cuts the texts of one, until a table fits.
func (p *Printer) fit(columns []Column, rows [][]Text) ([]Column, [][]Text) {
	if p.Width <= 0 {
		return columns, rows
	}
	for {
		over := total(least(columns, rows)) - p.Width
		if over <= 0 {
			return columns, rows
		}
		out := -1
		for i, c := range columns {
			if c.Spare > 0 && (out < 0 || c.Spare > columns[out].Spare) {
				out = i
			}
		}
		if out < 0 {
			cut(columns, rows, over)
			return columns, rows
		}
		columns, rows = without(columns, rows, out)
	}
}

// least are the widths that columns need.
func least(columns []Column, rows [][]Text) []int {
	widths := Widths(rows)
	if last := len(columns) - 1; last >= 0 && last < len(widths) && columns[last].Wrap {
		widths[last] = min(widths[last], leastWrap)
	}
	return widths
}

// without returns the table without one of its columns, as a copy.
func without(columns []Column, rows [][]Text, out int) ([]Column, [][]Text) {
	shorter := make([][]Text, len(rows))
	for i, row := range rows {
		shorter[i] = row
		if out < len(row) && !across(row, len(columns)) {
			shorter[i] = slices.Delete(slices.Clone(row), out, out+1)
		}
	}
	return slices.Delete(slices.Clone(columns), out, out+1), shorter
}

// cut makes the first column of which the ends are enough so much narrower.
func cut(columns []Column, rows [][]Text, over int) {
	widths := Widths(rows)
	column := slices.IndexFunc(columns, func(c Column) bool { return c.Tail })
	if column < 0 || column >= len(widths) {
		return
	}
	width := max(leastTail, widths[column]-over)
	for _, row := range rows {
		if column < len(row) && !across(row, len(columns)) {
			row[column].Text = tail(row[column].Text, width)
		}
	}
}

// clean returns a copy of the rows in which nothing moves the cursor.
func clean(rows [][]Text) [][]Text {
	copied := make([][]Text, len(rows))
	for i, row := range rows {
		copied[i] = make([]Text, len(row))
		for k, cell := range row {
			copied[i][k] = cell.Style.Text(Plain(cell.Text))
		}
	}
	return copied
}

// Widths are the numbers of characters that the columns of a table have.
func Widths(rows [][]Text) []int {
	widths := make([]int, longest(rows))
	for _, row := range rows {
		if across(row, len(widths)) {
			continue
		}
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(Plain(cell.Text)))
		}
	}
	return widths
}

// across tells whether a row stands across so many columns.
func across(row []Text, columns int) bool { return len(row) == 1 && columns > 1 }

// TableWidth is how wide a table is of which nothing is left out.
func TableWidth(rows [][]Text) int { return total(Widths(rows)) }

func total(widths []int) int {
	sum := Gap * max(0, len(widths)-1)
	for _, w := range widths {
		sum += w
	}
	return sum
}
