package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"taper.dev/taper/internal/probe"
)

// Options are how an agent is run.
type Options struct {
	// Address to listen on, as host:port; port 0 takes a free one. Without a host it is all
	// addresses of both families.
	Address string
	// Token is what others must know; empty only on the loopback.
	Token Token
	// TLS closes the control connection; nil leaves it open. It needs a certificate.
	TLS *tls.Config
	// PeerTLS is how this agent dials another that it is told to measure to; nil is openly.
	PeerTLS *tls.Config
	Limits  Limits
	// Host has what only the caller knows: Version, Node, Path. The rest is found out.
	Host probe.Host
	// Logger gets trials and trouble; nil is nobody.
	Logger *slog.Logger

	ends endsOf // nil is the real ones
	pace pace   // zero is the default
}

// Server is an agent. It runs the far end of trials, and the near end when it is told to.
type Server struct {
	options  Options
	limits   Limits
	logger   *slog.Logger
	tcp      *net.TCPListener
	udp      *net.UDPConn
	addr     netip.AddrPort
	instance []byte // tells this process from others
	turn     *turn
	desk     desk
	unknown  strangers
	tallies  *tallies
	running  sync.WaitGroup
}

// Listen takes the port, for TCP and UDP, at once, so that one in use shows before anything
// else is started. What connects waits until [Server.Serve], which also gives it back.
func Listen(ctx context.Context, options Options) (*Server, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.ends == nil {
		options.ends = realEnds
	}
	if options.pace == (pace{}) {
		options.pace = defaultPace
	}
	if err := options.Limits.validate(); err != nil {
		return nil, err
	}
	tcp, udp, err := openPort(ctx, options.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options, limits: options.Limits.withDefaults(), logger: options.Logger,
		tcp: tcp, udp: udp, addr: plainAddr(tcp.Addr().(*net.TCPAddr).AddrPort()),
		instance: newNonce(), turn: newTurn(),
		unknown: strangers{most: maxStrangers}, tallies: newTallies(),
	}
	if err := s.checkToken(); err != nil {
		_ = tcp.Close()
		_ = udp.Close()
		return nil, err
	}
	return s, nil
}

// checkToken refuses to be open to others: an agent sends as much as it is asked to.
func (s *Server) checkToken() error {
	switch n := len(s.options.Token); {
	case s.addr.Addr().IsLoopback():
		return nil
	case n == 0:
		return fmt.Errorf("listening on %v needs a token, since others than this machine can ask: give one by --token-file or TAPER_NET_TOKEN, or listen on 127.0.0.1", s.addr)
	case n < MinTokenBytes:
		return fmt.Errorf("the token has %d characters, and %d is the least on %v: who sees a connection could guess it (`openssl rand -hex 16` makes a good one)",
			n, MinTokenBytes, s.addr)
	}
	return nil
}

// Addr is where the agent listens.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Serve answers until the context ends; it then tells those who are connected why, ends
// their trials, and gives the port back, all within a second. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	outer := ctx
	// What runs is told why it ends.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(outer, func() { cancel(errStopping) })()
	defer context.AfterFunc(ctx, func() {
		_ = s.tcp.Close()
		_ = s.udp.Close()
		s.unknown.close()
	})()
	s.running.Go(func() {
		if err := s.readHellos(ctx); err != nil {
			cancel(err)
		}
	})
	cancel(s.accept(ctx))
	s.running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, errStopping) {
		return cause
	}
	return nil
}

var errStopping = errors.New("it is being stopped")

// accept takes connections until the context ends.
func (s *Server) accept(ctx context.Context) error {
	for {
		conn, err := s.tcp.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case isPassing(err):
			s.tallies.lacking.add(s.logger, "error", err)
			pause(ctx, acceptPause)
			continue
		case err != nil:
			return fmt.Errorf("taking connections on %v: %w", s.addr, err)
		}
		ok, evicted := s.unknown.add(conn)
		if evicted {
			s.tallies.evicted.add(s.logger)
		}
		if ok {
			s.running.Go(func() { s.greet(ctx, conn) })
		}
	}
}

// acceptPause keeps a lack of file descriptors from taking a CPU as well.
const acceptPause = 50 * time.Millisecond

// isPassing tells errors of one connection, or of a moment, from those of the listener.
func isPassing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// greet finds out what a connection is for, and sees it through.
func (s *Server) greet(ctx context.Context, conn *net.TCPConn) {
	peer := plainAddr(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
	_ = conn.SetDeadline(time.Now().Add(s.options.pace.hello))
	hello, err := readHello(conn)
	_ = conn.SetDeadline(time.Time{})
	switch {
	case err != nil:
		s.dismiss(conn, peer, hello, err)
	case string(hello[:magicBytes]) == controlMagic:
		s.control(ctx, conn, peer, hello)
	default:
		s.data(conn, peer, hello)
	}
}

// dismiss closes what does not begin as it should.
func (s *Server) dismiss(conn *net.TCPConn, peer netip.AddrPort, hello []byte, err error) {
	defer conn.Close()
	switch {
	case !s.unknown.remove(conn): // it had to make room
	case len(hello) == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		s.tallies.empty.Add(1)
	default:
		s.tallies.garbage.add(s.logger, "peer", peer, "began_with", plain(string(hello)))
	}
}

// data hands a connection to the trial whose ticket it shows.
func (s *Server) data(conn *net.TCPConn, peer netip.AddrPort, hello []byte) {
	if !s.unknown.remove(conn) {
		return // it had to make room
	}
	ticket, err := parseDataHello(hello)
	var t *trial
	if err == nil && s.limits.mayAsk(peer.Addr()) {
		t = s.desk.find(ticket)
	}
	if t == nil || t.spec.Test.Datagrams() {
		if !s.desk.late(ticket) {
			s.tallies.stray.add(s.logger, "peer", peer, "network", "tcp")
		}
		_ = conn.Close()
		return
	}
	t.deliverStream(conn)
}

// plainAddr is an address as people know it, also from a socket of both families.
func plainAddr(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
