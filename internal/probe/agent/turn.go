package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"taper.dev/taper/internal/probe"
)

// turn lets one trial run at a time: two would measure each other. Those who wait get it
// in the order in which they came.
type turn struct {
	slot chan struct{}

	mu     sync.Mutex
	holder string
	since  time.Time
}

func newTurn() *turn { return &turn{slot: make(chan struct{}, 1)} }

// take waits for the turn, at most so long. The error says who has it; it is [probe.ErrBusy], or
// the context's cause.
func (t *turn) take(ctx context.Context, wait time.Duration, what string) (release func(), err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case t.slot <- struct{}{}: // without waiting, even if the wait is 0
	default:
		select {
		case t.slot <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, fmt.Errorf("%w: %s", probe.ErrBusy, t.describe())
		}
	}
	t.mu.Lock()
	t.holder, t.since = what, time.Now()
	t.mu.Unlock()
	return func() {
		t.mu.Lock()
		t.holder = ""
		t.mu.Unlock()
		<-t.slot
	}, nil
}

// describe says what runs and since when.
func (t *turn) describe() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == "" {
		return "another begins or ends just now"
	}
	return fmt.Sprintf("busy with %s since %s (%v)", t.holder, t.since.UTC().Format("15:04:05Z"),
		time.Since(t.since).Round(100*time.Millisecond))
}

// isBusy tells errors apart that waiting may cure.
func isBusy(err error) bool { return errors.Is(err, probe.ErrBusy) }
