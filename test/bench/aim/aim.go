// Package aim runs a benchmark and prints what it measured beside what is aimed for.
package aim

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Row prints a figure beside its aim.
func Row(what string, value float64, unit, aim string, met bool) {
	verdict := ""
	if !met {
		verdict = "   MISSED"
	}
	fmt.Printf("%-52s %10.4g %-8s %14s%s\n", what, value, unit, aim, verdict)
}

// Main runs a benchmark until it ends or is interrupted. An error ends the program.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Median is the middle one of the values; of an even number, the higher of the two.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
