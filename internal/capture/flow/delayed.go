package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// leastDelay and mostDelay bound how much later than usual an acknowledgement
	// comes that was delayed: Linux delays by 40 ms and up to 200, RFC 1122 allows 500.
	leastDelay = 35 * time.Millisecond
	mostDelay  = 500 * time.Millisecond
	// promptly is how soon after the acknowledgement, beside one and a half round trips, the
	// sender goes on when it waited for nothing else.
	promptly = time.Millisecond
)

// delayed is an acknowledgement that came late, for a small segment that was the last
// one sent.
type delayed struct{ segment, ack capture.Mark }

// pureAck looks for a delayed acknowledgement: all that the other end sent is
// acknowledged at last, nothing else was said since, and its last segment was small, so
// that Nagle's algorithm (RFC 896) would have held back another one.
func (t *Tracker) pureAck(c *conn, from end, f *capture.Frame) {
	e := from.other()
	s := &c.tcp.streams[e]
	n := len(s.sent)
	if n == 0 || before(f.Ack, s.max) {
		return
	}
	last := &s.sent[n-1]
	late := f.Time.Sub(last.sent.Time) - s.rtt
	if late < leastDelay || late > mostDelay || last.tries > 0 || !s.timed(last) ||
		int(last.end-last.seq) >= c.fullSegment(e) || c.tcp.streams[from].last.Time >= last.sent.Time {
		return
	}
	s.uncommon().delayed = delayed{last.sent, markOf(f)}
}

// timed says that g is one segment as it was sent, and not several put together.
func (s *stream) timed(g *segment) bool { return g.sent == s.last }

// afterDelayed sees whether new bytes had only waited for a delayed acknowledgement.
func (t *Tracker) afterDelayed(c *conn, from end, f *capture.Frame) {
	s := &c.tcp.streams[from]
	if s.rare == nil || !s.rare.delayed.ack.Seen() {
		return
	}
	d := s.rare.delayed
	s.rare.delayed = delayed{}
	if f.Length >= c.fullSegment(from) || c.tcp.streams[from.other()].last.Time >= d.segment.Time ||
		f.Time.Sub(d.ack.Time) > c.RTT+c.RTT/2+promptly {
		return
	}
	t.stall(c, from, capture.Stall{
		Kind: capture.StallDelayedACK, From: d.segment, To: markOf(f), Bytes: f.Length,
	})
}
