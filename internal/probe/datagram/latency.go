package datagram

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

// caller is the near end of a latency test: it sends numbered messages and finds out
// which of them an answer belongs to.
type caller struct {
	*end
	*tally
	message []byte
	reply   int // what an answer has, bytes
	width   int
	until   time.Duration
}

// call runs the near end of a latency test.
func (e *end) call(spec probe.Spec, stream int, t *tally) error {
	c := &caller{
		end: e, tally: t, message: make([]byte, spec.MessageBytes), reply: spec.ReplyBytes,
		width: width(spec.MessageBytes, spec.ReplyBytes),
	}
	begun := now()
	c.mark(begun)
	c.until = begun + spec.Duration
	var err error
	if spec.RatePerS > 0 {
		p := paceOf(spec.RatePerS, stream, spec.Streams)
		p.start += begun
		err = c.paced(p)
	} else {
		err = c.pingPong()
	}
	if err != nil {
		return err
	}
	if err := c.conclude(t.Sent); err != nil {
		return err
	}
	if c.Received == 0 {
		return fmt.Errorf("%s answered none of %d messages", c.peer, c.Sent)
	}
	return nil
}

// post sends the message with a number.
func (c *caller) post(number uint64) error {
	putNumber(c.message, c.width, number)
	err := c.push(c.message, now()+answerTime)
	if err == errQuiet {
		return fmt.Errorf("the kernel has had no room for a datagram to %s for %v", c.peer, answerTime)
	}
	if err != nil {
		return err
	}
	c.Sent++
	c.SentBytes += int64(len(c.message))
	c.heed()
	return nil
}

// answer reads the number of an answer; false if it is something else.
func (c *caller) answer(b []byte) (uint64, bool, error) {
	if len(b) == c.reply && !c.ours(b) {
		return number(b, c.width), true, nil
	}
	if h, ok := c.read(b); ok && h.kind == bye {
		return 0, false, errDismissed
	}
	return 0, false, nil
}

// record notes an answer to what was meant to be sent at a time.
func (c *caller) record(due, at time.Duration) {
	c.rtt.Record(at - due)
	c.received(at, c.reply)
}

// pingPong sends a message when the one before was answered, or given up.
func (c *caller) pingPong() error {
	var recent journal
	for n := uint64(0); ; n++ {
		at := now()
		if at >= c.until {
			return nil
		}
		if c.stop.Load() {
			return errStopped
		}
		n = recent.unused(n)
		recent.write(n, at)
		if err := c.post(n); err != nil {
			return err
		}
		if err := c.awaitAnswer(n, &recent); err != nil {
			return err
		}
	}
}

// awaitAnswer waits for the answer to the latest message, for answerTime at most.
func (c *caller) awaitAnswer(latest uint64, recent *journal) error {
	for {
		b, err := c.receive()
		at := now()
		if err != nil {
			if !transient(err) {
				return err
			}
			if at-recent.at(latest) >= answerTime {
				c.unanswered++
				return nil
			}
			continue
		}
		n, ok, err := c.answer(b)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		sent, what := recent.answered(n, latest, c.width)
		switch what {
		case awaited:
			c.record(sent, at)
			return nil
		case late:
			c.unanswered--
			c.record(sent, at)
		case again:
			c.Duplicated++
		case unknown:
			c.foreign++
		}
	}
}

// paced sends each message at its time, whatever became of those before. What cannot be
// sent within answerTime after the trial is not: then too few stalls are told of.
func (c *caller) paced(p pace) error {
	r := &rally{caller: c, pace: p, seen: newWindow()}
	defer func() { r.unanswered = r.Sent - r.Received }()
	end := c.until + answerTime
	for {
		t, due := now(), p.due(r.next())
		switch {
		case c.stop.Load():
			return errStopped
		case due >= c.until && (r.Received == r.Sent || t > end):
			return nil
		case t > end:
			return fmt.Errorf("%v of messages could not be sent in time: ask for a lower rate than %.0f per second", c.until-due, 1e9/p.interval)
		case due <= t:
			if err := r.burst(t); err != nil {
				return err
			}
		case !c.hot && due-t > spun:
			if err := c.wait(min(due-t-spun, end-t, tick)); err != nil {
				return err
			}
		}
		if err := r.collect(); err != nil {
			return err
		}
	}
}

// most is how many messages are sent, or answers read, before the other is seen to.
const most = 64

// rally is a latency test at a rate.
type rally struct {
	*caller
	pace pace
	seen *window
}

// next is the number of the next message.
func (r *rally) next() int64 { return r.Sent }

// burst sends what is due.
func (r *rally) burst(t time.Duration) error {
	for range most {
		if due := r.pace.due(r.next()); due > t || due >= r.until {
			return nil
		}
		if err := r.post(uint64(r.next())); err != nil {
			return err
		}
	}
	return nil
}

// collect takes the answers that have come.
func (r *rally) collect() error {
	for range most {
		b, err := r.poll()
		if err != nil {
			if transient(err) {
				return nil
			}
			return err
		}
		at := now()
		n, ok, err := r.answer(b)
		switch {
		case err != nil:
			return err
		case !ok:
		case n >= uint64(r.Sent):
			r.foreign++
		default:
			r.take(n, at)
		}
	}
	return nil
}

func (r *rally) take(n uint64, at time.Duration) {
	switch r.seen.see(n) {
	case duplicate:
		r.Duplicated++
		return
	case reordered:
		r.Reordered++
	}
	r.record(r.pace.due(int64(n)), at)
}
