package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/trap"
)

// ParseCPUStat reads a cgroup's cpu.stat. Version 1 counts throttled time in nanoseconds
// (throttled_time), version 2 in microseconds (throttled_usec); see the kernel's
// Documentation/scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst.
func ParseCPUStat(r io.Reader) (*trap.CPUStat, error) {
	data, err := read(r, "the cpu.stat")
	if err != nil {
		return nil, err
	}
	stat, seen := &trap.CPUStat{}, map[string]bool{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) != 2 {
			continue
		}
		known, err := statLine(stat, words[0], words[1])
		if err != nil {
			return nil, fmt.Errorf("the cpu.stat's %s: %w", words[0], err)
		}
		seen[words[0]] = known
	}
	if !seen["nr_periods"] || !seen["nr_throttled"] {
		return nil, errors.New("there is no nr_periods or no nr_throttled in it, which cgroups without the cpu controller lack; want /sys/fs/cgroup/cpu.stat (version 1: /sys/fs/cgroup/cpu/cpu.stat) as the container sees it")
	}
	if stat.Throttled > stat.Periods {
		return nil, fmt.Errorf("the cpu.stat counts %d periods as throttled of %d; it cannot be a kernel's", stat.Throttled, stat.Periods)
	}
	return stat, nil
}

// statLine takes a line, and says whether it is one that matters.
func statLine(stat *trap.CPUStat, name, text string) (bool, error) {
	unit := time.Duration(0)
	switch name {
	case "nr_periods", "nr_throttled":
	case "throttled_time":
		unit = time.Nanosecond
	case "throttled_usec":
		unit = time.Microsecond
	default:
		return false, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return false, errors.New("want a whole number")
	}
	switch {
	case name == "nr_periods":
		stat.Periods = n
	case name == "nr_throttled":
		stat.Throttled = n
	case n > uint64(math.MaxInt64/unit):
		return false, fmt.Errorf("%d is more than 292 years", n)
	default:
		stat.ThrottledTime = time.Duration(n) * unit
	}
	return true, nil
}
