package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

func TestUntil(t *testing.T) {
	t.Parallel()
	undo, err := socket.Punctual()
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	for _, d := range []time.Duration{-time.Second, 0, 30 * time.Microsecond, 500 * time.Microsecond, 120 * time.Millisecond} {
		goal := time.Now().Add(d)
		if err := socket.Until(t.Context(), goal); err != nil || time.Now().Before(goal) {
			t.Errorf("%v: %v, too early: %v", d, err, time.Until(goal))
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, io.ErrClosedPipe)
	defer cancel()
	started := time.Now()
	if err := socket.Until(ctx, started.Add(time.Hour)); !errors.Is(err, io.ErrClosedPipe) || time.Since(started) > time.Second {
		t.Errorf("got %v after %v", err, time.Since(started))
	}
}

func TestThread(t *testing.T) {
	t.Parallel()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	want := errors.New("said the loop")
	busy := func() error {
		for started := time.Now(); time.Since(started) < 50*time.Millisecond; {
			_ = unix.Getppid() // time in the kernel, too
		}
		nap := unix.NsecToTimespec(1e6)
		_ = unix.Nanosleep(&nap, nil)
		return want
	}
	for _, cpu := range []int{-1, 0} {
		where := &cpu
		if cpu < 0 {
			where = nil
		}
		usage, err := socket.Thread(where, busy)
		if !errors.Is(err, want) || usage.User+usage.System <= 0 || usage.Waited < 1 || len(usage.CPUs) == 0 || usage.ClockStep != 0 {
			t.Errorf("on %d: %+v, %v", cpu, usage, err)
		}
		if where != nil && !slices.Equal(usage.CPUs, []int{cpu}) {
			t.Errorf("on %d it was on %v", cpu, usage.CPUs)
		}
	}
	for _, cpu := range []int{-5, 900, 1 << 20} {
		_, err := socket.Thread(&cpu, func() error { t.Error("it ran"); return nil })
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("CPU %d", cpu)) {
			t.Errorf("on %d: %v", cpu, err)
		}
	}
	// No thread stays where it was pinned.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var set unix.CPUSet
		var tid int
		_, _ = fmt.Sscan(task.Name(), &tid)
		if err := unix.SchedGetaffinity(tid, &set); err == nil && set != allowed {
			t.Errorf("thread %d is still pinned", tid)
		}
	}
}

func TestTotal(t *testing.T) {
	t.Parallel()
	short, long := time.Millisecond, time.Second
	got := socket.Total(
		probe.Usage{User: 1, System: 2, CPUs: []int{3, 1}, Preempted: 4, Waited: 5, Throttled: &short, ClockStep: -7 * time.Second},
		probe.Usage{User: 10, System: 20, CPUs: []int{1}, Preempted: 40, Waited: 50, Throttled: &long, ClockStep: time.Second},
		probe.Usage{},
	)
	if got.User != 11 || got.System != 22 || got.Preempted != 44 || got.Waited != 55 ||
		!slices.Equal(got.CPUs, []int{1, 3}) || *got.Throttled != long || got.ClockStep != -7*time.Second {
		t.Errorf("got %+v", got)
	}
	if socket.Total().Throttled != nil {
		t.Error("throttling that nobody read is not none")
	}
}
