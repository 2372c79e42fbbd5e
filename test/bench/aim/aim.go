// Package aim prints what a benchmark measured beside what is aimed for.
package aim

import (
	"fmt"
	"slices"
)

// Row prints a figure beside its aim.
func Row(what string, value float64, unit, aim string, met bool) {
	verdict := ""
	if !met {
		verdict = "   MISSED"
	}
	fmt.Printf("%-52s %10.4g %-8s %14s%s\n", what, value, unit, aim, verdict)
}

// Median is the middle one of the values; of an even number, the higher of the two.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
