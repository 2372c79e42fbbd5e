package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run runs the far end of a trial: it waits for the turn, says by which ticket the data
// connections are known, and reports what the far end saw, also if it ended early. It
// gives the turn back when the near end has finished too. An error means that there was
// no trial, and nothing was answered.
func (s *session) run(ctx context.Context, r *request, m message) error {
	if m.Spec == nil {
		return errors.New("a trial was asked for without saying which")
	}
	spec, err := s.server.limits.grant(*m.Spec)
	if err != nil {
		return err
	}
	release, err := s.takeTurn(ctx, r, m.Wait, spec)
	if err != nil {
		return err
	}
	defer release()
	t := newTrial(spec)
	s.server.desk.open(t)
	defer s.server.desk.shut(t)
	s.link.setPatience(s.link.pace.patience(spec))
	if err := s.link.send(message{Kind: kindTicket, Ticket: t.ticket[:], Spec: &spec}); err != nil {
		return err
	}
	s.server.tallies.trials.Add(1)
	seen := s.measure(ctx, r, t)
	s.server.desk.shut(t)
	s.reply(r, message{Kind: kindRun, Report: seen})
	s.awaitNear(ctx, r, seen)
	s.server.logger.Info("far end of a trial", "test", spec.Test, "peer", s.peer, "streams", seen.Streams+seen.Datagrams,
		"sent_bytes", seen.Side.SentBytes, "received_bytes", seen.Side.ReceivedBytes, "incomplete", seen.Incomplete)
	return nil
}

// measure runs the far end to its end, or until it is time.
func (s *session) measure(ctx context.Context, r *request, t *trial) *report {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.work.Go(func() { s.callTime(ctx, r, t, cancel) })
	side, err := s.server.options.ends(t.spec.Test).far(ctx, t.spec, t.arrivals())
	streams, datagrams := t.arrived()
	seen := &report{Side: side, Streams: streams, Datagrams: datagrams}
	// Why it was told to stop says more than how it took that.
	if cause := context.Cause(ctx); cause != nil {
		seen.Incomplete, seen.Stopped = cause.Error(), true
	} else if err != nil {
		seen.Incomplete = err.Error()
	}
	return seen
}

// awaitNear waits until the near end has finished: what is still on the way to it would
// disturb the next trial. If it never says so the trial was not whole.
func (s *session) awaitNear(ctx context.Context, r *request, seen *report) {
	limit := time.NewTimer(s.link.pace.overtime)
	defer limit.Stop()
	select {
	case <-r.ended:
	case <-limit.C:
	case <-ctx.Done():
		if seen.Incomplete == "" {
			seen.Incomplete = context.Cause(ctx).Error()
		}
	}
}

// callTime ends a far end that does not end by itself, until its context does: a while
// after the near end has finished, or when the trial takes far too long.
func (s *session) callTime(ctx context.Context, r *request, t *trial, cancel context.CancelCauseFunc) {
	pace := s.link.pace
	limit := time.NewTimer(t.spec.Duration + pace.overtime)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return
	case <-limit.C:
		cancel(fmt.Errorf("it was not over %v after its time", pace.overtime))
		return
	case <-r.ended:
	}
	if r.why != nil {
		cancel(fmt.Errorf("the near end has stopped: %w", r.why))
		return
	}
	if !t.reached() {
		// What has connected may still wait to be taken, on a machine that is busy.
		pause(ctx, pace.late)
	}
	if !t.reached() {
		cancel(errNothingCame)
		return
	}
	drain := time.NewTimer(pace.drain)
	defer drain.Stop()
	select {
	case <-ctx.Done():
	case <-drain.C:
		cancel(fmt.Errorf("the far end still waited %v after the near end had finished", pace.drain))
	}
}

var errNothingCame = errors.New("no data connection came")
