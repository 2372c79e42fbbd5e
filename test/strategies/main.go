// Command strategies simulates every way to balance in every shipped scenario, and writes the
// tables of docs/strategies.md anew. It takes a few minutes.
//
//	go run ./test/strategies
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/internal/sim/study"
)

const (
	shipped = "internal/sim/scenario/shipped"
	page    = "docs/strategies.md"
	// begin and end are around what is written.
	begin, end = "<!-- tables -->\n", "<!-- end of tables -->\n"
)

// arms are the ways to balance: each policy with equal weights, then weights. Its first line
// is what all are compared with.
const arms = `
arms:
  - {name: least-request, policy: least-request}
  - {name: random, policy: random}
  - {name: round-robin, policy: round-robin}
  - {name: peak-ewma, policy: peak-ewma}
  - {name: prequal, policy: prequal}
  - {name: "random, least-latency", policy: random, weights: least-latency}
  - {name: "round-robin, least-latency", policy: round-robin, weights: least-latency}
  - {name: "least-request, published at rest", policy: least-request, weights: {strategy: published, static: true}}
  - {name: "least-request, equal-load", policy: least-request, weights: equal-load}
  - {name: "least-request, least-latency", policy: least-request, weights: least-latency}
`

// costly are ways that look at every endpoint for every request, or at every proxy's schedule
// every second: not for ten thousand.
const costly = `  - {name: client-side-wrr, policy: client-side-wrr}
  - {name: join-shortest-queue, policy: join-shortest-queue}
  - {name: all-knowing, policy: all-knowing}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "strategies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var results []*report.Experiment
	for _, name := range scenario.Shipped() {
		s, err := withAllArms(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "simulating %s, %d arms\n", name, len(s.Arms))
		result, err := study.Run(ctx, s, study.Options{})
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s lacks the lines %q and %q, between which tables go", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(page, []byte(before+begin+tables(results)+end+after), 0o644)
}

// withAllArms is a shipped scenario with all arms instead of its own.
func withAllArms(name string) (*scenario.Scenario, error) {
	text, err := os.ReadFile(filepath.Join(shipped, name+".yaml"))
	if err != nil {
		return nil, err
	}
	service, _, ok := strings.Cut(string(text), "\narms:")
	if !ok {
		return nil, fmt.Errorf("%s has no arms", name)
	}
	all := service + arms
	s, err := scenario.Parse(name, strings.NewReader(all+costly))
	if err != nil {
		return nil, err
	}
	const many = 1000 // endpoints
	if len(s.Service.Servers) > many {
		return scenario.Parse(name, strings.NewReader(all))
	}
	return s, nil
}

// tables are one for p99 and one for CPU: ways to balance by scenarios.
func tables(results []*report.Experiment) string {
	var b strings.Builder
	b.WriteString("\np99 in ms, and as a ratio to least-request with equal weights; *failed* counts requests:\n\n")
	table(&b, results, func(a report.Arm, r report.Ratio, first bool) string {
		cell := fmt.Sprintf("%.3g", a.P99)
		if a.P99 >= 1000 {
			cell = fmt.Sprintf("%.0f", a.P99)
		}
		if !first {
			cell += fmt.Sprintf(" (%.2f)", r.P99)
		}
		if a.Errors > 0 {
			cell += fmt.Sprintf(", *%d failed*", a.Errors)
		}
		return cell
	})
	b.WriteString("\nCPU in cores, and the same ratio:\n\n")
	table(&b, results, func(a report.Arm, r report.Ratio, first bool) string {
		if first {
			return figure(a.CPU)
		}
		return fmt.Sprintf("%s (%.2f)", figure(a.CPU), r.CPU)
	})
	b.WriteString("\n")
	return b.String()
}

// figure is a number with four digits that count, and no exponent.
func figure(v float64) string {
	if v >= 1e4 {
		v = math.Round(v/10) * 10
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-int(math.Log10(max(1, v)))), 64)
}

func table(b *strings.Builder, results []*report.Experiment, cell func(report.Arm, report.Ratio, bool) string) {
	b.WriteString("| |")
	rows := results[0].Arms
	for _, r := range results {
		fmt.Fprintf(b, " %s |", r.Scenario)
		if len(r.Arms) > len(rows) {
			rows = r.Arms
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(results)) + "\n")
	for n, row := range rows {
		fmt.Fprintf(b, "| %s |", row.Name)
		for _, r := range results {
			text := "–"
			if i := slices.IndexFunc(r.Arms, func(a report.Arm) bool { return a.Name == row.Name }); i >= 0 {
				text = cell(r.Arms[i], r.Ratios[row.Name+"/"+r.Arms[0].Name], n == 0)
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}
