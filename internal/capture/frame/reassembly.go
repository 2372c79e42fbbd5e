package frame

import (
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/capture"
)

// Bounds of reassembly.
const (
	maxDatagrams     = 1024
	maxFragmentBytes = 8 << 20 // of all that wait
	maxPieces        = 256     // of a datagram
	maxDatagram      = 1 << 16
	// fragmentWait is how long a datagram may take, in capture time; what Linux allows.
	fragmentWait = 30 * time.Second
)

// datagram tells IP packets apart whose fragments wait. The interface is part of it: a
// fragment that is captured on two of them belongs to two datagrams, of which a later
// stage drops one.
type datagram struct {
	src, dst netip.Addr
	id       uint32
	protocol byte
	iface    int
}

// piece is one fragment.
type piece struct {
	key   datagram
	start int
	more  bool
	body  span
}

// reassembly holds fragments until the last one of a datagram is there.
type reassembly struct {
	partials map[datagram]*partial
	// oldest and newest are the ends of a list by when datagrams began.
	oldest, newest *partial
	bytes          int
	// whole is the datagram that was put together last.
	whole []byte
	// lost counts fragments that were given up.
	lost uint64
}

// partial is a datagram of which fragments are missing.
type partial struct {
	key          datagram
	older, newer *partial
	began        capture.Time
	pieces       []heldPiece // by start, not overlapping
	length       int         // of the whole; 0 while the last fragment is missing
	bytes        int
}

type heldPiece struct {
	start, end int
	data       []byte // what was captured of it
}

// fragment takes a fragment and, with the last one, decodes the whole. The frame is that
// of the packet that completed it.
func (d *Decoder) fragment(p piece, f *capture.Frame) Verdict {
	r := &d.fragments
	end := p.start + p.body.length
	if p.body.length == 0 || end > maxDatagram || p.more && p.body.length%8 != 0 {
		r.lost++
		return Malformed
	}
	for r.oldest != nil && f.Time.Sub(r.oldest.began) > fragmentWait {
		r.giveUp(r.oldest)
	}
	part := r.find(p.key, f.Time)
	switch part.add(p, end) {
	case known:
		return Held
	case conflicting:
		// Overlaps hide things from filters and are never sent in good faith: receivers
		// drop the whole datagram (RFC 5722).
		r.lost++
		r.giveUp(part)
		return Held
	}
	part.bytes += len(p.body.data)
	r.bytes += len(p.body.data)
	if part.complete() {
		r.forget(part)
		if p.key.src.Is4() {
			return transport(capture.Transport(p.key.protocol), r.join(part), p.key.src, p.key.dst, f)
		}
		return d.extensions(p.key.protocol, r.join(part), p.key.src, p.key.dst, f)
	}
	for r.bytes > maxFragmentBytes {
		r.giveUp(r.oldest)
	}
	return Held
}

// find returns the datagram's partial, a new one if need be.
func (r *reassembly) find(key datagram, now capture.Time) *partial {
	if part := r.partials[key]; part != nil {
		return part
	}
	if r.partials == nil {
		r.partials = map[datagram]*partial{}
	}
	if len(r.partials) >= maxDatagrams {
		r.giveUp(r.oldest)
	}
	part := &partial{key: key, began: now, older: r.newest}
	if r.newest != nil {
		r.newest.newer = part
	} else {
		r.oldest = part
	}
	r.newest = part
	r.partials[key] = part
	return part
}

// forget takes a partial out.
func (r *reassembly) forget(part *partial) {
	delete(r.partials, part.key)
	r.bytes -= part.bytes
	if part.older != nil {
		part.older.newer = part.newer
	} else {
		r.oldest = part.newer
	}
	if part.newer != nil {
		part.newer.older = part.older
	} else {
		r.newest = part.older
	}
}

func (r *reassembly) giveUp(part *partial) {
	r.lost += uint64(len(part.pieces))
	r.forget(part)
}

// waiting is how many fragments wait for others.
func (r *reassembly) waiting() uint64 {
	var n uint64
	for part := r.oldest; part != nil; part = part.newer {
		n += uint64(len(part.pieces))
	}
	return n
}

// join puts the pieces together, up to the first byte that was not captured.
func (r *reassembly) join(part *partial) span {
	r.whole = r.whole[:0]
	for _, held := range part.pieces {
		r.whole = append(r.whole, held.data...)
		if len(held.data) < held.end-held.start {
			break
		}
	}
	return span{r.whole, part.length}
}

// fit says how a fragment fits to those that are there.
type fit uint8

const (
	fresh fit = iota
	known     // it came twice
	conflicting
)

// add keeps a copy of a fragment, if it fits.
func (part *partial) add(p piece, end int) fit {
	i, found := slices.BinarySearchFunc(part.pieces, p.start, func(h heldPiece, start int) int { return h.start - start })
	if found && part.pieces[i].end == end && p.more == (end != part.length) {
		return known
	}
	last := len(part.pieces) - 1
	switch {
	case found,
		i > 0 && part.pieces[i-1].end > p.start,
		i <= last && part.pieces[i].start < end,
		part.length != 0 && (end > part.length || !p.more),
		!p.more && last >= 0 && part.pieces[last].end > end,
		len(part.pieces) == maxPieces:
		return conflicting
	}
	if !p.more {
		part.length = end
	}
	part.pieces = slices.Insert(part.pieces, i, heldPiece{p.start, end, slices.Clone(p.body.data)})
	return fresh
}

// complete says whether no fragment is missing.
func (part *partial) complete() bool {
	if part.length == 0 {
		return false
	}
	at := 0
	for _, held := range part.pieces {
		if held.start != at {
			return false
		}
		at = held.end
	}
	return at == part.length
}
