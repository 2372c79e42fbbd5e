package stream

import (
	"fmt"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// schedule says when messages are meant to be sent.
type schedule struct {
	start time.Time
	rate  float64 // messages per second
	total int64
}

// schedule is that of an open loop which begins in a moment.
func (e *end) schedule() schedule {
	const moment = 2 * time.Millisecond // for threads to begin
	return schedule{
		start: time.Now().Add(moment),
		rate:  e.spec.RatePerS,
		total: max(1, int64(e.spec.RatePerS*e.spec.Duration.Seconds())),
	}
}

// at is when message k (from 0) is meant to be sent: it depends on no other message.
func (s schedule) at(k int64) time.Time {
	return s.start.Add(time.Duration(float64(k) * 1e9 / s.rate))
}

// due is how many messages should have been sent by now.
func (s schedule) due(now time.Time) int64 {
	if now.Before(s.start) {
		return 0
	}
	return min(s.total, 1+int64(now.Sub(s.start).Seconds()*s.rate))
}

// share is how many of the messages are stream i's, of n in turn.
func (s schedule) share(i, n int) int64 { return (s.total - int64(i) + int64(n) - 1) / int64(n) }

// askAtRate is an open loop: messages are sent when they are meant to be, by one thread for
// each stream, and answers timed by another. A round trip counts from when its message was
// meant to be sent, so that a stall shows in each message that it held up.
func (e *end) askAtRate(fds []int, s schedule, rtts []*probe.Distribution, all []*tally) (probe.Usage, error) {
	n := len(fds)
	// Answers that do not come are not waited for longer than that.
	overdue := time.AfterFunc(time.Until(s.start.Add(e.spec.Duration+settling)), e.group.Shutdown)
	defer overdue.Stop()
	sent := make([]struct {
		count atomic.Int64
		_     [64]byte // each on a line of the cache of its own
	}, n)
	usage, err := e.threads(2*n, func(i int) error {
		if i < n {
			return e.sendAtRate(fds[i], s, i, n, &sent[i].count)
		}
		i -= n
		return e.timeAnswers(fds[i], s, i, n, &sent[i].count, rtts[i], all[i])
	})
	for i, t := range all {
		t.sent = sent[i].count.Load()
	}
	return usage, err
}

// sendAtRate sends stream i's messages, of n streams.
func (e *end) sendAtRate(fd int, s schedule, i, n int, sent *atomic.Int64) error {
	undo, err := socket.Punctual()
	if err != nil {
		return err
	}
	defer undo()
	message := payload(e.spec.MessageBytes)
	for k := range s.share(i, n) {
		if err := socket.Until(e.ctx, s.at(k*int64(n)+int64(i))); err != nil {
			return e.broken(err, time.Since(s.start))
		}
		sent.Store(k + 1) // before: its answer may be there before the call returns
		if _, err := socket.Write(fd, message); err != nil {
			sent.Store(k)
			return e.unanswered(err, time.Since(s.start))
		}
	}
	// The trial lasts as long as it was to last, however few messages there are.
	if err := socket.Until(e.ctx, s.start.Add(e.spec.Duration)); err != nil {
		return e.broken(err, time.Since(s.start))
	}
	return nil
}

// timeAnswers times stream i's answers.
func (e *end) timeAnswers(fd int, s schedule, i, n int, sent *atomic.Int64, rtt *probe.Distribution, t *tally) error {
	defer t.explain(fd)
	reply, share := int64(e.spec.ReplyBytes), s.share(i, n)
	buf := make([]byte, leastBuffer)
	var bytes int64
	for t.received < share {
		got, err := e.read(fd, buf)
		now := time.Now()
		if err != nil {
			return e.unanswered(err, time.Since(s.start))
		}
		bytes += int64(got)
		if bytes > sent.Load()*reply {
			return early(fmt.Sprintf("%v, after %v", errTooMuch, time.Since(s.start).Round(time.Millisecond)))
		}
		for ; t.received < bytes/reply; t.received++ {
			rtt.Record(now.Sub(s.at(t.received*int64(n) + int64(i))))
		}
		t.elapsed = now.Sub(s.start)
	}
	return nil
}

// errLate is an answer, or all of a connection, that comes too late to be waited for.
var errLate = fmt.Errorf("not everything was answered %v after the last message should have been sent", settling)

// unanswered says why an open loop ended while answers were outstanding.
func (e *end) unanswered(err error, at time.Duration) error {
	if lost(err) && e.ctx.Err() == nil && at >= e.spec.Duration+settling {
		err = errLate
	}
	return e.broken(err, at)
}
