package datagram

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// tick is how long a blocked call may keep an end from seeing that the trial is over.
const tick = 50 * time.Millisecond

// end is one end of a line: a connected socket of a trial.
type end struct {
	fd   int
	peer netip.AddrPort
	// hello is what the near end says until it is answered; tag is made of it.
	hello []byte
	tag   uint32
	// welcomes is set at the end that answers hellos.
	welcomes bool
	// stop is set when the trial is to end at once.
	stop *atomic.Bool
	hot  bool
	in   []byte // what is received: room for any datagram
	out  [headerBytes]byte
	// foreign counts datagrams that are none of the trial's.
	foreign int64
}

func newEnd(fd int, peer netip.AddrPort, mode probe.Mode, stop *atomic.Bool) *end {
	return &end{fd: fd, peer: peer, stop: stop, hot: mode == probe.Hot, in: make([]byte, 1<<16)}
}

// introduce sets the hello and what follows from it.
func (e *end) introduce(hello []byte) {
	e.hello = bytes.Clone(hello)
	e.tag = tagOf(hello)
}

func (e *end) close() { _ = unix.Close(e.fd) }

// Reasons why nothing was received or sent that are not the line's fault.
var (
	// errQuiet: nothing came for a tick, or nothing is there for who does not wait.
	errQuiet = errors.New("nothing came")
	// errFull: there is no room for what is to be sent.
	errFull = errors.New("no room to send")
	// errLarge: the kernel or a router has refused the size of what was sent.
	errLarge = errors.New("too large a datagram")
	// errStopped: the trial is to end at once.
	errStopped = errors.New("it was stopped")
)

// receive waits for a datagram, for a tick at most; a hot end does not wait. The datagram
// is in e.in until the next one.
func (e *end) receive() ([]byte, error) {
	if e.hot {
		return e.poll()
	}
	n, err := unix.Read(e.fd, e.in)
	if err != nil {
		return nil, e.failure(err)
	}
	return e.in[:n], nil
}

// poll takes a datagram if one is there.
func (e *end) poll() ([]byte, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(e.fd), uintptr(unsafe.Pointer(&e.in[0])), uintptr(len(e.in)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return nil, e.failure(errno)
	}
	return e.in[:n], nil
}

// send sends a datagram, and waits for room a tick at most.
func (e *end) send(b []byte) error {
	if _, err := unix.Write(e.fd, b); err != nil {
		return e.failure(err)
	}
	return nil
}

// failure says what an error of the kernel means.
func (e *end) failure(err error) error {
	switch {
	case e.stop.Load():
		return errStopped
	case err == unix.EAGAIN || err == unix.EINTR:
		return errQuiet
	case err == unix.ENOBUFS:
		return errFull
	case err == unix.EMSGSIZE:
		return errLarge
	case err == unix.ECONNREFUSED:
		return fmt.Errorf("nothing listens for datagrams at %s: %w", e.peer, err)
	default:
		return fmt.Errorf("exchanging datagrams with %s: %w", e.peer, err)
	}
}

// transient tells whether to go on after an error of send or receive.
func transient(err error) bool { return err == errQuiet || err == errFull || err == errLarge }

// control sends a header alone. What is lost, or finds no room, is sent again by whoever
// waits for its answer.
func (e *end) control(k kind, number uint64) error {
	header{e.tag, k, number}.put(e.out[:])
	if err := e.send(e.out[:]); err != nil && !transient(err) {
		return err
	}
	return nil
}

// read says what a datagram of the trial is for; false if it is not the trial's, or just
// hello. A hello that is said again, because the answer was lost, is answered again.
func (e *end) read(b []byte) (header, bool) {
	if h, ok := parse(b); ok && h.tag == e.tag {
		return h, true
	}
	if !e.hailed(b) {
		e.foreign++
	}
	return header{}, false
}

// hailed tells whether a datagram is a hello, or a late answer to one, and answers a hello.
func (e *end) hailed(b []byte) bool {
	if !bytes.Equal(b, e.hello) {
		return false
	}
	if e.welcomes {
		_ = e.send(e.hello) // what is lost will be said again
	}
	return true
}

// await receives until a datagram of the kind comes; false if none did in time. What else
// comes is late, and does not count.
func (e *end) await(k kind, patience time.Duration) (bool, error) {
	until := now() + patience
	for now() < until {
		b, err := e.receiveWithin(until - now())
		if err != nil {
			if transient(err) {
				continue
			}
			return false, err
		}
		if h, ok := parse(b); ok && h.tag == e.tag && h.kind == k {
			return true, nil
		}
		e.hailed(b)
	}
	return false, nil
}

// receiveWithin waits for a datagram, for a tick or a shorter time; it is stopped by stop.
func (e *end) receiveWithin(patience time.Duration) ([]byte, error) {
	if e.stop.Load() {
		return nil, errStopped
	}
	if err := e.wait(min(patience, tick)); err != nil {
		return nil, err
	}
	return e.poll()
}

// wait returns when there is something to receive, or after some time.
func (e *end) wait(patience time.Duration) error {
	timeout := unix.NsecToTimespec(int64(max(patience, 0)))
	fds := [1]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds[:], &timeout, nil); err != nil && err != unix.EINTR {
		return e.failure(err)
	}
	return nil
}
