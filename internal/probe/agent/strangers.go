package agent

import (
	"net"
	"slices"
	"sync"
)

// strangers are connections that have not said who they are. When there are too many the
// oldest is closed, so that silent ones cannot keep others out.
type strangers struct {
	most int

	mu     sync.Mutex
	oldest []net.Conn // in the order in which they came
	closed bool
}

// add is false, and closes the connection, when no more are taken. It tells whether
// another had to go.
func (s *strangers) add(conn net.Conn) (ok, evicted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false, false
	}
	if len(s.oldest) >= s.most {
		_ = s.oldest[0].Close() // who reads from it removes what is left
		s.oldest = slices.Delete(s.oldest, 0, 1)
		evicted = true
	}
	s.oldest = append(s.oldest, conn)
	return true, evicted
}

// remove forgets a connection without closing it. It is false if it had to go before.
func (s *strangers) remove(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.oldest, conn)
	if i < 0 {
		return false
	}
	s.oldest = slices.Delete(s.oldest, i, i+1)
	return true
}

// close closes all of them, and those that are added later.
func (s *strangers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.oldest {
		_ = conn.Close()
	}
	s.oldest = nil
}
