package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sweep is the same simulation at several values of one parameter. Its JSON form is a
// contract as that of [Experiment] is.
type Sweep struct {
	// Scenario is the file's name.
	Scenario   string     `json:"scenario"`
	Started    time.Time  `json:"started"`
	Settings   Settings   `json:"settings"`
	Simulation Simulation `json:"simulation"`
	// Parameter is what is varied.
	Parameter string     `json:"parameter"`
	Values    []float64  `json:"values"`
	Arms      []SweptArm `json:"arms"`
}

// SweptArm is one way to balance, at each of [Sweep.Values].
type SweptArm struct {
	Name string `json:"name"`
	// Bound is as [Arm.Bound].
	Bound  bool    `json:"bound,omitempty"`
	Points []Point `json:"points"`
}

// Point is what an arm came to at one value. Counts are summed over rounds.
type Point struct {
	Value      float64 `json:"value"`
	Requests   uint64  `json:"requests"`
	Errors     uint64  `json:"errors"`
	Unfinished uint64  `json:"unfinished"`
	Grows      bool    `json:"grows,omitempty"`
	P50        Spread  `json:"p50_ms"`
	P99        Spread  `json:"p99_ms"`
	CPU        Spread  `json:"cpu_cores"`
}

// Spread is the median of the rounds, with the lowest and the highest of them. All are 0
// where nothing was answered.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// NewPoint is what an arm whose rounds are concluded came to.
func NewPoint(value float64, a *Arm) Point {
	spread := func(q quantity) Spread {
		low, high, _ := a.spread(q)
		return Spread{Median: q.of(a.whole()), Low: low, High: high}
	}
	return Point{
		Value: value, Requests: a.Requests, Errors: a.Errors, Unfinished: a.Unfinished, Grows: a.Grows,
		P50: spread(median), P99: spread(tail), CPU: spread(cores),
	}
}

// WriteJSON writes the sweep as the contract has it.
func (s *Sweep) WriteJSON(w io.Writer) error { return writeJSON(w, s) }

// WriteCSV writes a line for each arm at each value, under a line of names.
func (s *Sweep) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	records := [][]string{{
		"parameter", "value", "arm", "requests", "errors", "unfinished", "grows",
		"p50_ms", "p50_low_ms", "p50_high_ms", "p99_ms", "p99_low_ms", "p99_high_ms", "cpu_cores", "cpu_low_cores", "cpu_high_cores",
	}}
	for _, a := range s.Arms {
		for _, p := range a.Points {
			record := []string{
				s.Parameter, shortest(p.Value), a.Name, strconv.FormatUint(p.Requests, 10), strconv.FormatUint(p.Errors, 10),
				strconv.FormatUint(p.Unfinished, 10), strconv.FormatBool(p.Grows),
			}
			for _, spread := range []Spread{p.P50, p.P99, p.CPU} {
				record = append(record, shortest(spread.Median), shortest(spread.Low), shortest(spread.High))
			}
			records = append(records, record)
		}
	}
	return out.WriteAll(records)
}

// Quantity is what the points of a sweep are compared by.
type Quantity struct {
	ID, Name, Unit string
	Of             func(Point) Spread
}

// The quantities that are shown.
var (
	sweptMedian = Quantity{"p50", "p50", "ms", func(p Point) Spread { return p.P50 }}
	sweptTail   = Quantity{"p99", "p99", "ms", func(p Point) Spread { return p.P99 }}
	sweptCores  = Quantity{"cores", "total CPU", "cores", func(p Point) Spread { return p.CPU }}

	Quantities = []Quantity{sweptTail, sweptCores, sweptMedian}
)

// Rows has a row for each arm and a cell for each value.
func (s *Sweep) Rows(q Quantity) []Row {
	var rows []Row
	for _, a := range s.Arms {
		row := Row{Name: a.Name}
		for _, p := range a.Points {
			row.Cells = append(row.Cells, p.cell(q.Of(p)))
		}
		rows = append(rows, row)
	}
	return rows
}

// Growing marks a figure of an arm with queues that may grow without bound.
const Growing = "*"

func (p Point) cell(s Spread) Cell {
	if p.Requests == 0 || !measured(s.Median) {
		return Cell{Value: Missing}
	}
	digits := decimals(s.Median)
	cell := Cell{Value: fixed(s.Median, digits)}
	if p.Grows {
		cell.Value, cell.Trend = cell.Value+Growing, Worse
	}
	if s.Low < s.High {
		cell.Spread = fixed(s.Low, digits) + "–" + fixed(s.High, digits)
	}
	return cell
}

// Failures has a row for each arm and a cell for each value; it is empty if no request
// failed.
func (s *Sweep) Failures() []Row {
	var rows []Row
	failed := false
	for _, a := range s.Arms {
		row := Row{Name: a.Name}
		for _, p := range a.Points {
			cell := Cell{Value: Count(p.Errors)}
			if p.Errors > 0 {
				cell.Trend, failed = Worse, true
			}
			row.Cells = append(row.Cells, cell)
		}
		rows = append(rows, row)
	}
	if !failed {
		return nil
	}
	return rows
}

// Remarks are sentences that a reader of the figures needs to know.
func (s *Sweep) Remarks() []string {
	remarks := slices.Clone(s.Simulation.Notes)
	for _, a := range s.Arms {
		if slices.ContainsFunc(a.Points, func(p Point) bool { return p.Grows }) {
			return append(remarks, Growing+" Endpoints are saturated there: queues may grow without bound, and latencies then depend on how long was measured.")
		}
	}
	return remarks
}

// Verdict says in one sentence which arm has the lowest p99 at most values, and how it
// compares with the first.
func (s *Sweep) Verdict() string {
	over := fmt.Sprintf("Sweep of %s over %s", s.Parameter, s.Scenario)
	wins := s.wins()
	best, most := -1, 0
	for i, n := range wins {
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return over + ": no verdict, as no arm answered a request."
	}
	where := fmt.Sprintf("at %d of %d values", most, len(s.Values))
	if most == len(s.Values) {
		where = "at every value"
	}
	sentence := fmt.Sprintf("%s: %s has the lowest p99 %s", over, s.Arms[best].Name, where)
	if best == 0 || len(s.Arms) < 2 {
		return sentence + "."
	}
	return fmt.Sprintf("%s, %s that of %s, with %s its CPU.", sentence,
		s.times(best, sweptTail), s.Arms[0].Name, s.times(best, sweptCores))
}

// wins counts for each arm at how many values it has the lowest p99, of those that are no
// bounds and fail fewest requests.
func (s *Sweep) wins() []int {
	wins := make([]int, len(s.Arms))
	for v := range s.Values {
		best := -1
		for i := range s.Arms {
			if s.Arms[i].Bound || v >= len(s.Arms[i].Points) || !measured(s.Arms[i].Points[v].P99.Median) {
				continue
			}
			if best < 0 || s.Arms[i].Points[v].better(s.Arms[best].Points[v]) {
				best = i
			}
		}
		if best >= 0 {
			wins[best]++
		}
	}
	return wins
}

// better tells whether one is to be preferred to another: as [Experiment.best] does.
func (p Point) better(than Point) bool {
	a, b := failedPart(p.Errors, p.Requests), failedPart(than.Errors, than.Requests)
	return a < b || a == b && p.P99.Median < than.P99.Median
}

// times is an arm's figures over the first's, lowest and highest.
func (s *Sweep) times(arm int, q Quantity) string {
	low, high := math.Inf(1), math.Inf(-1)
	for v, p := range s.Arms[arm].Points {
		if v >= len(s.Arms[0].Points) {
			break
		}
		if ratio := q.Of(p).Median / q.Of(s.Arms[0].Points[v]).Median; measured(ratio) {
			low, high = min(low, ratio), max(high, ratio)
		}
	}
	switch {
	case low > high:
		return Missing + " times"
	case fixed(low, 2) == fixed(high, 2):
		return fixed(low, 2) + " times"
	}
	return fmt.Sprintf("%s to %s times", fixed(low, 2), fixed(high, 2))
}

// Command is the command line that repeats the sweep, or "" where its source is not known.
func (s *Sweep) Command() string {
	if s.Simulation.Source == "" {
		return ""
	}
	var values, arms []string
	for _, v := range s.Values {
		values = append(values, shortest(v))
	}
	for _, a := range s.Arms {
		arms = append(arms, a.Name)
	}
	command := fmt.Sprintf("taper sim sweep %s --vary %s --values %s", word(s.Simulation.Source), s.Parameter, strings.Join(values, ","))
	if s.Simulation.Chosen {
		command += " --arms " + word(strings.Join(arms, ","))
	}
	return fmt.Sprintf("%s --rounds %d --seed %d", command, s.Settings.Rounds, s.Settings.Seed)
}

// Conditions says in one line what was run, apart from what was varied.
func (s *Sweep) Conditions() string {
	e := Experiment{Settings: s.Settings, Simulation: &s.Simulation}
	switch s.Parameter {
	case "proxies":
		e.Settings.Proxies = 0
	case "load":
		e.Settings.RatePerS = 0
		return fmt.Sprintf("%s requests/s at load 1, %s", Number(s.Settings.RatePerS), e.Conditions())
	}
	return e.Conditions()
}
