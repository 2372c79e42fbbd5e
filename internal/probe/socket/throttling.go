package socket

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// throttled is for how long CPU limits have kept the process from running so far: one
// figure for its own control group and each above it that can be seen, since the limit of
// any of them strikes. It is empty if that cannot be read, or nothing has a limit to tell of.
func throttled() []time.Duration {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var times []time.Duration
	for _, dir := range cpuGroups(string(groups), string(mounts)) {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		if err != nil {
			continue
		}
		if t, ok := throttledTime(string(text)); ok {
			times = append(times, t)
		}
	}
	return times
}

// longest is the most that any group was throttled between two readings; nil if unknown.
func longest(before, after []time.Duration) *time.Duration {
	if len(before) == 0 || len(before) != len(after) {
		return nil
	}
	var most time.Duration
	for i := range before {
		most = max(most, after[i]-before[i])
	}
	return &most
}

// cpuGroups are the directories of the process's control group for CPUs and of those
// above it, from /proc/self/cgroup and /proc/self/mountinfo (cgroups(7), proc(5)). Where
// both versions are there, the first has the controller.
func cpuGroups(groups, mounts string) []string {
	one, two := membership(groups)
	for line := range strings.Lines(mounts) {
		m, ok := cgroupMount(line)
		switch {
		case !ok:
		case m.first && m.cpu && one != "":
			return upwards(m, one)
		case !m.first && one == "" && two != "":
			return upwards(m, two)
		}
	}
	return nil
}

// membership is the process's group of version 1's cpu controller, and of version 2; each
// is empty if there is none.
func membership(groups string) (one, two string) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			two = parts[2]
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "cpu" {
				one = parts[2]
			}
		}
	}
	return one, two
}

type mount struct {
	root, point string
	first, cpu  bool // version 1, with the cpu controller
}

// cgroupMount reads a line such as
//
//	32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
func cgroupMount(line string) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	place, kind := strings.Fields(left), strings.Fields(right)
	if !ok || len(place) < 5 || len(kind) < 3 {
		return mount{}, false
	}
	m := mount{root: place[3], point: place[4], first: kind[0] == "cgroup"}
	for option := range strings.SplitSeq(kind[2], ",") {
		m.cpu = m.cpu || option == "cpu"
	}
	return m, m.first || kind[0] == "cgroup2"
}

// upwards are a group's directory and those above it, up to the mount. A container may
// see the host's name of its group, and have only that mounted.
func upwards(m mount, group string) []string {
	below, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || below != "" && below[0] != '/' {
		below = "/"
	}
	var dirs []string
	for below = path.Clean("/" + below); ; below = path.Dir(below) {
		dirs = append(dirs, path.Join(m.point, below))
		if below == "/" {
			return dirs
		}
	}
}

// throttledTime is from a cpu.stat: nanoseconds in version 1, microseconds in version 2
// (the kernel's sched-bwc.rst and cgroup-v2.rst).
func throttledTime(text string) (time.Duration, bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		unit := time.Nanosecond
		switch name {
		case "throttled_usec":
			unit = time.Microsecond
		case "throttled_time":
		default:
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return time.Duration(n) * unit, err == nil && n >= 0 && n <= math.MaxInt64/int64(unit)
	}
	return 0, false
}
