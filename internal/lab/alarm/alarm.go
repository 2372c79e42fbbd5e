// Package alarm wakes a goroutine at a precise time.
//
// The runtime's own timers sleep in epoll_wait, whose timeout counts whole
// milliseconds: too coarse for requests that last 2.7 ms. An [Alarm] is a
// timerfd instead, which becomes readable to the nanosecond and ends the same
// epoll_wait as a packet would. No thread is spent on it.
//
// Set it from any goroutine, Wait in one, Close to end the wait.
package alarm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm goes off at the time that it was last set to.
type Alarm struct {
	file  *os.File
	timer syscall.RawConn
}

// New returns an alarm that is not set.
func New() (*Alarm, error) {
	// Non-blocking is what makes os.File leave the wait to the runtime's poller.
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a timer: %w", os.NewSyscallError("timerfd_create", err))
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	timer, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("creating a timer: %w", errors.Join(err, file.Close()))
	}
	return &Alarm{file: file, timer: timer}, nil
}

// Set makes the alarm go off at the given time, and no longer at the one it was
// set to before; a time in the past is now. It fails after Close.
func (a *Alarm) Set(at time.Time) error {
	// A timerfd set to zero would never go off.
	wait := max(time.Until(at), time.Nanosecond)
	var failed error
	err := a.timer.Control(func(fd uintptr) {
		once := unix.ItimerSpec{Value: unix.NsecToTimespec(wait.Nanoseconds())}
		failed = os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(int(fd), 0, &once, nil))
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("setting a timer: %w", err)
	}
	return nil
}

// Wait returns when the alarm goes off, or at once if it has since the last
// Wait. The error is [os.ErrClosed] once the alarm is closed.
func (a *Alarm) Wait() error {
	var expirations [8]byte
	if _, err := a.file.Read(expirations[:]); err != nil {
		return fmt.Errorf("waiting for a timer: %w", err)
	}
	return nil
}

// Close ends a Wait under way and every later one.
func (a *Alarm) Close() error { return a.file.Close() }
