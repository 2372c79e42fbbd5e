package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// pollEvery is how often a starting process is asked whether it is ready: well
// under what a start takes, and rare enough not to slow down sixteen at once.
const pollEvery = 20 * time.Millisecond

// Await asks probe until it returns nil. It fails at once when the process
// ends, with the process's own error, and after deadline with the last error of
// probe. The context that probe gets ends in each of these cases.
func Await(ctx context.Context, p *Process, probe func(context.Context) error, deadline time.Duration) error {
	attempt, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-attempt.Done():
		}
	}()

	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for attempt.Err() == nil {
		err := probe(attempt)
		if err == nil {
			return nil
		}
		if last == nil || attempt.Err() == nil {
			last = err // not merely that the context ended
		}
		select {
		case <-tick.C:
		case <-attempt.Done():
		}
	}

	select {
	case <-p.done:
		if err := p.Err(); err != nil {
			return err
		}
		return fmt.Errorf("%s was stopped before it was ready", p.name)
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for %s: %w", p.name, err)
	}
	return fmt.Errorf("%s not ready within %v: %w", p.name, deadline, last)
}

// Lookup finds the executable called name, which may also be a path. The hint
// ends the error of one that is missing: what the reader can do about it.
func Lookup(name, hint string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s not found in PATH: %s", name, hint)
	}
	var cause syscall.Errno // without the path, which the name is already
	if errors.As(err, &cause) {
		err = cause
	}
	return "", fmt.Errorf("%s cannot be run: %w: %s", name, err, hint)
}
