package datagram

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// vigil is what an end does beside its part in the test if the other end is to say when
// the trial is over: it notices that, and that nothing comes any more.
type vigil struct {
	*end
	// heard is when something came last, silence how long that may be ago.
	heard, silence time.Duration
	// limit is when the trial must be over at the latest.
	limit time.Duration
	// asks is whether the other end must still be asked to begin, asked when that was done.
	asks  bool
	asked time.Duration
	// finished is set when the other end has said that it is.
	finished bool
}

func (e *end) newVigil(spec probe.Spec) *vigil {
	v := &vigil{end: e, heard: now(), silence: idle}
	v.limit = v.heard + Limit(spec)
	if spec.RatePerS > 0 { // it may be so low that silence is meant
		v.silence += time.Duration(3 * float64(spec.Streams) * float64(time.Second) / spec.RatePerS)
	}
	return v
}

// attend receives until the trial is over. Each datagram is shown to take, which says
// whether it was one of the test's; others it deals with itself.
func (v *vigil) attend(take func(b []byte, at time.Duration) (bool, error)) error {
	for {
		over := false
		b, err := v.receive()
		at := now()
		switch {
		case err == nil:
			v.heard = at
			var mine bool
			if mine, err = take(b, at); err == nil && !mine {
				over, err = v.heed(b)
			}
		case transient(err):
			over, err = v.quiet(at)
		}
		switch {
		case v.finished && errors.Is(err, unix.ECONNREFUSED):
			// It has closed its socket, and its last word waits behind the refusal of an
			// answer that was one too many.
			return nil
		case over || err != nil:
			return err
		case v.stop.Load():
			return errStopped
		case at > v.limit:
			return fmt.Errorf("%s has not ended the trial in time", v.peer)
		}
	}
}

// heed does what the other end says, and tells whether the trial is over.
func (v *vigil) heed(b []byte) (over bool, err error) {
	h, ok := v.read(b)
	switch {
	case !ok:
		return false, nil
	case h.kind == finish:
		v.asks, v.finished = false, true
		return false, v.control(finished, 0)
	case h.kind == bye && v.finished:
		return true, nil
	case h.kind == bye:
		return false, errDismissed
	case h.kind != begin: // which may be said again
		v.foreign++
	}
	return false, nil
}

// quiet is what to do when nothing came.
func (v *vigil) quiet(at time.Duration) (over bool, err error) {
	switch {
	case v.finished && at-v.heard > lingering:
		return true, nil // the last word was lost
	case at-v.heard > v.silence:
		return false, fmt.Errorf("nothing came from %s for %v: it is gone, or datagrams no longer get through", v.peer, v.silence)
	case v.asks && at-v.asked > tick:
		v.asked = at
		return false, v.control(begin, 0)
	}
	return false, nil
}
