package report

import (
	"math"
	"slices"
)

// Conclude fills in the medians and sums of an arm's rounds.
func (a *Arm) Conclude() {
	medianOf := func(of func(Round) float64) float64 {
		values := make([]float64, len(a.Rounds))
		for i, r := range a.Rounds {
			values[i] = of(r)
		}
		return Median(values)
	}
	for _, r := range a.Rounds {
		a.Requests += r.Requests
		a.Errors += r.Errors
		a.Unfinished += r.Unfinished
		a.Grows, a.Saturated = a.Grows || r.Grows, max(a.Saturated, r.Saturated)
	}
	a.Mean = medianOf(func(r Round) float64 { return r.Mean })
	a.P50 = medianOf(func(r Round) float64 { return r.P50 })
	a.P90 = medianOf(func(r Round) float64 { return r.P90 })
	a.P95 = medianOf(func(r Round) float64 { return r.P95 })
	a.P99 = medianOf(func(r Round) float64 { return r.P99 })
	a.P999 = medianOf(func(r Round) float64 { return r.P999 })
	a.CPU = medianOf(func(r Round) float64 { return r.CPU })
}

// Compare fills in [Experiment.Ratios], round by round: a round's arms had the same luck,
// with requests or with the machine.
func (e *Experiment) Compare() {
	e.Ratios = map[string]Ratio{}
	first := e.Arms[0]
	for _, a := range e.Arms[1:] {
		var p50, p99, cpu []float64
		for i, r := range a.Rounds {
			if first.Rounds[i].P50 == 0 || first.Rounds[i].CPU == 0 {
				continue // no request was answered: there is nothing to compare with
			}
			p50 = append(p50, r.P50/first.Rounds[i].P50)
			p99 = append(p99, r.P99/first.Rounds[i].P99)
			cpu = append(cpu, r.CPU/first.Rounds[i].CPU)
		}
		if len(p50) == 0 {
			continue
		}
		e.Ratios[a.Name+"/"+first.Name] = Ratio{P50: Median(p50), P99: Median(p99), CPU: Median(cpu)}
	}
}

// Curve samples a distribution of so many latencies evenly in nines, as far as there are
// any to tell; latency is the one at a quantile, in milliseconds.
func Curve(count uint64, latency func(quantile float64) float64) []Percentile {
	var points []Percentile
	for nines := 0.0; nines <= 5; nines += 0.05 {
		q := 1 - math.Pow(10, -nines)
		if float64(count)*(1-q) < 1 {
			break
		}
		points = append(points, Percentile{Quantile: q, Latency: latency(q)})
	}
	return points
}

// Median is that of values in any order; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
