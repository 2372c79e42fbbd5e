package datagram

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// How long an end waits for the other before it goes on, or takes it for gone. (Variables since tests
// have less time.)
var (
	// patience is for a hello and its answer, and for a trial that was to begin.
	patience = 5 * time.Second
	// idle is for anything, in the middle of a trial.
	idle = 5 * time.Second
	// farewell is for the end to be confirmed.
	farewell = 2 * time.Second
	// answerTime is for an answer in a latency test. One that comes later still counts,
	// with the time that it took, as long as the trial lasts.
	answerTime = time.Second
)

const (
	// firstTry is after how long something is said again; then after twice as long, up to
	// longestTry.
	firstTry, longestTry = 2 * time.Millisecond, 200 * time.Millisecond
	// lingering is how long the last word is waited for: longer than it takes to say it again.
	lingering = 2 * longestTry
)

// greet says hello until it is answered. The time from the last hello to the answer is
// about a round trip. That a machine is not found on its network may be over in a moment,
// when it has just come up; that nothing listens is believed at once.
func (e *end) greet() (time.Duration, error) {
	begun := now()
	last := fmt.Errorf("no answer from %s to datagrams within %v: are they let through?", e.peer, patience)
	for try := firstTry; now()-begun < patience; try = min(2*try, longestTry) {
		said := now()
		err := e.send(e.hello)
		for left := try; left > 0; left = said + try - now() {
			switch {
			case errors.Is(err, unix.EHOSTUNREACH):
				last = err
			case err != nil && !transient(err):
				return 0, err
			}
			var b []byte
			if b, err = e.receiveWithin(left); err != nil {
				continue
			}
			if bytes.Equal(b, e.hello) {
				return now() - said, nil
			}
			e.foreign++
		}
	}
	return 0, last
}

// welcome answers a hello, which is the first that comes.
func (e *end) welcome() error {
	for until := now() + patience; now() < until; {
		b, err := e.receiveWithin(until - now())
		switch {
		case err == nil && len(b) == probe.HelloBytes:
			e.introduce(b)
			e.welcomes = true
			return e.send(e.hello)
		case err == nil:
			e.foreign++
		case !transient(err):
			return err
		}
	}
	return fmt.Errorf("%s said hello once, and not again within %v", e.peer, patience)
}

// insist says something until it is answered by a datagram of another kind.
func (e *end) insist(say kind, number uint64, answer kind, patience time.Duration) (bool, error) {
	begun := now()
	for try := firstTry; now()-begun < patience; try = min(2*try, longestTry) {
		if err := e.control(say, number); err != nil {
			return false, err
		}
		if ok, err := e.await(answer, try); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// conclude tells the other end that all was sent, and makes sure that it knows. It
// reports that the other end is gone as an error.
func (e *end) conclude(sent int64) error {
	ok, err := e.insist(finish, uint64(sent), finished, farewell)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s has not confirmed the end of the trial within %v: it is gone, or datagrams no longer get through", e.peer, farewell)
	}
	return e.control(bye, 0)
}

// dismiss tells the other end that the trial is over before its time. One word is enough:
// who does not hear it notices the silence.
func (e *end) dismiss() {
	header{e.tag, bye, 0}.put(e.out[:])
	_ = e.send(e.out[:])
}

// errDismissed: the other end has stopped the trial.
var errDismissed = errors.New("the other end has stopped the trial")
