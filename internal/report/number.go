package report

import (
	"math"
	"strconv"
	"strings"
)

// Missing stands where there is no figure.
const Missing = "–"

// Number writes a value with about three significant digits and at most two
// decimals, or [Missing] for one that is not a finite number.
func Number(v float64) string { return fixed(v, decimals(v)) }

// Count writes a number of things, its thousands apart.
func Count(n uint64) string { return group(strconv.FormatUint(n, 10)) }

// decimals is how many decimals make three significant digits of v.
func decimals(v float64) int {
	switch v = math.Abs(v); {
	case v >= 99.95:
		return 0
	case v >= 9.995:
		return 1
	}
	return 2
}

func fixed(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Missing
	}
	return group(strconv.FormatFloat(v, 'f', decimals, 64))
}

// shortest writes a setting as it was set.
func shortest(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// group puts a comma between the thousands of a decimal number.
func group(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	start := 0
	if strings.HasPrefix(whole, "-") {
		start = 1
	}
	for i := len(whole) - 3; i > start; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// measured tells whether a latency or a CPU usage is one. Neither is ever
// exactly 0 for an arm that served requests: 0 means that nobody measured it.
func measured(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// rate tells whether a value can be a rate, of which 0 is one.
func rate(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
