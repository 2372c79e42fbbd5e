package stream_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/stream"
)

// errStop is who stopped a trial.
var errStop = errors.New("somebody pressed Ctrl-C")

// every is a long trial of each kind.
func every() map[string]probe.Spec {
	long := func(s *probe.Spec) { s.Duration, s.Streams = 20*time.Second, 2 }
	return map[string]probe.Spec{
		"out":            spec(probe.TCPBandwidth, long),
		"in":             spec(probe.TCPBandwidth, long, func(s *probe.Spec) { s.Direction = probe.In }),
		"latency":        spec(probe.TCPLatency, long),
		"hot":            spec(probe.TCPLatency, long, func(s *probe.Spec) { s.Mode = probe.Hot }),
		"at a rate":      spec(probe.TCPLatency, long, func(s *probe.Spec) { s.RatePerS = 100 }),
		"seldom":         spec(probe.TCPLatency, long, func(s *probe.Spec) { s.RatePerS = 0.1 }),
		"conn":           spec(probe.Connect, long),
		"conn, seldom":   spec(probe.Connect, long, func(s *probe.Spec) { s.RatePerS = 0.1 }),
		"responsiveness": spec(probe.Responsiveness, long, func(s *probe.Spec) { s.Duration = time.Second }),
	}
}

// soon is when a trial that was stopped must have ended: 200 ms, and what a busy machine adds.
const soon = 600 * time.Millisecond

func TestStopped(t *testing.T) {
	for name, s := range every() {
		t.Run("near, "+name, func(t *testing.T) {
			t.Parallel()
			a := listen(t, "tcp", "127.0.0.1:0")
			result := a.serve(t.Context(), s)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var stopped time.Time
			time.AfterFunc(200*time.Millisecond, func() { stopped = time.Now(); cancel(errStop) })
			trial, err := stream.Near(ctx, s, a.line)
			if d := time.Since(stopped); d > soon {
				t.Errorf("it took %v", d)
			}
			if errors.Is(err, errStop) {
				return // it did not get as far as to measure anything
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := "stopped after "; !strings.HasPrefix(trial.Incomplete, want) || !strings.HasSuffix(trial.Incomplete, errStop.Error()) {
				t.Errorf("got %q", trial.Incomplete)
			}
			// What was not to be sent yet is not missing.
			if s.RatePerS > 0 && trial.Unanswered > 30 { // of 2,000; a busy machine stops late
				t.Errorf("%d unanswered: %+v", trial.Unanswered, trial.Near)
			}
			if got := trial.Near.SentBytes + trial.Near.ReceivedBytes; got == 0 && s.RatePerS != 0.1 && s.Test != probe.Responsiveness {
				t.Errorf("nothing was kept: %+v", trial.Near)
			}
			await(t, result)
		})
		t.Run("far, "+name, func(t *testing.T) {
			t.Parallel()
			a := listen(t, "tcp", "127.0.0.1:0")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			result := a.serve(ctx, s)
			gone, leave := context.WithCancel(t.Context())
			defer leave()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = stream.Near(gone, s, a.line) // fails if it did not get far
			}()
			time.Sleep(200 * time.Millisecond) // somewhere in the middle, wherever that is
			stopped := time.Now()
			cancel(errStop)
			got := await(t, result)
			if d := time.Since(stopped); d > soon {
				t.Errorf("it took %v", d)
			}
			if got.err == nil || !strings.HasPrefix(got.err.Error(), "stopped after ") || !strings.HasSuffix(got.err.Error(), errStop.Error()) {
				t.Errorf("got %v", got.err)
			}
			leave()
			<-done
		})
	}
}

// TestStallIsSeen: a far end that stops for 200 ms once holds up a fifth of the messages
// of a second. With a rate, as many samples show it, from 0 to 200 ms; without, one.
func TestStallIsSeen(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	stalls := func(conn *net.TCPConn) {
		begin(conn)
		echo(conn, 300)
		time.Sleep(stall)
		echo(conn, 1<<40)
	}
	for _, c := range []struct {
		rate     float64
		least    time.Duration // of the 90th percentile
		most     time.Duration
		messages int64
	}{
		{1000, 80 * time.Millisecond, time.Minute, 1000},
		{0, 0, 50 * time.Millisecond, 0},
	} {
		a := listen(t, "tcp", "127.0.0.1:0")
		a.misbehave(t, stalls)
		trial := near(t, t.Context(), spec(probe.TCPLatency, func(s *probe.Spec) { s.Duration, s.RatePerS = time.Second, c.rate }), a.line)
		p90, ok := trial.RTT.Percentile(90)
		if !ok || p90 < c.least || p90 > c.most || trial.RTT.Max() < stall-10*time.Millisecond {
			t.Errorf("at %v/s: 90 %% within %v, %v at most: %+v", c.rate, p90, trial.RTT.Max(), trial)
		}
		if c.messages > 0 && trial.RTT.Count() != c.messages {
			t.Errorf("%d samples of %d messages", trial.RTT.Count(), c.messages)
		}
	}
}

// TestShortest: the shortest trials that may be asked for end in one way or another.
func TestShortest(t *testing.T) {
	for name, s := range every() {
		s.Duration = 1
		a := listen(t, "tcp", "127.0.0.1:0")
		result := a.serve(t.Context(), s)
		trial, err := stream.Near(t.Context(), s, a.line)
		if got := await(t, result); err != nil || got.err != nil && trial.Incomplete == "" {
			t.Errorf("%s: %v, %v", name, err, got.err)
		}
	}
}

// TestNothingIsLeft: descriptors, goroutines and threads are as many after trials that
// ended well or badly as before.
func TestNothingIsLeft(t *testing.T) {
	a := listen(t, "tcp", "127.0.0.1:0")
	round := func() {
		for _, s := range every() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			result := a.serve(t.Context(), s)
			_, _ = stream.Near(ctx, s, a.line) // stopped, one way or the other
			await(t, result)
			cancel()
		}
		for _, test := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency, probe.Connect} {
			s := spec(test, func(s *probe.Spec) { s.Duration = 20 * time.Millisecond })
			result := a.serve(t.Context(), s)
			near(t, t.Context(), s, a.line)
			await(t, result)
		}
	}
	round()
	before := resources(t)
	for range 2 {
		round()
	}
	// What closes in the background has a moment for it.
	var after counts
	for range 100 {
		if after = resources(t); after.fds <= before.fds && after.goroutines <= before.goroutines {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if after.fds > before.fds || after.goroutines > before.goroutines || after.threads > before.threads+4 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

type counts struct{ fds, goroutines, threads int }

func resources(t *testing.T) counts {
	t.Helper()
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	return counts{count("/proc/self/fd"), runtime.NumGoroutine(), count("/proc/self/task")}
}
