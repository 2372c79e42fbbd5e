package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

const (
	// leastTimeout is the least retransmission timeout in use: Linux's; RFC 6298 asks for
	// a second.
	leastTimeout = 200 * time.Millisecond
	// dupThreshold is how many duplicate acknowledgements tell of a loss (RFC 5681,
	// section 3.2).
	dupThreshold = 3
	// reorderWindow is how late bytes may come that were only overtaken, when the round
	// trip is shorter or unknown.
	reorderWindow = 3 * time.Millisecond
	// copyLag is how much later the same bytes may show at another place, cut into other
	// segments on the way.
	copyLag = time.Millisecond
	// maxSent bounds the segments whose time is remembered, per stream, and maxGroup how
	// many may be put together for that; both are powers of two.
	maxSent  = 128
	maxGroup = 1 << 12
)

// segment is bytes that were sent and not acknowledged.
type segment struct {
	seq, end uint32
	sent     capture.Mark // for the last time
	tries    int32        // how often they were sent again
}

// keep remembers when a segment was sent. When there are too many, neighbours are put
// together, with the earlier one's time, and so are as many of those that follow.
func (s *stream) keep(g segment) {
	n := len(s.sent)
	if n == maxSent {
		s.coarsen()
		n = len(s.sent)
	}
	if n > 0 && before(s.sent[0].seq+far, g.seq) {
		s.sent, n = s.sent[:0], 0 // nobody acknowledges
	}
	if n > 0 && s.grouped < s.group {
		if last := &s.sent[n-1]; last.tries == 0 && last.end == g.seq {
			last.end = g.end
			s.grouped++
			return
		}
	}
	s.sent = append(s.sent, g)
	s.grouped = 1
}

// coarsen puts every two segments together.
func (s *stream) coarsen() {
	for i := range maxSent / 2 {
		s.sent[i] = s.sent[2*i]
		s.sent[i].end = s.sent[2*i+1].end
	}
	s.sent = s.sent[:maxSent/2]
	s.group = min(2*max(s.group, 1), maxGroup)
}

// forget drops the segments that were acknowledged.
func (s *stream) forget() {
	n := 0
	for n < len(s.sent) && !before(s.una, s.sent[n].end) {
		n++
	}
	if n > 0 {
		s.sent = s.sent[:copy(s.sent, s.sent[n:])]
	}
	if len(s.sent) < maxSent/8 {
		s.group = 0
	}
}

// again says when the byte seq was last sent, and how often it was sent again including
// now, m. The segment that holds it is cut, so that the times of its other bytes stay.
func (s *stream) again(seq, end uint32, m capture.Mark) (was capture.Mark, tries int, ok bool) {
	for i := 0; i < len(s.sent); i++ {
		g := s.sent[i]
		if !before(g.seq, end) {
			break
		}
		if !before(seq, g.end) {
			continue
		}
		if !ok {
			was, tries, ok = g.sent, int(g.tries)+1, true
		}
		i = s.cut(i, seq, end, segment{sent: m, tries: g.tries + 1})
	}
	return was, tries, ok
}

// cut replaces the part of the i-th segment from seq to end, and returns where that part
// is now. When there is no room for more segments the whole is replaced.
func (s *stream) cut(i int, seq, end uint32, by segment) int {
	g := s.sent[i]
	by.seq, by.end = later(g.seq, seq), earlier(g.end, end)
	if len(s.sent)+2 > maxSent {
		by.seq, by.end = g.seq, g.end
	}
	if before(by.end, g.end) {
		rest := g
		rest.seq = by.end
		s.insert(i+1, rest)
	}
	if before(g.seq, by.seq) {
		s.sent[i].end = by.seq
		i++
		s.insert(i, by)
	} else {
		s.sent[i] = by
	}
	return i
}

func (s *stream) insert(i int, g segment) {
	s.sent = append(s.sent, segment{})
	copy(s.sent[i+1:], s.sent[i:])
	s.sent[i] = g
}

// isCopyOf says that bytes which were all seen come only from another place, where they
// may be cut otherwise.
func (s *stream) isCopyOf(f *capture.Frame, seq uint32) bool {
	if placeOf(f) == s.place {
		return false
	}
	if f.Time.Sub(s.last.Time) <= copyLag {
		return true
	}
	for i := range s.sent {
		if g := &s.sent[i]; !before(seq, g.seq) && before(seq, g.end) {
			return f.Time.Sub(g.sent.Time) <= copyLag
		}
	}
	return false
}

// resent takes a packet whose bytes were seen before.
func (t *Tracker) resent(c *conn, from end, f *capture.Frame, seq uint32) {
	s := &c.tcp.streams[from]
	end := earlier(seq+uint32(f.Length), s.max)
	c.Retransmitted[c.side(from)]++
	s.timing = false
	was, tries, ok := s.again(seq, end, markOf(f))
	if !ok || s.acked && !before(s.una, end) {
		return // they had arrived: only their acknowledgement was late
	}
	l := loss{
		elapsed: f.Time.Sub(was.Time),
		rtt:     c.RTT,
		told:    s.told > was.Time,
		tail:    end == s.max,
		tries:   tries,
	}
	if l.told {
		l.since = f.Time.Sub(s.told)
	}
	t.repaired(c, from, f, capture.Stall{Kind: l.kind(), From: was, Tries: tries})
}

// noticed is the packet that showed that the byte seq is missing.
func (s *stream) noticed(seq uint32) origin {
	if s.rare != nil {
		for i := range s.rare.early.held {
			if p := &s.rare.early.held[i]; before(seq, p.seq) {
				return p.origin
			}
		}
	}
	return origin{mark: s.last}
}

// late takes a packet that fills a gap, which another one showed.
func (t *Tracker) late(c *conn, from end, f *capture.Frame, noticed origin) {
	s := &c.tcp.streams[from]
	elapsed := f.Time.Sub(noticed.mark.Time)
	if s.overtaken(c, f, noticed, elapsed) {
		c.Reordered[c.side(from)]++
		return
	}
	c.Retransmitted[c.side(from)]++
	s.timing = false
	told := s.told > noticed.mark.Time
	kind := capture.StallFast // if not told, the acknowledgements are out of sight
	if elapsed >= leastTimeout && (!told || f.Time.Sub(s.told) >= leastTimeout) {
		kind = capture.StallTimeout
	}
	t.repaired(c, from, f, capture.Stall{Kind: kind, From: noticed.mark, Tries: 1})
}

// overtaken says that late bytes were sent in their turn, before those that showed the
// gap. Timestamps tell, if they differ; else a loss cannot be repaired within a round
// trip, which may have been measured too long.
func (s *stream) overtaken(c *conn, f *capture.Frame, noticed origin, elapsed time.Duration) bool {
	if noticed.stamped && f.Options.Timestamps && noticed.stamp != f.Options.Value {
		return before(f.Options.Value, noticed.stamp)
	}
	return elapsed < c.RTT/2 || elapsed < reorderWindow && s.dups < dupThreshold
}

// repaired tells a stall that a packet ended. While the window is closed, bytes are sent
// again to ask whether it still is: that time is the receiver's.
func (t *Tracker) repaired(c *conn, from end, f *capture.Frame, stall capture.Stall) {
	if r := c.tcp.streams[from].rare; r != nil {
		r.burst.idle = 0
		if r.closed.Seen() {
			return
		}
	}
	stall.To = markOf(f)
	stall.Bytes = f.Length
	t.stall(c, from, stall)
}

// loss is what is known when bytes are sent again.
type loss struct {
	elapsed time.Duration // since they were sent before
	rtt     time.Duration // 0 is unknown
	// told says that the receiver reported a loss since then, the last time since ago.
	told  bool
	since time.Duration
	// tail says that no byte after them had been sent.
	tail  bool
	tries int
}

// kind says what made the sender send again.
//
//   - The receiver reported a loss, by duplicate acknowledgements or selective ones (RFC
//     5681, RFC 8985), and not longer ago than a timer takes: a fast retransmit.
//   - Nothing was reported for as long as a timer takes at least (RFC 6298; Linux's 200
//     ms), or it is not the first time: a timeout.
//   - Sooner, and the last bytes that were sent: a tail loss probe, which goes out after
//     two round trips (RFC 8985, section 7). A lone segment's probe waits 200 ms more
//     for a delayed acknowledgement; that is as bad as a timeout, and counts as one.
//   - Sooner, in the middle, though after two round trips: a timer that was set shorter.
//   - Else something told the sender that the capture does not show: fast.
func (l loss) kind() capture.StallKind {
	switch {
	case l.told && l.since < leastTimeout:
		return capture.StallFast
	case l.elapsed >= leastTimeout || l.tries > 1:
		return capture.StallTimeout
	case l.tail:
		return capture.StallTail
	case l.rtt > 0 && l.elapsed >= 2*l.rtt:
		return capture.StallTimeout
	}
	return capture.StallFast
}

// stall tells one, without the part that was told before.
func (t *Tracker) stall(c *conn, sender end, s capture.Stall) {
	last := &c.tcp.streams[sender].stalled
	if s.From.Time < last.Time {
		s.From = *last
	}
	if s.To.Time <= s.From.Time {
		return
	}
	*last = s.To
	s.Conn, s.Sender = &c.Conn, c.side(sender)
	s.Full = s.Bytes >= c.fullSegment(sender)
	t.sink.Stall(&s)
}
