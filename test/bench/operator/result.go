package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"time"
)

// result is what was measured. Its JSON is for scripts that compare runs.
type result struct {
	plan plan

	Policies  int `json:"policies"`
	Endpoints int `json:"endpoints"`

	// Up to the first entries.
	ReadySeconds    float64 `json:"ready_seconds"`
	EnforcedSeconds float64 `json:"enforced_seconds"`
	StartCPUSeconds float64 `json:"start_cpu_seconds"`
	StartPeakBytes  int64   `json:"start_peak_bytes"`
	SettlingCycles  int     `json:"settling_cycles"`

	// While nothing changed.
	Cycles           float64 `json:"cycles"`
	CycleCPUSeconds  float64 `json:"cycle_cpu_seconds"`
	StoreCPUSeconds  float64 `json:"store_cpu_seconds_per_cycle"`
	SteadyBytes      int64   `json:"steady_bytes"`
	SteadyPeakBytes  int64   `json:"steady_peak_bytes"`
	SteadyWrites     float64 `json:"steady_writes"`
	QueriesPerMetric float64 `json:"queries_per_metric_and_cycle"`

	// While endpoints changed.
	Offered        float64            `json:"changes_offered_per_second"`
	Absorbed       float64            `json:"changes_absorbed_per_second"`
	Lost           int                `json:"changes_lost"`
	Latency        latency            `json:"event_to_write"`
	OwnP99Seconds  number             `json:"own_p99_seconds"`
	ChurnPeakBytes int64              `json:"churn_peak_bytes"`
	ChurnWrites    map[string]float64 `json:"writes_per_change"`
	Cores          map[string]float64 `json:"cores"`

	Rows []row `json:"rows"`
}

// latency is from an EndpointSlice's event to the entry's write, both as a client
// sees them.
type latency struct {
	Changes    int    `json:"changes"`
	P50Seconds number `json:"p50_seconds"`
	P99Seconds number `json:"p99_seconds"`
	MaxSeconds number `json:"max_seconds"`
}

// summarize takes latencies, shortest first. Changes that were lost count as longer
// than all of them.
func summarize(sorted []time.Duration, lost int) latency {
	n := len(sorted) + lost
	at := func(q float64) number {
		i := max(0, int(math.Ceil(q*float64(n)))-1)
		if n == 0 {
			return number(math.NaN())
		}
		if i >= len(sorted) {
			return number(math.Inf(1))
		}
		return number(sorted[i].Seconds())
	}
	return latency{n, at(0.5), at(0.99), at(1)}
}

// number may be unknown or without bound, which JSON's may not: it is a string then.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return json.Marshal(float64(n))
}

// cores is how many CPUs each user kept busy.
func (u usage) cores(took time.Duration) map[string]float64 {
	cores := make(map[string]float64, len(u))
	for who, t := range u {
		cores[who] = t.Seconds() / took.Seconds()
	}
	return cores
}

// row is one line of the table. A bound is the most that is aimed for, or the least.
type row struct {
	What     string  `json:"what"`
	Measured number  `json:"measured"`
	Unit     string  `json:"unit,omitempty"`
	Bound    *number `json:"bound,omitempty"`
	Least    bool    `json:"bound_is_least,omitempty"`
	Held     bool    `json:"held"`
}

func most(what string, measured, bound float64, unit string) row {
	b := number(bound)
	return row{What: what, Measured: number(measured), Unit: unit, Bound: &b, Held: measured <= bound} // NaN does not hold
}

func least(what string, measured, bound float64, unit string) row {
	b := number(bound)
	return row{What: what, Measured: number(measured), Unit: unit, Bound: &b, Least: true, Held: measured >= bound}
}

func plain(what string, measured float64, unit string) row {
	return row{What: what, Measured: number(measured), Unit: unit, Held: true}
}

// rows are the table, with what must be reached at 1,000 policies of 100 endpoints.
func (r *result) rows() []row {
	const megabyte = 1e6
	mb := func(bytes int64) float64 { return float64(bytes) / megabyte }
	rows := []row{
		plain("start: until it is ready", r.ReadySeconds, "s"),
		plain("start: until every service has its entry", r.EnforcedSeconds, "s"),
		plain("start: CPU time until then", r.StartCPUSeconds, "s"),
		plain("start: resident memory, highest", mb(r.StartPeakBytes), "MB"),
		most("cycle: CPU time of a full one", r.CycleCPUSeconds, 5, "s"),
		plain("cycle: CPU time of the store", r.StoreCPUSeconds, "s"),
		most("cycle: queries per metric", r.QueriesPerMetric, 1, ""),
		most(fmt.Sprintf("cycle: writes in %.0f without a change", r.Cycles), r.SteadyWrites, 0, ""),
		most("cycle: resident memory, highest", mb(r.SteadyPeakBytes), 600, "MB"),
		// The changes begin one after the other; a late last one makes the rate a bit less.
		least("churn: changes offered", r.Offered, 0.99*float64(r.plan.changes), "/s"),
		plain("churn: changes absorbed meanwhile", r.Absorbed, "/s"),
		most("churn: changes lost", float64(r.Lost), 0, ""),
		plain("churn: event to write, median", float64(r.Latency.P50Seconds), "s"),
		most("churn: event to write, p99", float64(r.Latency.P99Seconds), 1, "s"),
		plain("churn: event to write, longest", float64(r.Latency.MaxSeconds), "s"),
		plain("churn: the operator's own p99, at most", float64(r.OwnP99Seconds), "s"),
		most("churn: resident memory, highest", mb(r.ChurnPeakBytes), 600, "MB"),
	}
	for _, resource := range written {
		rows = append(rows, plain("churn: writes per change, "+resource, r.ChurnWrites[resource], ""))
	}
	for _, who := range users {
		rows = append(rows, plain(fmt.Sprintf("churn: of %d cores, %s", runtime.NumCPU(), who), r.Cores[who], "cores"))
	}
	return rows
}

func (r *result) writeTable(to io.Writer) error {
	fmt.Fprintf(to, "%d policies of %d endpoints, an interval of %s, GOMEMLIMIT=%s\n", r.plan.policies, r.plan.endpoints, r.plan.interval, r.plan.memoryLimit)
	fmt.Fprintf(to, "%-44s %14s %14s %10s\n", "", "measured", "bound", "of bound")
	for _, row := range r.rows() {
		if _, err := fmt.Fprintln(to, row.line()); err != nil {
			return err
		}
	}
	return nil
}

func (r row) line() string {
	line := fmt.Sprintf("%-44s %8.3g %-5s", r.What, float64(r.Measured), r.Unit)
	if r.Bound == nil {
		return line
	}
	sign, ratio := "≤", "-"
	if r.Least {
		sign = "≥"
	}
	if *r.Bound != 0 {
		ratio = fmt.Sprintf("%.2f", float64(r.Measured / *r.Bound))
	}
	line += fmt.Sprintf(" %14s %10s", fmt.Sprintf("%s %.4g %s", sign, float64(*r.Bound), r.Unit), ratio)
	if !r.Held {
		line += "   MISSED"
	}
	return line
}

func (r *result) writeJSON(to io.Writer) error {
	r.Policies, r.Endpoints, r.Rows = r.plan.policies, r.plan.endpoints, r.rows()
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
