package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// coverTime and coverPackets say how long a pure acknowledgement of bytes that are
	// missing must stand before they are given up.
	coverTime    = 5 * time.Millisecond
	coverPackets = 16
)

// acknowledge takes what an end says of the other's stream.
func (t *Tracker) acknowledge(c *conn, from end, f *capture.Frame) {
	e := from.other()
	s := &c.tcp.streams[e]
	if from == c.end(capture.Client) && c.SYNACK.Seen() && !c.Established.Seen() {
		t.establish(c, f)
	}
	ahead := int32(f.Ack - s.una)
	if !s.acked {
		s.acked, ahead = true, 1
	}
	pure := f.Length <= 0 && f.Flags&capture.FIN == 0
	if ahead > 0 {
		s.una, s.dups = f.Ack, 0
		t.sample(c, s, f)
		if pure {
			t.pureAck(c, from, f)
		}
		s.forget()
	} else if ahead == 0 && pure && len(s.sent) > 0 && f.Window != 0 && (f.Window == s.window || f.Options.SACKs) {
		s.dups = min(s.dups, 254) + 1
		s.told = f.Time
	}
	if f.Options.SACKs && !f.Options.DSACK {
		s.told = f.Time
	}
	t.offer(c, e, f)
	t.cover(c, e, f)
}

// sample takes the time from a segment to its acknowledgement. Segments that were sent
// again tell nothing (Karn).
func (t *Tracker) sample(c *conn, s *stream, f *capture.Frame) {
	if s.timing && !before(f.Ack, s.rttEnd) {
		s.timing = false
		c.roundTrip(s, f.Time.Sub(s.rttAt))
	}
}

// roundTrip takes a time from bytes of s to their acknowledgement.
func (c *conn) roundTrip(s *stream, d time.Duration) {
	if d <= 0 || s.rtt != 0 && d >= s.rtt {
		return
	}
	s.rtt = d
	c.RTT = c.tcp.streams[0].rtt + c.tcp.streams[1].rtt
}

// offer follows the window that the other end offers to the sender e. A window of 0 is 0
// at any scale.
func (t *Tracker) offer(c *conn, e end, f *capture.Frame) {
	s := &c.tcp.streams[e]
	s.window = f.Window
	switch {
	case f.Window == 0:
		if r := s.uncommon(); !r.closed.Seen() {
			r.closed = markOf(f)
		}
	case s.rare != nil && s.rare.closed.Seen():
		t.reopen(c, e, markOf(f))
	}
}

// reopen ends the time in which the window was closed.
func (t *Tracker) reopen(c *conn, e end, m capture.Mark) {
	s := &c.tcp.streams[e]
	from := s.rare.closed
	s.rare.closed = capture.Mark{}
	t.stall(c, e, capture.Stall{Kind: capture.StallZeroWindow, From: from, To: m})
}

// cover sees whether bytes that are missing were acknowledged: these of e by this frame,
// and those of either end by earlier ones.
func (t *Tracker) cover(c *conn, e end, f *capture.Frame) {
	s := &c.tcp.streams[e]
	to := f.Ack
	if s.ended && to == s.fin+1 {
		to = s.fin
	}
	if s.started && s.lacks(to) {
		r := s.uncommon()
		if !r.covered.Seen() || !before(s.next, r.coveredTo) {
			r.covered, r.coveredFor = markOf(f), 0
		}
		r.coveredTo = to
		if f.Length > 0 {
			t.giveUp(c, e)
		} else if !c.isCovered {
			c.isCovered = true
			t.covered = append(t.covered, c)
		}
	}
	if c.isCovered {
		t.countCovered(c, f.Time)
	}
}

// lacks says that bytes up to an acknowledgement were not captured. A single one beyond
// all that was seen is more likely a FIN that was not.
func (s *stream) lacks(to uint32) bool {
	if !before(s.next, to) || int32(to-s.max) > far {
		return false
	}
	return to != s.next+1 || s.next != s.max
}

// countCovered gives up gaps whose acknowledgement has stood for long enough.
func (t *Tracker) countCovered(c *conn, now capture.Time) {
	for e := range end(2) {
		r := c.tcp.streams[e].rare
		if r == nil || !r.covered.Seen() {
			continue
		}
		r.coveredFor++
		if r.coveredFor > coverPackets || now.Sub(r.covered.Time) >= coverTime {
			t.giveUp(c, e)
		}
	}
}

// giveUp tells the bytes up to coveredTo as missing where they are. They were complete
// when they were acknowledged, at the latest.
func (t *Tracker) giveUp(c *conn, e end) {
	s := &c.tcp.streams[e]
	to, m := s.rare.coveredTo, s.rare.covered
	s.rare.covered = capture.Mark{}
	for before(s.next, to) {
		if held := s.rare.early.held; len(held) > 0 && !before(to, held[0].seq) {
			t.skipGap(c, e, m)
			continue
		}
		n := to - s.next
		s.next = to
		t.miss(c, e, int(n), m)
	}
	s.max = later(s.max, s.next)
}

// giveUpCovered gives up what connections that fell silent still wait for.
func (t *Tracker) giveUpCovered() {
	kept := t.covered[:0]
	for _, c := range t.covered {
		if c.tcp == nil {
			continue // it ended meanwhile
		}
		t.countCovered(c, t.now)
		if c.tcp.streams[0].covered() || c.tcp.streams[1].covered() {
			kept = append(kept, c)
		} else {
			c.isCovered = false
		}
	}
	clear(t.covered[len(kept):])
	t.covered = kept
}

func (s *stream) covered() bool { return s.rare != nil && s.rare.covered.Seen() }
