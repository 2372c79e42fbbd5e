package flow

import (
	"slices"

	"taper.dev/taper/internal/capture"
)

const (
	// maxEarly bounds the bytes of a connection that wait for a gap to fill, and maxAll
	// those of all; maxPieces bounds in how many pieces.
	maxEarly  = 256 << 10
	maxAll    = 32 << 20
	maxPieces = 512
	// pieceCost is what a piece counts for beside its bytes.
	pieceCost = 64
)

// piece is bytes after a gap. Those of length that data lacks were cut.
type piece struct {
	seq    uint32
	length int
	data   []byte
	origin
}

// origin is the packet that bytes came in, and its timestamp (RFC 7323).
type origin struct {
	mark    capture.Mark
	stamped bool
	stamp   uint32
}

func originOf(f *capture.Frame) origin {
	return origin{markOf(f), f.Options.Timestamps, f.Options.Value}
}

func (p *piece) end() uint32 { return p.seq + uint32(p.length) }

// early holds what came before its turn: in order, without overlap, after a gap.
type early struct {
	held  []piece
	bytes int
}

// overlap counts the bytes from seq to end that are held.
func (e *early) overlap(seq, end uint32) int {
	n := 0
	for i := range e.held {
		p := &e.held[i]
		from, to := later(p.seq, seq), earlier(p.end(), end)
		if before(from, to) {
			n += int(to - from)
		}
	}
	return n
}

func later(a, b uint32) uint32 {
	if before(a, b) {
		return b
	}
	return a
}

func earlier(a, b uint32) uint32 {
	if before(a, b) {
		return a
	}
	return b
}

// holdBack keeps bytes until the gap before them is filled. What is held already is
// kept as it was: of two versions of a byte the first counts.
func (t *Tracker) holdBack(c *conn, from end, seq uint32, length int, data []byte, o origin) {
	s := &c.tcp.streams[from]
	e := &s.uncommon().early
	end := seq + uint32(length)
	i := 0
	for before(seq, end) {
		for i < len(e.held) && !before(seq, e.held[i].end()) {
			i++
		}
		to := end
		if i < len(e.held) {
			if !before(seq, e.held[i].seq) {
				skip := int(e.held[i].end() - seq)
				seq, data = e.held[i].end(), data[min(skip, len(data)):]
				continue
			}
			to = earlier(end, e.held[i].seq)
		}
		n := int(to - seq)
		own := slices.Clone(data[:min(n, len(data))])
		e.held = slices.Insert(e.held, i, piece{seq, n, own, o})
		e.bytes += len(own) + pieceCost
		t.early += len(own) + pieceCost
		seq, data = to, data[min(n, len(data)):]
	}
	for len(e.held) > 0 && (e.bytes > maxEarly || t.early > maxAll || len(e.held) > maxPieces) {
		t.skipGap(c, from, o.mark)
	}
}

// skipGap gives up the first gap: its bytes are missing.
func (t *Tracker) skipGap(c *conn, from end, m capture.Mark) {
	s := &c.tcp.streams[from]
	gap := s.rare.early.held[0].seq - s.next
	s.next += gap
	t.miss(c, from, int(gap), m)
	t.drain(c, from, m)
}

// drain delivers what no longer waits.
func (t *Tracker) drain(c *conn, from end, m capture.Mark) {
	s := &c.tcp.streams[from]
	if s.rare == nil {
		return
	}
	e := &s.rare.early
	n := 0
	for ; n < len(e.held) && e.held[n].seq == s.next; n++ {
		p := e.held[n]
		e.bytes -= len(p.data) + pieceCost
		t.early -= len(p.data) + pieceCost
		s.next = p.end()
		t.deliver(c, from, p.data, p.length, m)
	}
	e.held = slices.Delete(e.held, 0, n)
	if len(e.held) == 0 {
		e.held = nil
	}
}
