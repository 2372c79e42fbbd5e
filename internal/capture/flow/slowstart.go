package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// initialWindow is how many segments go out first (RFC 6928), with one to spare.
	initialWindow = 10 + 1
	// leastPause is the least pause between bursts that is worth telling.
	leastPause = time.Millisecond
	// timestampOption is what MSS and segments differ by; leastMSS is the segment that
	// every host takes (RFC 9293, section 3.7.1).
	timestampOption = 12
	leastMSS        = 536
)

// fullSegment is how long the segments of an end are when they are full, as far as is
// known.
func (c *conn) fullSegment(e end) int {
	mss := int(min(c.MSS[0], c.MSS[1]))
	if mss == 0 {
		mss = int(max(c.MSS[0], c.MSS[1]))
	}
	if mss > timestampOption && c.tcp.timestamps {
		mss -= timestampOption
	}
	if mss == 0 {
		mss = max(int(c.tcp.streams[e].largest), leastMSS)
	}
	return mss
}

// burst is what a sender sent at once after it had been idle.
type burst struct {
	idle    time.Duration // 0: none
	bytes   int
	least   int // bytes that a burst of a slow start has, and the most
	most    int
	full    bool   // its last segment was full: it did not stop for want of bytes
	offered uint16 // by the receiver, meanwhile
	una     uint32 // when it began
}

// afterIdle looks for slow start after idle (RFC 5681, section 4.1): a sender that was
// idle for longer than its timeout begins with a small window, sends it, and must wait
// for a round trip before the next burst.
func (t *Tracker) afterIdle(c *conn, from end, f *capture.Frame) {
	s := &c.tcp.streams[from]
	if !s.last.Seen() {
		return
	}
	pause, mss := f.Time.Sub(s.last.Time), c.fullSegment(from)
	if pause > leastTimeout+c.RTT && len(s.sent) == 0 && f.Length >= mss {
		s.uncommon().burst = burst{
			idle: pause, bytes: f.Length, least: initialWindow / 2 * mss, most: initialWindow * mss,
			full: f.Length%mss == 0, offered: s.window, una: s.una,
		}
		return
	}
	if s.rare == nil || s.rare.burst.idle == 0 {
		return
	}
	b := &s.rare.burst
	if pause < leastPause || pause < c.RTT/2 {
		b.bytes += f.Length
		b.full, b.offered = f.Length%mss == 0, s.window
		return
	}
	if !c.waitedForWindow(s, b, pause, mss) {
		b.idle = 0
		return
	}
	t.stall(c, from, capture.Stall{
		Kind: capture.StallSlowStart, From: s.last, To: markOf(f), Bytes: f.Length, Idle: b.idle,
	})
	*b = burst{
		idle: b.idle, bytes: f.Length, least: b.bytes + b.bytes/2, most: 2*b.bytes + mss,
		full: f.Length%mss == 0, offered: s.window, una: s.una,
	}
}

// waitedForWindow says that a burst ended because its sender's window was used up, and
// that it went on when some of it was acknowledged, a round trip later.
func (c *conn) waitedForWindow(s *stream, b *burst, pause time.Duration, mss int) bool {
	offered := int(b.offered)
	if c.tcp.scaled {
		offered <<= min(s.scale, 14)
	}
	receiverFull := (c.tcp.scaled || len(c.SYNs) > 0) && b.bytes+mss > offered
	return b.full && !receiverFull && b.bytes >= b.least && b.bytes <= b.most &&
		before(b.una, s.una) && pause <= c.RTT+c.RTT/2+promptly
}
