package pageload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// pause is how long a user waits who has seen a page fail. Without it, refused connections
// would be asked for again as fast as a CPU can.
const pause = 100 * time.Millisecond

// user loads the page, each time anew, until the context ends.
func user(ctx context.Context, t *target, p *plan, o *Options, s *step) {
	for ctx.Err() == nil {
		started := time.Now()
		if visit(ctx, t, p, o, s) {
			s.loaded(started, time.Now())
			continue
		}
		if ctx.Err() != nil {
			s.abandoned(started)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// visit loads the page once; it is false unless all of it came.
func visit(ctx context.Context, t *target, p *plan, o *Options, s *step) bool {
	late := fmt.Errorf("%s was not there within %v", t.url, o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, late)
	defer cancel()
	b := newBrowser(t, o)
	defer b.Close()
	v := &visitor{browser: b, step: s}
	v.load(ctx, p.document)
	if !v.failed.Load() {
		v.rest(ctx, p)
	}
	if v.failed.Load() && errors.Is(context.Cause(ctx), late) {
		s.failed(late)
	}
	return !v.failed.Load()
}

// visitor is one user on one visit.
type visitor struct {
	*browser
	step   *step
	failed atomic.Bool
}

// load loads one object. When the time is over, what was under way failed for that
// reason, and is not counted one by one.
func (v *visitor) load(ctx context.Context, o *object) {
	if ctx.Err() != nil {
		v.failed.Store(true)
		return
	}
	if _, _, err := v.fetch(ctx, o.url, v.step.sink); err != nil {
		v.failed.Store(true)
		if ctx.Err() == nil {
			v.step.failed(err)
		}
	}
}

// rest loads what the document references, so many at once as browsers do. What a style
// sheet references comes after it.
func (v *visitor) rest(ctx context.Context, p *plan) {
	if p.objects == 1 {
		return
	}
	queue := make(chan *object, p.objects)
	for _, o := range p.document.then {
		queue <- o
	}
	var left atomic.Int64
	left.Store(int64(p.objects - 1))
	var workers sync.WaitGroup
	for range min(p.parallel, p.objects-1) {
		workers.Go(func() {
			for o := range queue {
				v.load(ctx, o)
				for _, next := range o.then {
					queue <- next
				}
				if left.Add(-1) == 0 {
					close(queue)
				}
			}
		})
	}
	workers.Wait()
}
