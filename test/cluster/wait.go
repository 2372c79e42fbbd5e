package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is well under what anything takes to get through a control plane.
const pollEvery = 20 * time.Millisecond

// Eventually asks probe until it returns nil, or until within is over: then it
// returns the last answer, with what was waited for. An answer that is [Final]
// ends the wait. The context that probe gets ends with the wait.
func Eventually(ctx context.Context, within time.Duration, what string, probe func(context.Context) error) error {
	attempt, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		err := probe(attempt)
		if err == nil {
			return nil
		}
		if final := (finalError{}); errors.As(err, &final) {
			return fmt.Errorf("%s: %w", what, final.error)
		}
		if last == nil || attempt.Err() == nil {
			last = err // not merely that the context ended
		}
		select {
		case <-tick.C:
		case <-attempt.Done():
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("%s: %w; last: %w", what, err, last)
			}
			return fmt.Errorf("%s: not within %v: %w", what, within, last)
		}
	}
}

type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final makes Eventually give up: waiting longer would not help.
func Final(err error) error { return finalError{err} }
