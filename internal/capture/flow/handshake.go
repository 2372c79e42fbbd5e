package flow

import "taper.dev/taper/internal/capture"

// replacedBy says that a frame begins another connection between the same two ends: a
// SYN whose initial sequence number is not the one that c began with.
func (c *conn) replacedBy(from end, f *capture.Frame) bool {
	if c.tcp == nil || f.Flags&capture.SYN == 0 {
		return false
	}
	first := f.Seq + 1
	if f.Flags&capture.ACK == 0 {
		return len(c.SYNs) == 0 || c.side(from) != capture.Client || c.tcp.firstSYN != first
	}
	// An answer belongs to the SYN before it, unless that had one already.
	if c.side(from) != capture.Server {
		return true
	}
	return c.tcp.streams[from].started && c.tcp.firstSYNACK != first && (c.SYNACK.Seen() || len(c.SYNs) == 0)
}

// synchronise takes a SYN.
func (t *Tracker) synchronise(c *conn, from end, f *capture.Frame) {
	s, side := &c.tcp.streams[from], c.side(from)
	if f.Flags&capture.ACK == 0 {
		if len(c.SYNs) < capture.MaxSYNs {
			c.SYNs = append(c.SYNs, markOf(f))
		}
		c.tcp.firstSYN = f.Seq + 1
	} else {
		t.answerSYN(c, s, f)
	}
	c.sided = true
	if !s.started || c.Packets[side] == 0 {
		s.begin(f.Seq + 1)
		s.place = placeOf(f)
	}
	c.MSS[side] = f.Options.MSS
	c.tcp.timestamps = f.Options.Timestamps
	// The scale is for the windows that this end offers to the other.
	c.tcp.streams[from.other()].scale = f.Options.WindowScale
	c.tcp.scaled = c.tcp.streams[0].scale >= 0 && c.tcp.streams[1].scale >= 0 && c.SYNACK.Seen()
}

// answerSYN takes a SYN with ACK.
func (t *Tracker) answerSYN(c *conn, s *stream, f *capture.Frame) {
	c.tcp.firstSYNACK = f.Seq + 1
	s.rttAt, s.timing = f.Time, false // until the client's ACK, and then of data
	if c.SYNACK.Seen() {
		c.tcp.repeatedSYNACK = true
		return
	}
	c.SYNACK = markOf(f)
	client := &c.tcp.streams[c.end(capture.Client)]
	client.una, client.acked = f.Ack, true
	if len(c.SYNs) == 1 {
		c.roundTrip(client, f.Time.Sub(c.SYNs[0].Time))
	}
}

// establish takes the client's first ACK after the server's SYN.
func (t *Tracker) establish(c *conn, f *capture.Frame) {
	s := &c.tcp.streams[c.end(capture.Server)]
	if before(f.Ack, c.tcp.firstSYNACK) {
		return
	}
	c.Established = markOf(f)
	if !c.tcp.repeatedSYNACK {
		c.roundTrip(s, f.Time.Sub(c.SYNACK.Time))
	}
}

// end takes a FIN or RST.
func (t *Tracker) end(c *conn, from end, f *capture.Frame) {
	s := &c.tcp.streams[from]
	if !c.Closed.Seen() {
		c.Closed, c.ClosedBy = markOf(f), c.side(from)
		c.Reset = f.Flags&capture.RST != 0
	}
	if f.Flags&capture.RST != 0 {
		t.move(c, listClosed, f.Time)
		return
	}
	s.ended, s.fin = true, f.Seq+uint32(max(f.Length, 0))
	if other := &c.tcp.streams[from.other()]; other.ended {
		t.move(c, listClosed, f.Time)
		if s.complete() && other.complete() {
			// Nothing can follow: what is open now stays so, and is told at once.
			t.endParser(c)
			c.deaf = true
		}
	}
}

// complete says that all bytes up to the FIN were delivered.
func (s *stream) complete() bool { return s.ended && s.next == s.fin }

// endStreams tells what still waits in either stream when the connection ends.
func (t *Tracker) endStreams(c *conn) {
	for e := range end(2) {
		s := &c.tcp.streams[e]
		if s.rare == nil {
			continue
		}
		if s.rare.covered.Seen() {
			t.giveUp(c, e)
		}
		for len(s.rare.early.held) > 0 {
			t.skipGap(c, e, s.rare.early.held[0].mark)
		}
		if s.rare.closed.Seen() {
			t.reopen(c, e, c.Last)
		}
	}
}
