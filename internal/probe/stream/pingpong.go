package stream

import (
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// buffer is what messages of n bytes are read through, and one byte too many shows in.
func buffer(n int) []byte { return make([]byte, min(n+1, mostBuffer)) }

// ask is a closed loop: it sends a message when the answer to the one before is there. The
// clock is read once for each: a round trip begins where the one before ended.
func (e *end) ask(fd int, rtt *probe.Distribution, t *tally) error {
	message, buf := payload(e.spec.MessageBytes), buffer(e.spec.ReplyBytes)
	defer t.explain(fd)
	started := e.now()
	for t.elapsed < e.spec.Duration {
		_, err := socket.Write(fd, message)
		if err == nil {
			t.sent++
			err = e.message(fd, buf, e.spec.ReplyBytes, true)
		}
		at := e.now() - started
		if err != nil {
			return e.broken(err, at) // this end is who ends the connection in order
		}
		t.received++
		rtt.Record(at - t.elapsed)
		t.elapsed = at
	}
	return nil
}

// answer answers messages until the near end closes.
func (e *end) answer(fd int, t *tally) error {
	reply, buf := payload(e.spec.ReplyBytes), buffer(e.spec.MessageBytes)
	defer t.explain(fd)
	for {
		err := e.message(fd, buf, e.spec.MessageBytes, false)
		if err == nil {
			t.received++
			if _, err = socket.Write(fd, reply); err == nil {
				t.sent++
			}
			e.spend(t, e.spec.MessageBytes+e.spec.ReplyBytes)
		}
		if err != nil {
			// Only here, since a clock would be read for each message.
			t.elapsed = e.now() - e.began
			return e.ended(err, t.elapsed, e.spec.Duration)
		}
	}
}

// latency is the near end of tcp_lat.
func (e *end) latency(fds []int) (outcome, error) {
	all, rtts := tallies(len(fds), 0), distributions(len(fds))
	var usage probe.Usage
	var err error
	s := e.schedule()
	if e.spec.RatePerS > 0 {
		usage, err = e.askAtRate(fds, s, rtts, all)
	} else {
		usage, err = e.threads(len(fds), func(i int) error { return e.ask(fds[i], rtts[i], all[i]) })
	}
	for i, fd := range fds {
		countBytes(all[i], e.spec.MessageBytes, e.spec.ReplyBytes)
		e.group.Drop(fd)
	}
	got := outcome{side: side(all, usage), rtt: sum(rtts)}
	got.unanswered = got.side.Sent - got.side.Received
	if e.spec.RatePerS > 0 {
		got.unanswered = s.due(time.Now()) - got.side.Received
	}
	return got, err
}

// answers is the far end of tcp_lat.
func (e *end) answers(fds []int) (outcome, error) {
	all := tallies(len(fds), 0)
	usage, err := e.threads(len(fds), func(i int) error { return e.answer(fds[i], all[i]) })
	for _, t := range all {
		countBytes(t, e.spec.ReplyBytes, e.spec.MessageBytes)
	}
	return outcome{side: side(all, usage)}, err
}

// countBytes knows the bytes from the messages, given the sizes of those sent and received.
func countBytes(t *tally, sent, received int) {
	t.sentBytes, t.receivedBytes = t.sent*int64(sent), t.received*int64(received)
}

func distributions(n int) []*probe.Distribution {
	all := make([]*probe.Distribution, n)
	for i := range all {
		all[i] = probe.NewDistribution()
	}
	return all
}

func sum(all []*probe.Distribution) *probe.Distribution {
	total := probe.NewDistribution()
	for _, d := range all {
		total.Add(d)
	}
	return total
}
