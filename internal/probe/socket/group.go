package socket

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Group holds the sockets of one end. When its context ends it shuts them down, so that
// whatever waits in the kernel for one of them returns at once.
type Group struct {
	mu   sync.Mutex
	fds  map[int]struct{}
	over bool
	// unwatch says whether the context had not ended before.
	unwatch func() bool
}

// NewGroup is an empty one. It needs [Group.Close] in the end.
func NewGroup(ctx context.Context) *Group {
	g := &Group{fds: map[int]struct{}{}}
	g.unwatch = context.AfterFunc(ctx, g.Shutdown)
	return g
}

// Add takes a socket, which is the group's from then on.
func (g *Group) Add(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fds[fd] = struct{}{}
	if g.over {
		shutdown(fd)
	}
}

// Shutdown has everything that waits return, now and later. Descriptors stay open.
func (g *Group) Shutdown() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for fd := range g.fds {
		shutdown(fd)
	}
}

func shutdown(fd int) {
	// Of a peer that is gone already, nothing is left to be shut down.
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
}

// Drop closes one socket that nobody uses any more.
func (g *Group) Drop(fd int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.fds[fd]; ok {
		delete(g.fds, fd)
		_ = unix.Close(fd) // nothing can be done about it
	}
}

// Close closes all. Nobody may use them any more.
func (g *Group) Close() {
	g.unwatch()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for fd := range g.fds {
		_ = unix.Close(fd) // nothing can be done about it
	}
	clear(g.fds)
}

// Watch calls silent and shuts everything down when the peer of a connection of the group
// has been silent for that long: when no byte was received, or, of connections that only
// send, none was acknowledged. Other than a timeout, for which the kernel sets a timer at
// each wait, it costs those who read and write nothing. It watches until stop is called.
func (g *Group) Watch(d time.Duration, sends bool, silent func()) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(d / looks)
		defer tick.Stop()
		moved := map[int]movement{}
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				if g.stalled(moved, sends, now, d) {
					silent()
					g.Shutdown()
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// looks is how often Watch looks within its time: it notices by a quarter too late.
const looks = 4

// movement is what went over a connection, and since when that is all.
type movement struct {
	bytes uint64
	since time.Time
}

// stalled brings what moved up to date, and tells whether on some connection nothing has
// for that long.
func (g *Group) stalled(moved map[int]movement, sends bool, now time.Time, d time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(moved, func(fd int, _ movement) bool { _, ok := g.fds[fd]; return !ok })
	for fd := range g.fds {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			continue // no connection
		}
		bytes := info.Bytes_received
		if sends {
			bytes = info.Bytes_acked
		}
		if m, ok := moved[fd]; !ok || m.bytes != bytes {
			moved[fd] = movement{bytes, now}
		} else if now.Sub(m.since) >= d {
			return true
		}
	}
	return false
}
