package report

import (
	"math"
	"slices"
	"strings"
)

// Row is one line of the comparison: a name and a cell per arm.
type Row struct {
	Name, Unit string
	Cells      []Cell
}

// Cell is one figure as people read it; Value is [Missing] where there is none.
type Cell struct {
	Value string
	// Spread is the lowest and highest round, empty with less than two rounds.
	Spread string
	Trend  Trend
}

// Trend says whether a figure is good news.
type Trend int

// A ratio within 2 % of 1 is Neutral: runs differ by as much on their own.
const (
	Neutral Trend = iota
	Better
	Worse
)

// Figures is the comparison of all arms: latencies and total CPU as medians
// over rounds with their spread, what the endpoints did, and errors.
func (e *Experiment) Figures() []Row {
	rows := []Row{}
	if e.Simulation != nil {
		rows = append(rows, e.row(mean.name, mean.unit, func(a *Arm) Cell { return a.cell(mean) }))
	}
	for _, q := range quantities {
		rows = append(rows, e.row(q.name, q.unit, func(a *Arm) Cell { return a.cell(q) }))
	}
	rows = append(rows,
		e.row("CPU per endpoint", "cores", func(a *Arm) Cell {
			return a.extremes(func(p Endpoint) float64 { return p.CPU }, measured(a.CPU))
		}),
		e.row("requests/s per endpoint", "", func(a *Arm) Cell {
			return a.extremes(func(p Endpoint) float64 { return p.Requests }, a.Requests > 0)
		}),
		e.row("requests", "", func(a *Arm) Cell { return Cell{Value: Count(a.Requests)} }),
		e.row(errorsName, "", func(a *Arm) Cell { return a.errors() }),
	)
	if e.Simulation == nil {
		return rows
	}
	rows = append(rows, e.row(unfinishedName, "", func(a *Arm) Cell { return Cell{Value: Count(a.Unfinished)} }))
	if slices.ContainsFunc(e.Arms, func(a Arm) bool { return a.Grows }) {
		rows = append(rows, e.row(saturatedName, "endpoints", func(a *Arm) Cell { return a.saturated() }))
	}
	return rows
}

const (
	errorsName     = "errors"
	unfinishedName = "unfinished"
	saturatedName  = "saturated"
)

// RatioRows compares each arm with the first: below 1 is better.
func (e *Experiment) RatioRows() []Row {
	return []Row{
		e.row("p50", "ratio", e.ratio(func(r Ratio) float64 { return r.P50 })),
		e.row("p99", "ratio", e.ratio(func(r Ratio) float64 { return r.P99 })),
		e.row("total CPU", "ratio", e.ratio(func(r Ratio) float64 { return r.CPU })),
	}
}

// ByArm is the comparison with a row for each arm, for more of them than fit side by side:
// what stands above the columns, and the rows. Latencies are in ms, CPU in cores; × marks
// ratios to the first arm. What endpoints did is left out, and so is what is 0 for all
// unless something went wrong.
func (e *Experiment) ByArm() (columns []string, rows []Row) {
	for _, a := range e.Arms {
		rows = append(rows, Row{Name: a.Name})
	}
	add := func(name string, of Row) {
		columns = append(columns, name)
		for i, cell := range of.Cells {
			rows[i].Cells = append(rows[i].Cells, cell)
		}
	}
	for _, row := range e.Figures() {
		switch {
		case row.Unit == "ms":
			add(row.Name, row)
		case row.Name == cores.name:
			add("CPU", row)
		case row.Name == errorsName, row.Name == saturatedName, row.Name == unfinishedName && slices.ContainsFunc(row.Cells, func(c Cell) bool { return c.Value != "0" }):
			add(row.Name, row)
		}
	}
	if len(e.Arms) > 1 {
		for _, row := range e.RatioRows() {
			add(strings.TrimPrefix(row.Name, "total ")+" ×", row)
		}
	}
	return columns, rows
}

func (e *Experiment) row(name, unit string, cell func(*Arm) Cell) Row {
	row := Row{Name: name, Unit: unit}
	for i := range e.Arms {
		row.Cells = append(row.Cells, cell(&e.Arms[i]))
	}
	return row
}

func (e *Experiment) ratio(of func(Ratio) float64) func(*Arm) Cell {
	return func(a *Arm) Cell {
		first := &e.Arms[0]
		v := of(e.Ratios[a.Name+"/"+first.Name])
		switch {
		case a == first && a.Requests > 0:
			return Cell{Value: "1"}
		case a == first || a.Requests == 0 || !measured(v):
			return Cell{Value: Missing}
		}
		cell := Cell{Value: fixed(v, 2)}
		switch {
		case v < 0.98:
			cell.Trend = Better
		case v > 1.02:
			cell.Trend = Worse
		}
		return cell
	}
}

// A quantity is measured per round; the arm has the median.
type quantity struct {
	name, unit string
	of         func(Round) float64
}

var (
	mean   = quantity{"mean", "ms", func(r Round) float64 { return r.Mean }}
	median = quantity{"p50", "ms", func(r Round) float64 { return r.P50 }}
	tail   = quantity{"p99", "ms", func(r Round) float64 { return r.P99 }}
	cores  = quantity{"total CPU", "cores", func(r Round) float64 { return r.CPU }}

	quantities = []quantity{
		median,
		{"p90", "ms", func(r Round) float64 { return r.P90 }},
		{"p95", "ms", func(r Round) float64 { return r.P95 }},
		tail,
		{"p99.9", "ms", func(r Round) float64 { return r.P999 }},
		cores,
	}
)

// whole is the arm's medians in the shape of a round.
func (a *Arm) whole() Round {
	return Round{Requests: a.Requests, Errors: a.Errors,
		P50: a.P50, P90: a.P90, P95: a.P95, P99: a.P99, P999: a.P999, CPU: a.CPU, Simulated: a.Simulated}
}

// spread is the lowest and highest of the rounds that measured the quantity.
func (a *Arm) spread(q quantity) (low, high float64, rounds int) {
	for _, round := range a.Rounds {
		v := q.of(round)
		if !measured(v) {
			continue
		}
		if rounds == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
		rounds++
	}
	return low, high, rounds
}

func (a *Arm) cell(q quantity) Cell {
	v := q.of(a.whole())
	if a.Requests == 0 || !measured(v) {
		return Cell{Value: Missing}
	}
	digits := decimals(v)
	cell := Cell{Value: fixed(v, digits)}
	if low, high, rounds := a.spread(q); rounds > 1 {
		cell.Spread = fixed(low, digits) + "–" + fixed(high, digits)
	}
	return cell
}

// extremes is the least and the most that an endpoint had.
func (a *Arm) extremes(of func(Endpoint) float64, known bool) Cell {
	low, high := math.Inf(1), math.Inf(-1)
	for _, endpoint := range a.Endpoints {
		if v := of(endpoint); rate(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if !known || low > high {
		return Cell{Value: Missing}
	}
	digits := decimals(high)
	return Cell{Value: fixed(low, digits) + ".." + fixed(high, digits)}
}

func (a *Arm) errors() Cell {
	switch {
	case a.Requests == 0:
		return Cell{Value: Missing}
	case a.Errors == 0:
		return Cell{Value: "0"}
	}
	return Cell{Value: Count(a.Errors), Trend: Worse}
}

func (a *Arm) saturated() Cell {
	cell := Cell{Value: Count(uint64(a.Saturated))}
	if a.Saturated > 0 {
		cell.Trend = Worse
	}
	return cell
}
