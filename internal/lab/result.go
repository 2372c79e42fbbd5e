package lab

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/report"
)

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
	result.Conclude()
	result.Percentiles = report.Curve(uint64(all.TotalCount()), func(q float64) float64 { return percentile(all, 100*q) })
	result.Endpoints = make([]report.Endpoint, len(members))
	for i, m := range members {
		e := report.Endpoint{
			Address: m.Address, Demand: fmt.Sprintf("fib(%d)", m.Fib), Requests: report.Median(rate[i]), CPU: report.Median(cpu[i]), Weight: a.weights[m.Address], Why: a.why[m.Address],
		}
		if h := byEndpoint[m.Address]; h != nil {
			e.P50, e.P99 = percentile(h, 50), percentile(h, 99)
		}
		result.Endpoints[i] = e
	}
	result.Weights = sharesOverTime(a.events, members)
	if controlled(a.name) {
		if n, ok := report.SettledAfter(byKind(result.Weights[:a.firstRound], members, "")); ok {
			result.SettledAfter = &n
		}
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

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// percentile is in milliseconds; 0 where there was no request.
func percentile(h *hdrhistogram.Histogram, p float64) float64 {
	return float64(h.ValueAtPercentile(p)) / 1000
}
