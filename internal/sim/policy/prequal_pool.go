package policy

import "slices"

// pool are the answers of probes that a proxy has, at most one of each server.
type pool struct {
	answers [poolSize]probed
	size    int
	// oldestNext tells which answer is removed next, the oldest or the worst.
	oldestNext bool
	seen       window
}

// probed is the answer of a probe.
type probed struct {
	at, latency float64
	server      int32
	// inFlight is what the server had, and what the proxy has sent there since.
	inFlight int32
	// uses is how many requests it may still serve.
	uses int32
}

// poolBytes is the size of a pool.
const poolBytes = poolSize*32 + 16 + windowSize*8 + 8

// The paper's defaults.
const (
	poolSize = 16
	// maxAge is how old an answer may be, in seconds.
	maxAge = 1
	// hotQuantile is Q_RIF, 2^-0.25: the part of servers that are not hot.
	hotQuantile = 0.8408964152537145
)

// add puts in an answer, in the place of the last one of this server, or of the oldest if
// the pool is full.
func (p *pool) add(a probed) {
	p.seen.add(a.inFlight)
	i := slices.IndexFunc(p.answers[:p.size], func(b probed) bool { return b.server == a.server })
	switch {
	case i >= 0:
	case p.size == poolSize:
		i = p.best(func(a, b *probed) bool { return a.at < b.at })
	default:
		i = p.size
		p.size++
	}
	p.answers[i] = a
}

// take is the server of the best answer, by the hot-cold lexicographic rule: that of the
// lowest latency among those that are not hot, or if all are, that of the fewest requests in
// flight. The request that goes there counts.
func (p *pool) take() int32 {
	limit := p.seen.quantile(hotQuantile)
	a := &p.answers[p.best(func(a, b *probed) bool { return a.better(b, limit) })]
	a.inFlight++
	a.uses--
	return a.server
}

// remove takes out the oldest answer and the worst in turn. Without it the bad ones, which
// are not used, would be all that is left.
func (p *pool) remove() {
	if p.size == 0 {
		return
	}
	p.oldestNext = !p.oldestNext
	limit := p.seen.quantile(hotQuantile)
	i := p.best(func(a, b *probed) bool {
		if p.oldestNext {
			return a.at < b.at
		}
		return b.better(a, limit)
	})
	p.size--
	p.answers[i] = p.answers[p.size]
}

// better tells whether an answer goes before another. Those with more requests in flight than
// the limit are hot.
func (a *probed) better(b *probed, limit int32) bool {
	aHot, bHot := a.inFlight > limit, b.inFlight > limit
	switch {
	case aHot != bHot:
		return bHot
	case aHot && a.inFlight != b.inFlight:
		return a.inFlight < b.inFlight
	}
	return a.latency < b.latency
}

// best is the place of the answer that goes before all others; the pool is not empty.
func (p *pool) best(before func(a, b *probed) bool) int {
	best := 0
	for i := 1; i < p.size; i++ {
		if before(&p.answers[i], &p.answers[best]) {
			best = i
		}
	}
	return best
}

// keep removes all other answers.
func (p *pool) keep(wanted func(*probed) bool) {
	kept := 0
	for i := range p.size {
		if wanted(&p.answers[i]) {
			p.answers[kept] = p.answers[i]
			kept++
		}
	}
	p.size = kept
}

// windowSize is how many answers the distribution of requests in flight is estimated from.
// The paper leaves it open.
const windowSize = 64

// window are the last numbers, in the order in which they came, and sorted.
type window struct {
	last, sorted [windowSize]int32
	size, at     int32
}

// add puts in a number, in the place of the oldest.
func (w *window) add(v int32) {
	list := w.sorted[:w.size]
	if w.size == windowSize {
		i, _ := slices.BinarySearch(list, w.last[w.at])
		copy(list[i:], list[i+1:])
		list = list[:windowSize-1]
	} else {
		w.size++
	}
	i, _ := slices.BinarySearch(list, v)
	list = w.sorted[:len(list)+1]
	copy(list[i+1:], list[i:])
	list[i] = v
	w.last[w.at] = v
	w.at = (w.at + 1) % windowSize
}

// quantile is what a part q of the numbers does not exceed; 0 if there are none.
func (w *window) quantile(q float64) int32 {
	if w.size == 0 {
		return 0
	}
	return w.sorted[int(q*float64(w.size-1))]
}
