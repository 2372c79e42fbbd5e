package operator

import (
	"sync"
	"time"
)

const (
	// statusEvery is the time between two statuses that only bring endpoints up to
	// date, over all policies: one of a hundred endpoints costs the API server some
	// 20 ms, and where endpoints come and go entries are to have it first.
	statusEvery = 100 * time.Millisecond
	// statusesAtOnce may be written without waiting, after a pause.
	statusesAtOnce = 20
)

// pace gives out times that keep a distance from each other, but for a few after a
// pause. It is safe for concurrent use.
type pace struct {
	every  time.Duration
	atOnce int

	mu   sync.Mutex
	last time.Time // given out, or as if it had been
}

// next takes the first time from now on that is free. One that is not used is lost.
func (p *pace) next(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if saved := now.Add(-time.Duration(p.atOnce) * p.every); p.last.Before(saved) {
		p.last = saved // a pause saves up no more than may come at once
	}
	p.last = p.last.Add(p.every)
	if p.last.Before(now) {
		return now
	}
	return p.last
}
