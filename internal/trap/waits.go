package trap

import (
	"cmp"
	"slices"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// waitsPerConn and waitingConns bound the lost times that are kept until the requests
	// that lost them are told. Older ones are not charged, only counted.
	waitsPerConn = 16
	waitingConns = 4096
)

// waits are times that connections lost.
type waits struct {
	conns   map[uint64]*connWaits
	order   recent[uint64]
	overlap []wait // reused
}

type connWaits struct {
	list [waitsPerConn]wait
	n    int
}

type wait struct{ from, to capture.Time }

func newWaits() waits {
	return waits{conns: map[uint64]*connWaits{}, order: newRecent[uint64](waitingConns)}
}

func (w *waits) add(conn uint64, from, to capture.Time) {
	c := w.conns[conn]
	if c == nil {
		c = &connWaits{}
		w.conns[conn] = c
		if old, full := w.order.replace(conn); full {
			delete(w.conns, old)
		}
	}
	c.list[c.n%waitsPerConn] = wait{from, to}
	c.n++
}

// of is how much of a request's time its connection and those of its calls lost, each
// moment counted once, and how many calls were hit.
func (w *waits) of(r *attribution.Request) (lost time.Duration, calls int) {
	if len(w.conns) == 0 {
		return 0, 0
	}
	w.overlap = w.overlap[:0]
	w.during(r.Conn.ID, r.Start(), r.End())
	for i := range r.Links {
		x, end := r.Links[i].Exchange, r.Links[i].Exchange.End()
		if !x.Answered() {
			end = r.End()
		}
		before := len(w.overlap)
		w.during(x.Conn.ID, max(x.Start(), r.Start()), min(end, r.End()))
		if len(w.overlap) > before {
			calls++
		}
	}
	return union(w.overlap), calls
}

func (w *waits) during(conn uint64, from, to capture.Time) {
	c := w.conns[conn]
	if c == nil {
		return
	}
	for _, x := range c.list[:min(c.n, waitsPerConn)] {
		if part := (wait{max(x.from, from), min(x.to, to)}); part.to > part.from {
			w.overlap = append(w.overlap, part)
		}
	}
}

// union is the time that is in any of them; it sorts them.
func union(list []wait) time.Duration {
	slices.SortFunc(list, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
	var sum time.Duration
	var end capture.Time
	for _, x := range list {
		if x.to > end {
			sum += x.to.Sub(max(x.from, end))
			end = x.to
		}
	}
	return sum
}
