package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

// stream is what one end of a TCP connection sends, and what the other end says of it.
// Sequence numbers wrap: they are compared by the sign of their difference.
type stream struct {
	// next is the first byte that was not delivered yet, max the one after the last that
	// was seen; they differ while there is a gap. una is the first byte that the other
	// end did not acknowledge, as far as was seen.
	next, max, una uint32
	started        bool // next and max are known
	acked          bool // una is known
	ended          bool // a FIN was seen, at fin
	dups           uint8
	// group is how many segments are put together in sent, grouped how many are in its
	// last.
	group, grouped uint16
	fin            uint32
	largest        int32 // segment
	place          place // where its first packet was seen
	// window is what the other end last offered, to be shifted by scale if tcp.scaled.
	window uint16
	scale  int8
	// timing says that rttEnd was sent at rttAt, and is not acknowledged yet; rtt is the
	// least time that the other end took to acknowledge.
	timing bool
	rttEnd uint32
	rttAt  capture.Time
	rtt    time.Duration
	// last is the last packet with new bytes; told when the other end last told of a loss,
	// by a duplicate acknowledgement (dups in a row) or a selective one; stalled the end of
	// the last stall.
	last    capture.Mark
	told    capture.Time
	stalled capture.Mark
	// sent are the segments that are not acknowledged.
	sent []segment
	// rare is what most streams never need.
	rare *rare
}

// rare is the state of streams that had difficulties.
type rare struct {
	// early are the bytes after a gap.
	early early
	// covered is the first packet that acknowledged bytes which are missing, up to
	// coveredTo; coveredFor counts the connection's packets since.
	covered    capture.Mark
	coveredTo  uint32
	coveredFor int
	// ahead is the packet without payload that said that bytes up to aheadTo had been sent,
	// which were not seen then.
	ahead   origin
	aheadTo uint32
	// closed is when the other end closed its window, if it is closed.
	closed  capture.Mark
	delayed delayed
	burst   burst
}

func (s *stream) uncommon() *rare {
	if s.rare == nil {
		s.rare = &rare{}
	}
	return s.rare
}

// before says that a comes before b.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// begin says which byte comes first.
func (s *stream) begin(seq uint32) {
	s.next, s.max, s.started = seq, seq, true
}

// far is how far from what was seen a sequence number can lie, before or after it: more
// than windows are, and than a capture misses of one connection. What lies farther is
// damaged, or something else. A segment there begins the stream anew, an acknowledgement
// is not believed.
const far = 64 << 20

// segment takes a TCP packet.
func (t *Tracker) segment(c *conn, from end, f *capture.Frame) {
	if f.Flags&capture.SYN != 0 {
		t.synchronise(c, from, f)
	}
	if f.Flags&capture.ACK != 0 && f.Flags&(capture.RST|capture.SYN) == 0 {
		t.acknowledge(c, from, f)
	}
	if f.Flags&capture.RST == 0 {
		if f.Length > 0 {
			t.payload(c, from, f)
		} else {
			c.tcp.streams[from].announce(f)
		}
	}
	if f.Flags&(capture.FIN|capture.RST) != 0 {
		t.end(c, from, f)
	}
}

// payload takes a packet's bytes.
func (t *Tracker) payload(c *conn, from end, f *capture.Frame) {
	s := &c.tcp.streams[from]
	seq, data := firstByte(f), captured(f)
	end := seq + uint32(f.Length)
	if f.Length == 1 && s.acked && seq+1 == s.una && (!s.started || s.una == s.next) {
		return // a keepalive probe: its byte was acknowledged long ago
	}
	if !s.started {
		s.begin(seq)
		s.place = placeOf(f)
	} else if d := int32(seq - s.next); d > far || d < -far {
		t.jump(c, from, seq, markOf(f))
	}
	side := c.side(from)
	if before(seq, s.max) {
		t.notNew(c, from, f, seq)
		return
	}
	c.Packets[side]++
	c.Bytes[side] += uint64(f.Length)
	if s.rare != nil && s.rare.ahead.mark.Seen() {
		t.announced(c, from, f, seq)
	}
	t.sends(c, from, f, seq)
	inOrder := seq == s.next
	s.max = end
	if !inOrder {
		t.holdBack(c, from, seq, f.Length, data, originOf(f))
		return
	}
	s.next = end
	t.deliver(c, from, data, f.Length, markOf(f))
}

// firstByte is the sequence number of the first byte of payload.
func firstByte(f *capture.Frame) uint32 {
	if f.Flags&capture.SYN != 0 {
		return f.Seq + 1
	}
	return f.Seq
}

// announce takes the sequence number of a packet without payload: the sender had sent all
// before it, or at least meant to.
func (s *stream) announce(f *capture.Frame) {
	seq := firstByte(f)
	if !s.started || s.ended || !before(s.max, seq) || int32(seq-s.max) > far {
		return // after a FIN all is known
	}
	r := s.uncommon()
	r.aheadTo = seq
	if !r.ahead.mark.Seen() {
		r.ahead = originOf(f)
	}
}

// announced takes bytes that are new, if they had been announced.
func (t *Tracker) announced(c *conn, from end, f *capture.Frame, seq uint32) {
	r := c.tcp.streams[from].rare
	if before(seq, r.aheadTo) {
		t.late(c, from, f, r.ahead)
	}
	if !before(seq+uint32(f.Length), r.aheadTo) {
		r.ahead = origin{}
	}
}

// sends does what new bytes mean for stalls and round trips.
func (t *Tracker) sends(c *conn, from end, f *capture.Frame, seq uint32) {
	s := &c.tcp.streams[from]
	mark, end := markOf(f), seq+uint32(f.Length)
	t.afterDelayed(c, from, f)
	t.afterIdle(c, from, f)
	s.keep(segment{seq: seq, end: end, sent: mark})
	if !s.timing {
		s.timing, s.rttEnd, s.rttAt = true, end, f.Time
	}
	s.largest = max(s.largest, int32(f.Length))
	s.last = mark
}

// notNew takes a packet that begins below what was seen: bytes that come again, bytes
// that come late, and perhaps new ones after them.
func (t *Tracker) notNew(c *conn, from end, f *capture.Frame, seq uint32) {
	s, side := &c.tcp.streams[from], c.side(from)
	end := seq + uint32(f.Length)
	fresh := s.unseen(seq, end)
	if fresh == 0 && s.isCopyOf(f, seq) {
		t.stats.duplicates++
		return
	}
	c.Packets[side]++
	c.Bytes[side] += uint64(fresh)
	beyond := 0
	if before(s.max, end) {
		beyond = int(end - s.max)
	}
	switch late := fresh - beyond; {
	case late > 0:
		t.late(c, from, f, s.noticed(seq))
	case f.Length-fresh > 1 || fresh == 0:
		t.resent(c, from, f, seq)
	default: // one old byte before new ones was a probe of a closed window
	}
	if beyond > 0 {
		s.keep(segment{seq: s.max, end: end, sent: markOf(f)})
		s.last = markOf(f)
		s.max = end
	}
	if fresh == 0 {
		return
	}
	t.fill(c, from, seq, f.Length, captured(f), originOf(f))
}

// jump goes on at a far away segment. How much lies between is unknown, and not counted.
func (t *Tracker) jump(c *conn, from end, seq uint32, m capture.Mark) {
	s := &c.tcp.streams[from]
	for s.rare != nil && len(s.rare.early.held) > 0 {
		t.skipGap(c, from, m)
	}
	gap := int32(seq - s.next)
	s.begin(seq)
	s.sent, s.timing, s.acked = s.sent[:0], false, false
	if s.rare != nil {
		s.rare.covered, s.rare.ahead = capture.Mark{}, origin{}
	}
	if gap > 0 {
		t.chunk(c, from, &capture.Chunk{Mark: m, Missing: int(gap)})
	}
}

// unseen counts the bytes from seq to end that were neither delivered nor wait.
func (s *stream) unseen(seq, end uint32) int {
	if before(seq, s.next) {
		seq = s.next
	}
	if !before(seq, end) {
		return 0
	}
	n := int(end - seq)
	if s.rare != nil {
		n -= s.rare.early.overlap(seq, end)
	}
	return n
}

// fill delivers those bytes that are next, with what waited for them, and holds back
// those that are not. What waits already is taken as it was.
func (t *Tracker) fill(c *conn, from end, seq uint32, length int, data []byte, o origin) {
	s := &c.tcp.streams[from]
	end := seq + uint32(length)
	for before(seq, end) {
		if before(s.next, seq) {
			t.holdBack(c, from, seq, int(end-seq), data, o)
			return
		}
		if skip := int(s.next - seq); skip > 0 {
			seq, data = s.next, data[min(skip, len(data)):]
			continue
		}
		n := int(end - seq)
		if s.rare != nil && len(s.rare.early.held) > 0 {
			n = min(n, int(s.rare.early.held[0].seq-seq))
		}
		s.next += uint32(n)
		t.deliver(c, from, data[:min(n, len(data))], n, o.mark)
		t.drain(c, from, o.mark)
		seq, data = seq+uint32(n), data[min(n, len(data)):]
	}
}

// deliver tells bytes in order; those of length that data lacks were cut.
func (t *Tracker) deliver(c *conn, from end, data []byte, length int, m capture.Mark) {
	if len(data) > 0 {
		t.chunk(c, from, &capture.Chunk{Mark: m, Data: data})
	}
	if cut := length - len(data); cut > 0 {
		t.miss(c, from, cut, m)
	}
}

// miss tells bytes that the capture lacks.
func (t *Tracker) miss(c *conn, from end, n int, m capture.Mark) {
	c.MissingBytes[c.side(from)] += uint64(n)
	t.chunk(c, from, &capture.Chunk{Mark: m, Missing: n})
}
