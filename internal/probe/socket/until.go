package socket

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// wakingUp is what a sleep is cut by, and spent spinning: a thread wakes up that much
	// too late, more or less.
	wakingUp = 60 * time.Microsecond
	// longestSleep bounds how late the end of a context is noticed.
	longestSleep = 50 * time.Millisecond
)

// Until waits for a time, to the microsecond if the CPU is not somebody else's just then.
// It gives up when ctx ends. Call [Punctual] on the thread before.
func Until(ctx context.Context, t time.Time) error {
	for {
		left := time.Until(t)
		if left <= 0 {
			return nil
		}
		if left <= wakingUp {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		nap := unix.NsecToTimespec(int64(min(left-wakingUp, longestSleep)))
		// Whether it was long enough is looked at above.
		_ = unix.Nanosleep(&nap, nil)
	}
}

// Punctual has the kernel wake the calling thread when it is to be woken, instead of
// together with others up to 50 µs later, until undo is called.
func Punctual() (undo func(), err error) {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return func() {}, fmt.Errorf("asking for punctual timers: %w", err)
	}
	// 0 is the default again. It cannot fail where 1 did not.
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }, nil
}
