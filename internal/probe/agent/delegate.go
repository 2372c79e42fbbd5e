package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"taper.dev/taper/internal/probe"
)

// delegate runs the near end of a trial with another agent, on behalf of who asked.
func (s *session) delegate(ctx context.Context, r *request, m message) (*probe.Trial, error) {
	if m.Spec == nil || m.Target == "" {
		return nil, errors.New("a trial was asked for without saying which and with whom")
	}
	spec, err := s.server.limits.grant(*m.Spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.until(ctx)
	defer cancel(nil)
	options := DialOptions{
		TLS: s.server.options.PeerTLS, Release: s.server.options.Host.Version,
		ends: s.server.options.ends, pace: s.link.pace,
	}
	var keys keyring
	if m.Token {
		keys = func(ctx context.Context, digest []byte) (proofs, error) { return s.challenge(ctx, r, digest) }
	}
	other, err := dial(ctx, m.Target, options, keys, s.server.limits.mayTarget)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	if string(other.instance) == string(s.server.instance) {
		return nil, fmt.Errorf("%s is this agent itself: it cannot be both ends of a trial", m.Target)
	}
	s.link.setPatience(s.link.pace.patience(spec))
	trial, err := s.withBoth(ctx, r, other, spec, m.Wait)
	if err != nil {
		return nil, err
	}
	far := other.Host()
	far.Interfaces = nil
	trial.FarHost = &far
	s.server.tallies.trials.Add(1)
	s.server.logger.Info("near end of a trial", "test", spec.Test, "for", s.peer, "with", other.Peer(),
		"sent_bytes", trial.Near.SentBytes, "received_bytes", trial.Near.ReceivedBytes, "incomplete", trial.Incomplete)
	return &trial, nil
}

// How long one agent waits for the other's turn while it holds its own.
const (
	holdTurn = 250 * time.Millisecond
	stepBack = 100 * time.Millisecond
)

// withBoth runs the trial when it is the turn of both agents. While it waits for the
// other's it steps back from its own now and then: two agents that are told to measure
// each other at once would else wait until both give up.
func (s *session) withBoth(ctx context.Context, r *request, other *Client, spec probe.Spec, wait time.Duration) (probe.Trial, error) {
	deadline := time.Now().Add(min(max(wait, 0), maxWait))
	for {
		release, err := s.takeTurn(ctx, r, time.Until(deadline), spec)
		if err != nil {
			return probe.Trial{}, err
		}
		hold := time.Duration(rand.Int64N(int64(holdTurn)))
		trial, err := other.run(ctx, spec, min(hold, max(time.Until(deadline), 0)))
		release()
		if !isBusy(err) || time.Until(deadline) <= 0 {
			return trial, err
		}
		pause(ctx, time.Duration(rand.Int64N(int64(stepBack))))
	}
}

// challenge has the asker make proofs for a handshake with the other agent: it knows that
// agent's token, and this one need not.
func (s *session) challenge(ctx context.Context, r *request, digest []byte) (proofs, error) {
	if err := s.link.send(message{Kind: kindChallenge, Digest: digest}); err != nil {
		return proofs{}, err
	}
	limit := time.NewTimer(s.link.pace.handshake)
	defer limit.Stop()
	select {
	case p := <-r.proofs:
		return p, nil
	case <-ctx.Done():
		return proofs{}, context.Cause(ctx)
	case <-limit.C:
		return proofs{}, fmt.Errorf("who asked did not prove to know the token in %v", s.link.pace.handshake)
	}
}

// allowed checks an address before it is dialled; nil allows all.
type allowed func(netip.Addr) error
