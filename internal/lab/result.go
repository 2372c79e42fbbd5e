package lab

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/report"
)

// settledWithin is the fraction of requests that may still be placed differently
// from the end when weights count as settled.
const settledWithin = 0.05

// measured is what one arm did in one round.
type measured struct {
	load          *load.Measurement
	before, after []fleet.Usage
}

// summarise turns the rounds of one arm into its part of the report.
func (a *arm) summarise(members []fleet.Member) report.Arm {
	result := report.Arm{Name: a.name}
	all := newHistogram()
	byEndpoint := map[string]*hdrhistogram.Histogram{}
	cpu, rate := make([][]float64, len(members)), make([][]float64, len(members))
	for _, m := range a.rounds {
		all.Merge(m.load.Latency)
		for address, h := range m.load.ByEndpoint {
			if byEndpoint[address] == nil {
				byEndpoint[address] = newHistogram()
			}
			byEndpoint[address].Merge(h)
		}
		round := report.Round{
			Requests: m.load.Requests, Errors: m.load.Errors,
			P50: percentile(m.load.Latency, 50), P90: percentile(m.load.Latency, 90), P95: percentile(m.load.Latency, 95),
			P99: percentile(m.load.Latency, 99), P999: percentile(m.load.Latency, 99.9),
		}
		for i := range members {
			seconds := m.after[i].At.Sub(m.before[i].At).Seconds()
			cores := (m.after[i].CPUSeconds - m.before[i].CPUSeconds) / seconds
			round.CPU += cores
			cpu[i] = append(cpu[i], cores)
			rate[i] = append(rate[i], float64(m.after[i].Requests-m.before[i].Requests)/seconds)
		}
		result.Rounds = append(result.Rounds, round)
	}
	overRounds(&result)
	result.Percentiles = curve(all)
	result.Endpoints = make([]report.Endpoint, len(members))
	for i, m := range members {
		e := report.Endpoint{
			Address: m.Address, Demand: fmt.Sprintf("fib(%d)", m.Fib), Requests: median(rate[i]), CPU: median(cpu[i]), Weight: a.weights[m.Address], Why: a.why[m.Address],
		}
		if h := byEndpoint[m.Address]; h != nil {
			e.P50, e.P99 = percentile(h, 50), percentile(h, 99)
		}
		result.Endpoints[i] = e
	}
	result.Weights = sharesOverTime(a.events, members)
	if controlled(a.name) {
		if n, ok := settledAfter(byKind(result.Weights[:a.firstRound], members, "")); ok {
			result.SettledAfter = &n
		}
	}
	return result
}

// overRounds fills in the medians and sums of an arm's rounds.
func overRounds(a *report.Arm) {
	medianOf := func(of func(report.Round) float64) float64 {
		values := make([]float64, len(a.Rounds))
		for i, r := range a.Rounds {
			values[i] = of(r)
		}
		return median(values)
	}
	for _, r := range a.Rounds {
		a.Requests += r.Requests
		a.Errors += r.Errors
	}
	a.P50 = medianOf(func(r report.Round) float64 { return r.P50 })
	a.P90 = medianOf(func(r report.Round) float64 { return r.P90 })
	a.P95 = medianOf(func(r report.Round) float64 { return r.P95 })
	a.P99 = medianOf(func(r report.Round) float64 { return r.P99 })
	a.P999 = medianOf(func(r report.Round) float64 { return r.P999 })
	a.CPU = medianOf(func(r report.Round) float64 { return r.CPU })
}

// ratios compares each arm with the first, round by round: a round's arms ran
// right after each other, so what the machine does to one it does to all.
func ratios(arms []report.Arm) map[string]report.Ratio {
	result := map[string]report.Ratio{}
	first := arms[0]
	for _, a := range arms[1:] {
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
		result[a.Name+"/"+first.Name] = report.Ratio{P50: median(p50), P99: median(p99), CPU: median(cpu)}
	}
	return result
}

// sharesOverTime lists what was decided, in seconds of the loop's own time.
func sharesOverTime(events []timedEvent, members []fleet.Member) []report.WeightsAt {
	var list []report.WeightsAt
	for _, e := range events {
		shares := e.Decision.Weights.Shares()
		at := report.WeightsAt{At: e.at.Seconds(), Held: string(e.Decision.Hold.Reason), Shares: make([]float64, len(members))}
		for i, m := range members {
			at.Shares[i] = shares[m.Address]
		}
		list = append(list, at)
	}
	return list
}

// byKind sums the shares of endpoints that are alike, for each decision: which of
// them a request goes to makes no difference, so noise between them is not
// unrest. The disturbed endpoint, if any, is like no other.
func byKind(decisions []report.WeightsAt, members []fleet.Member, disturbed string) [][]float64 {
	kinds := map[string]int{}
	kindOf := make([]int, len(members))
	for i, m := range members {
		name := fmt.Sprint(m.Fib)
		if m.Address == disturbed {
			name = disturbed
		}
		if _, known := kinds[name]; !known {
			kinds[name] = len(kinds)
		}
		kindOf[i] = kinds[name]
	}
	list := make([][]float64, len(decisions))
	for i, d := range decisions {
		list[i] = make([]float64, len(kinds))
		for k, share := range d.Shares {
			list[i][kindOf[k]] += share
		}
	}
	return list
}

// settledAfter is the number of the first decision, counted from 1, after which
// no more than [settledWithin] of the requests went elsewhere than at the end.
// The end is the mean over the last third. False when they kept moving.
func settledAfter(decisions [][]float64) (int, bool) {
	n := len(decisions)
	if n < 3 {
		return 0, false
	}
	tail := decisions[n-max(1, n/3):]
	end := make([]float64, len(tail[0]))
	for _, shares := range tail {
		for i, share := range shares {
			end[i] += share / float64(len(tail))
		}
	}
	settled := n
	for settled > 0 && elsewhere(decisions[settled-1], end) <= settledWithin {
		settled--
	}
	return settled + 1, settled < n
}

// elsewhere is the fraction of requests that two lists of shares place differently.
func elsewhere(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / 2
}

// curve samples the latency distribution evenly in nines, as far as there are
// requests to tell.
func curve(h *hdrhistogram.Histogram) []report.Percentile {
	var points []report.Percentile
	for nines := 0.0; nines <= 5; nines += 0.05 {
		q := 1 - math.Pow(10, -nines)
		if float64(h.TotalCount())*(1-q) < 1 {
			break
		}
		points = append(points, report.Percentile{Quantile: q, Latency: percentile(h, 100*q)})
	}
	return points
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// percentile is in milliseconds; 0 where there was no request.
func percentile(h *hdrhistogram.Histogram, p float64) float64 {
	return float64(h.ValueAtPercentile(p)) / 1000
}

func median(values []float64) float64 {
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
