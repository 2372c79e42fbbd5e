package datagram

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

// A bandwidth test sends numbered datagrams one way, as fast as the kernel takes them or
// at a rate, and counts at the other end which arrive. Each is one call of the kernel, as
// in the programs that the figure is to stand for: handing over many at once, or one large
// one for the kernel to cut up, would measure what overlays and machines make of *that*.

// catchUp is for how long after a trial's end messages are sent that were due before, and
// were held up. Who asks for a rate that cannot be had waits no longer.
const catchUp = 200 * time.Millisecond

// blast sends for the trial's duration.
func (e *end) blast(spec probe.Spec, stream int, t *tally) error {
	message := make([]byte, spec.MessageBytes)
	begun := now()
	until := begun + spec.Duration
	last, p := until, pace{}
	if spec.RatePerS > 0 {
		last += catchUp
		p = paceOf(spec.RatePerS, stream, spec.Streams)
	}
	looked := begun
	t.mark(begun)
	for at := begun; at < last; {
		if due := begun + p.due(t.Sent); spec.RatePerS > 0 {
			if due >= until {
				break
			}
			if err := e.waitUntil(due); err != nil {
				return err
			}
		}
		header{e.tag, data, uint64(t.Sent)}.put(message)
		err := e.push(message, last)
		if err == errQuiet {
			break
		}
		if err != nil {
			return err
		}
		at = now()
		t.sent(at, len(message))
		t.bin(at, len(message))
		if at-looked >= probe.BinWidth {
			looked = at
			if err := e.look(); err != nil {
				return err
			}
		}
	}
	return e.conclude(t.Sent)
}

// waitUntil waits for a time, and sees to what comes meanwhile.
func (e *end) waitUntil(due time.Duration) error {
	for left := due - now(); left > tick; left = due - now() {
		sleepUntil(due - left + tick)
		if err := e.look(); err != nil {
			return err
		}
	}
	sleepUntil(due)
	return nil
}

// tries is how often a message that the kernel calls too large is tried: it says so once,
// too, of one before it that a router has refused.
const tries = 3

// room is after how long another message is tried if there was no room for it in the
// queue of the interface.
const room = 100 * time.Microsecond

// push sends a message, and waits for room: until a time, then it is errQuiet.
func (e *end) push(message []byte, until time.Duration) error {
	for large := 0; ; {
		err := e.send(message)
		switch {
		case err == nil:
			return nil
		case err == errFull:
			sleepUntil(now() + room)
		case err == errLarge:
			if large++; large == tries {
				return fmt.Errorf("datagrams of %d bytes are too large for the way to %s: ask for smaller messages", len(message), e.peer)
			}
		case err != errQuiet:
			return err
		}
		if err != errLarge && now() >= until {
			return errQuiet
		}
	}
}

// look reads what has come to an end that sends, without waiting.
func (e *end) look() error {
	if e.stop.Load() {
		return errStopped
	}
	for range 16 {
		b, err := e.poll()
		if transient(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if h, ok := e.read(b); ok && h.kind == bye {
			return errDismissed
		}
	}
	return nil
}

// sink receives what the other end blasts. It asks for it first, if it is the near end.
func (e *end) sink(spec probe.Spec, asks bool, t *tally) error {
	seen := newWindow()
	v := e.newVigil(spec)
	if asks {
		v.asks, v.asked = true, now()
		if err := e.control(begin, 0); err != nil {
			return err
		}
	}
	return v.attend(func(b []byte, at time.Duration) (bool, error) {
		h, ok := parse(b)
		if !ok || h.kind != data || h.tag != e.tag || len(b) != spec.MessageBytes {
			return false, nil
		}
		v.asks = false
		t.count(seen.see(h.number), at, len(b))
		return true, nil
	})
}
