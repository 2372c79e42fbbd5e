package agent

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Stats count what an agent did since it was started.
type Stats struct {
	// Trials were run to their end or not, as near or far end.
	Trials int64
	// Sessions are connected now.
	Sessions int64
	// Garbage are connections and datagrams that do not begin with a hello; Stray those
	// with the ticket of no trial.
	Garbage, Stray int64
	// Empty connected and went without a byte, as health checks do.
	Empty int64
	// Refused came from addresses that are not among the peers, or when too many were
	// connected; WrongToken did not know the token, WrongVersion spoke another protocol.
	Refused, WrongToken, WrongVersion int64
	// WrongTLS could not agree with this agent on TLS.
	WrongTLS int64
	// Evicted were closed to make room before they said who they are.
	Evicted int64
}

// tally counts one kind of trouble, and logs it now and then: a flood of it must not
// become a flood of lines.
type tally struct {
	what  string
	count atomic.Int64

	mu     sync.Mutex
	logged time.Time
}

// quietFor is how long a kind of trouble is only counted after it was logged.
const quietFor = 10 * time.Second

func (t *tally) add(logger *slog.Logger, args ...any) {
	n := t.count.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.logged.IsZero() || now.Sub(t.logged) >= quietFor {
		t.logged = now
		logger.Warn(t.what, append(args, "count", n)...)
	}
}

type tallies struct {
	garbage, stray, refused, wrongToken, wrongVersion, wrongTLS, evicted tally
	// of the kernel: connections and sockets that could not be had
	lacking tally

	trials, sessions, empty atomic.Int64
}

func newTallies() *tallies {
	t := &tallies{}
	t.garbage.what = "something that is no taper connected"
	t.stray.what = "data came for no trial that runs"
	t.refused.what = "refused a peer"
	t.wrongToken.what = "a peer does not know the token"
	t.wrongVersion.what = "a peer is of another release"
	t.wrongTLS.what = "a peer and this agent do not agree on TLS"
	t.lacking.what = "cannot take a connection or open a socket, going on"
	t.evicted.what = "closed a connection that had not said who it is, to make room"
	return t
}

// Stats are the counts as they are now.
func (s *Server) Stats() Stats {
	t := s.tallies
	return Stats{
		Trials: t.trials.Load(), Sessions: t.sessions.Load(),
		Empty: t.empty.Load(), Garbage: t.garbage.count.Load(), Stray: t.stray.count.Load(),
		Refused: t.refused.count.Load(), WrongToken: t.wrongToken.count.Load(),
		WrongVersion: t.wrongVersion.count.Load(), WrongTLS: t.wrongTLS.count.Load(), Evicted: t.evicted.count.Load(),
	}
}
