package answer

import (
	"fmt"
	"math"
	"strconv"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// scale is a unit that people use, and how many of the unit of a figure make one.
type scale struct {
	size float64
	unit string
}

// Bandwidths are told in bits per second, as links are sold, the largest unit first.
var (
	rates     = []scale{{125e6, "Gbit/s"}, {125e3, "Mbit/s"}, {125, "kbit/s"}, {.125, "bit/s"}}
	durations = []scale{{1e6, "s"}, {1e3, "ms"}, {1, "µs"}}
	sizes     = []scale{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "bytes"}}
	perMinute = []scale{{1, "RPM"}}
	whole     = []scale{{1, "bytes"}}
)

// scales are those of a test's figure.
func scales(t probe.Test) []scale {
	switch {
	case t.LowerIsBetter():
		return durations
	case t == probe.Responsiveness:
		return perMinute
	case t == probe.PathMTU:
		return whole
	}
	return rates
}

// of is the largest unit of which the figure has at least one, else the smallest.
func of(v float64, all []scale) scale {
	for _, s := range all {
		if math.Abs(v) >= s.size*.9995 {
			return s
		}
	}
	return all[len(all)-1]
}

func (s scale) number(v float64) string {
	if s.unit == "bytes" || s.unit == "RPM" {
		return report.Count(uint64(max(0, math.Round(v))))
	}
	return report.Number(v / s.size)
}

func figure(v float64, all []scale) string {
	if !measured(v) {
		return report.Missing
	}
	s := of(v, all)
	return s.number(v) + " " + s.unit
}

// measured tells whether a figure is one: none of them is ever exactly 0.
func measured(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// Rate writes bytes per second as bits per second.
func Rate(bytesPerS float64) string { return figure(bytesPerS, rates) }

// Duration writes microseconds.
func Duration(us float64) string { return figure(us, durations) }

// Size writes a number of bytes.
func Size(bytes float64) string { return figure(bytes, sizes) }

// Value writes a test's figure with its unit.
func Value(t probe.Test, v float64) string { return figure(v, scales(t)) }

// interval writes where a figure lies, in the figure's unit, which it leaves out.
func interval(t probe.Test, v float64, ci *[2]float64) string {
	if ci == nil || !measured(v) {
		return report.Missing
	}
	s := of(v, scales(t))
	return s.number(ci[0]) + ".." + s.number(ci[1])
}

// Percent writes a share with about three digits.
func Percent(share float64) string {
	if !measured(share) {
		return report.Missing
	}
	return report.Number(100*share) + " %"
}

func percents(ci *[2]float64) string {
	if ci == nil {
		return report.Missing
	}
	return report.Number(100*ci[0]) + ".." + report.Number(100*ci[1])
}

// message writes how large a message is, as it was asked for.
func message(bytes int) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}

// Price writes a price as lists have it: some cost a fraction of a cent.
func Price(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
