package socket

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// Thread runs f on a thread that nothing else runs on meanwhile, on that CPU if one is
// given, and returns what the thread used and f's error. f is not run if the thread
// cannot stay on the CPU.
func Thread(cpu *int, f func() error) (probe.Usage, error) {
	var usage probe.Usage
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		free, err := pin(cpu)
		if err == nil {
			usage, err = measured(cpu != nil, f)
		}
		// A thread that cannot go back to where it may run ends with its goroutine.
		if free() == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	err := <-done
	return usage, err
}

// pin keeps the thread on a CPU until free is called.
func pin(cpu *int) (free func() error, err error) {
	free = func() error { return nil }
	if cpu == nil {
		return free, nil
	}
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return free, fmt.Errorf("asking which CPUs this thread may use: %w", err)
	}
	if *cpu < 0 || !before.IsSet(*cpu) {
		return free, fmt.Errorf("a thread cannot stay on CPU %d: this process may use %v", *cpu, listed(&before))
	}
	only.Set(*cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return free, fmt.Errorf("keeping a thread on CPU %d: %w", *cpu, err)
	}
	return func() error { return unix.SchedSetaffinity(0, &before) }, nil
}

func listed(set *unix.CPUSet) (cpus []int) {
	for cpu := range len(set) * strconv.IntSize {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// measured runs f and says what the calling thread used meanwhile.
func measured(pinned bool, f func() error) (probe.Usage, error) {
	var before, after unix.Rusage
	seen := watch(unix.Gettid(), pinned)
	throttledBefore := throttled()
	started := time.Now()
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		return probe.Usage{}, fmt.Errorf("reading what a thread uses: %w", err)
	}
	result := f()
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		return probe.Usage{}, fmt.Errorf("reading what a thread used: %w", err)
	}
	usage := probe.Usage{
		User:      time.Duration(after.Utime.Nano() - before.Utime.Nano()),
		System:    time.Duration(after.Stime.Nano() - before.Stime.Nano()),
		Preempted: after.Nivcsw - before.Nivcsw,
		Waited:    after.Nvcsw - before.Nvcsw,
		ClockStep: step(started, time.Now()),
		Throttled: longest(throttledBefore, throttled()),
		CPUs:      seen(),
	}
	return usage, result
}

// leastStep is what a jump of the clock must have: the two clocks are not read at the
// very same time, and a thread may have to wait in between.
const leastStep = time.Millisecond

// step is by how much the time of day moved otherwise than time does between two
// readings of both.
func step(before, after time.Time) time.Duration {
	return jump(after.Round(0).Sub(before.Round(0)), after.Sub(before))
}

// jump is by how much the time of day moved too far while so much time passed. Both
// clocks follow NTP's slewing, so that what differs is steps.
func jump(day, passed time.Duration) time.Duration {
	if d := day - passed; d.Abs() >= leastStep {
		return d
	}
	return 0
}

// lookEvery is how often a thread that may move is looked for: too seldom to disturb.
const lookEvery = 50 * time.Millisecond

// watch notes on which CPUs a thread is, from beside it, until the answer is asked for.
// One that stays where it is needs no watching.
func watch(thread int, pinned bool) (seen func() []int) {
	stat := filepath.Join("/proc/self/task", strconv.Itoa(thread), "stat")
	var cpus []int
	look := func() {
		if cpu, ok := lastCPU(stat); ok && !slices.Contains(cpus, cpu) {
			cpus = append(cpus, cpu)
		}
	}
	look()
	sorted := func() []int { slices.Sort(cpus); return cpus }
	if pinned {
		return sorted
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look()
			case <-stop:
				return
			}
		}
	}()
	return func() []int {
		close(stop)
		<-stopped
		look()
		return sorted()
	}
}

// lastCPU is field 39 of /proc/PID/stat, see proc(5).
func lastCPU(stat string) (int, bool) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0, false
	}
	// The name in the second field may hold spaces and parentheses.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const processor = 39 - 3
	if len(fields) <= processor {
		return 0, false
	}
	cpu, err := strconv.Atoi(fields[processor])
	return cpu, err == nil
}

// Total is what several threads of one end used: times and counts add up, but throttling
// and steps of the clock struck all of them, so that the largest is told.
func Total(usages ...probe.Usage) probe.Usage {
	var total probe.Usage
	for _, u := range usages {
		total.User += u.User
		total.System += u.System
		total.Preempted += u.Preempted
		total.Waited += u.Waited
		total.CPUs = append(total.CPUs, u.CPUs...)
		if u.Throttled != nil && (total.Throttled == nil || *u.Throttled > *total.Throttled) {
			total.Throttled = u.Throttled
		}
		if u.ClockStep.Abs() > total.ClockStep.Abs() {
			total.ClockStep = u.ClockStep
		}
	}
	slices.Sort(total.CPUs)
	total.CPUs = slices.Compact(total.CPUs)
	return total
}
