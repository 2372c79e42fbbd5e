package socket

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// SetTimeouts ends each reading and writing (and [Connect]) that waits for so long, with
// [os.ErrDeadlineExceeded]; 0 lets them wait for ever.
func SetTimeouts(fd int, d time.Duration) error {
	v := unix.NsecToTimeval(int64(d))
	if d > 0 && v.Sec == 0 && v.Usec == 0 {
		v.Usec = 1 // 0 would be for ever
	}
	err := errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &v),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &v),
	)
	if err != nil {
		return fmt.Errorf("setting a socket's timeouts to %v: %w", d, err)
	}
	return nil
}

// NoDelay has segments sent when they are written, however small.
func NoDelay(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("setting TCP_NODELAY: %w", err)
	}
	return nil
}

// ResetOnClose has closing throw away what was not sent yet and reset the connection, so
// that neither end keeps it for a minute (TIME_WAIT) and its port is free at once.
func ResetOnClose(fd int) error {
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("setting SO_LINGER: %w", err)
	}
	return nil
}

// Read reads what is there, at most len(b) bytes, and waits for the first of them. The
// end of a stream is [io.EOF]; [os.ErrDeadlineExceeded] says that it took too long.
func Read(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if n > 0 {
			return n, nil
		}
		switch err {
		case nil:
			return 0, io.EOF
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		default:
			return 0, err
		}
	}
}

// TryRead reads what is there as [Read] does, from a socket of either kind, but never waits: nothing there is
// [os.ErrDeadlineExceeded].
func TryRead(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		// A call that does not block need not be told to the scheduler.
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			if n == 0 {
				return 0, io.EOF
			}
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		default:
			return 0, errno
		}
	}
}

// tries is how often a spinning end asks before it looks at the clock.
const tries = 256

// Spin reads as [Read] does without giving up the CPU, for that long.
func Spin(fd int, b []byte, limit time.Duration) (int, error) {
	var started time.Time
	for {
		for range tries {
			if n, err := TryRead(fd, b); err != os.ErrDeadlineExceeded {
				return n, err
			}
		}
		if started.IsZero() {
			started = time.Now()
		} else if time.Since(started) > limit {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// ReadFull reads until b is full, and says how much there was if it does not get so far:
// [io.EOF] with nothing, [io.ErrUnexpectedEOF] with a part.
func ReadFull(fd int, b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := Read(fd, b[done:])
		done += n
		if err == io.EOF && done > 0 {
			return done, io.ErrUnexpectedEOF
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Write writes all of b, and says how much it was if it does not get so far.
func Write(fd int, b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Write(fd, b[done:])
		if n > 0 {
			done += n
			continue
		}
		switch err {
		case unix.EINTR:
		case unix.EAGAIN:
			return done, os.ErrDeadlineExceeded
		case nil:
			return done, io.ErrShortWrite
		default:
			return done, err
		}
	}
	return done, nil
}

// Info is what the kernel knows of a TCP connection. It still knows when the peer has
// ended it.
func Info(fd int) (probe.TCPInfo, error) {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return probe.TCPInfo{}, fmt.Errorf("asking the kernel about a connection: %w", err)
	}
	congestion, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return probe.TCPInfo{}, fmt.Errorf("asking which congestion control a connection has: %w", err)
	}
	const us = uint64(time.Microsecond)
	return probe.TCPInfo{
		Busy:          time.Duration(i.Busy_time * us),
		RwndLimited:   time.Duration(i.Rwnd_limited * us),
		SndbufLimited: time.Duration(i.Sndbuf_limited * us),
		Retransmits:   i.Total_retrans,
		Segments:      i.Data_segs_out,
		RTT:           time.Duration(i.Rtt) * time.Microsecond,
		MinRTT:        time.Duration(i.Min_rtt) * time.Microsecond,
		PMTU:          i.Pmtu,
		MSS:           i.Snd_mss,
		Congestion:    congestion,
		Cwnd:          i.Snd_cwnd,
	}, nil
}

// LimitUnsent lets no more than n bytes wait in the socket for being sent, so that what is
// written is soon on its way, if there is a way (TCP_NOTSENT_LOWAT).
func LimitUnsent(fd, n int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n); err != nil {
		return fmt.Errorf("setting TCP_NOTSENT_LOWAT to %d: %w", n, err)
	}
	return nil
}
