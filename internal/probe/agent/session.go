package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"taper.dev/taper/internal/probe"
)

// session is a control connection, on the agent's side, of somebody who knows the token.
type session struct {
	server *Server
	link   *link
	peer   netip.AddrPort
	work   sync.WaitGroup
	now    *request // the last one that was made
}

// request is what a session is at. The next is not made before it is answered.
type request struct {
	ended    chan struct{} // the asker is done: nobody needs more
	endOnce  sync.Once
	why      error       // it was called off; nil if it just came to its end
	proofs   chan proofs // what came for a challenge
	answered atomic.Bool
	done     chan struct{} // nothing is left of it
}

func newRequest() *request {
	return &request{ended: make(chan struct{}), proofs: make(chan proofs, 1), done: make(chan struct{})}
}

// end notes that the asker is done; with a reason, that it called the request off.
func (r *request) end(reason string) {
	r.endOnce.Do(func() {
		if reason != "" {
			r.why = errors.New(reason)
		}
		close(r.ended)
	})
}

// control agrees on version, TLS and token with whoever connected, and answers it from
// then on. It closes the connection.
func (s *Server) control(ctx context.Context, conn *net.TCPConn, peer netip.AddrPort, hello []byte) {
	defer conn.Close()
	defer s.unknown.remove(conn)
	pace := s.options.pace
	_ = conn.SetDeadline(time.Now().Add(pace.handshake))
	if !s.agree(conn, peer, hello) {
		return
	}
	var secured net.Conn = conn
	if s.options.TLS != nil {
		secure := tls.Server(conn, s.options.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			s.tallies.wrongTLS.add(s.logger, "peer", peer, "error", err)
			return
		}
		secured = secure
	}
	l := newLink(secured, pace)
	if err := s.admit(ctx, l, peer); err != nil {
		return
	}
	if !s.unknown.remove(conn) {
		return // it had to make room in the very last moment
	}
	defer s.tallies.sessions.Add(-1)
	if n := s.tallies.sessions.Add(1); n > int64(s.limits.Sessions) {
		s.tallies.refused.add(s.logger, "peer", peer, "reason", "too many are connected")
		_, _ = l.receive() // closing before its first request is read would discard the answer
		_ = l.send(message{Kind: kindFailed, Reason: fmt.Sprintf("%d others are connected, as many as it takes: try later, or start it with a higher limit", n-1)})
		return
	}
	l.most = maxRequestFrame
	(&session{server: s, link: l, peer: peer}).converse(ctx)
}

// agree exchanges greetings, and is false if there is nothing more to say.
func (s *Server) agree(conn net.Conn, peer netip.AddrPort, hello []byte) bool {
	theirs, err := parseGreeting(hello)
	if err != nil {
		return false // not possible: the magic was looked at
	}
	ours := greeting{protocol: protocol, release: s.options.Host.Version}
	if s.options.TLS != nil {
		ours.flags |= flagTLS
	}
	allowed := s.limits.mayAsk(peer.Addr())
	if !allowed {
		ours.flags |= flagRefused
	}
	if _, err := conn.Write(ours.bytes()); err != nil {
		return false
	}
	switch {
	case !allowed:
		s.tallies.refused.add(s.logger, "peer", peer, "reason", "its address is not among the peers")
	case theirs.protocol != protocol:
		s.tallies.wrongVersion.add(s.logger, "peer", peer, "theirs", theirs.String(), "ours", ours.String())
	case theirs.flags&flagTLS != ours.flags&flagTLS:
		s.tallies.wrongTLS.add(s.logger, "peer", peer,
			"peer_wants_it", theirs.flags&flagTLS != 0, "agent_wants_it", ours.flags&flagTLS != 0)
	default:
		return true
	}
	return false
}

// admit checks the token.
func (s *Server) admit(ctx context.Context, l *link, peer netip.AddrPort) error {
	// The deadline of each message would let a handshake last for several of them.
	limit := time.AfterFunc(s.options.pace.handshake+s.options.pace.penalty, func() { _ = l.conn.Close() })
	defer limit.Stop()
	err := authenticate(ctx, l, s.options.Token, s.instance)
	if errors.Is(err, errTokenWanted) || errors.Is(err, errTokenWrong) {
		s.tallies.wrongToken.add(s.logger, "peer", peer)
	}
	return err
}

// converse answers requests until either side ends the connection or falls silent. What
// runs for it ends then.
func (s *session) converse(ctx context.Context) {
	stopped := context.AfterFunc(ctx, func() { s.hangUp(context.Cause(ctx).Error()) })
	defer stopped()
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.work.Wait()
	s.work.Go(func() { s.link.beat(ctx) })
	for {
		m, err := s.link.receive()
		if err == nil {
			err = s.take(ctx, m)
		}
		if err != nil {
			err = told(err)
			cancel(fmt.Errorf("%v, who asked, is gone: %w", s.peer, err))
			s.hangUp(err.Error())
			return
		}
	}
}

// hangUp tells the other side why, if it still listens, and ends the connection.
func (s *session) hangUp(reason string) {
	_ = s.link.sendWithin(message{Kind: kindBye, Reason: reason}, s.link.pace.stop)
	_ = s.link.conn.Close()
}

// take acts on a message. An error ends the session.
func (s *session) take(ctx context.Context, m message) error {
	switch m.Kind {
	case kindPing:
	case kindEnd:
		if s.now != nil {
			s.now.end(m.Reason)
		}
	case kindProof:
		if s.now != nil {
			select {
			case s.now.proofs <- proofs{dialled: m.Proof, listening: m.Expected}:
			default: // nobody asked
			}
		}
	case kindBye:
		return &refusal{reason: m.Reason}
	case kindHost, kindInterfaces, kindRun, kindDelegate:
		last := s.now
		if last != nil && !last.answered.Load() {
			return fmt.Errorf("it asked for %s before the last request was answered", m.Kind)
		}
		r := newRequest()
		s.now = r
		s.work.Go(func() {
			defer close(r.done)
			if last != nil {
				last.end("")
				<-last.done // it gives the turn back, which this one may want
			}
			s.answer(ctx, r, m)
		})
	default:
		return fmt.Errorf("it sent a %q message, which nobody asks for", plain(string(m.Kind)))
	}
	return nil
}

// answer sees a request through.
func (s *session) answer(ctx context.Context, r *request, m message) {
	answer := message{Kind: m.Kind}
	var err error
	switch m.Kind {
	case kindHost:
		host := describe(s.server.options.Host)
		answer.Host = &host
	case kindInterfaces:
		answer.Interfaces, err = interfaces()
	case kindDelegate:
		answer.Trial, err = s.delegate(ctx, r, m)
	case kindRun:
		if err = s.run(ctx, r, m); err == nil {
			return
		}
	}
	if err != nil {
		answer = message{Kind: kindFailed, Reason: err.Error(), Busy: isBusy(err)}
	}
	s.reply(r, answer)
}

// reply answers a request.
func (s *session) reply(r *request, answer message) {
	s.link.setPatience(s.link.pace.silence)
	r.answered.Store(true)
	// What cannot be sent was lost with the connection, and receive tells of that.
	_ = s.link.send(answer)
}

// told makes what the network says of an end fit for people.
func told(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it closed the control connection")
	case errors.Is(err, net.ErrClosed):
		return errors.New("the control connection was closed")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the control connection ended within a message")
	case errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return errors.New("the control connection was reset: the other end was killed, or something in between cut it")
	}
	return err
}

// takeTurn waits until nothing else runs on this agent, for as long as the request says.
func (s *session) takeTurn(ctx context.Context, r *request, wait time.Duration, spec probe.Spec) (release func(), err error) {
	ctx, cancel := r.until(ctx)
	defer cancel(nil)
	return s.server.turn.take(ctx, min(max(wait, 0), maxWait), fmt.Sprintf("%s for %v", spec.Test, s.peer))
}

var errEnded = errors.New("who asked does not wait any longer")

// until is a context that ends when the asker is done, too.
func (r *request) until(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-r.ended:
			if r.why != nil {
				cancel(r.why)
			}
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
