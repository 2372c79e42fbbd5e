// Package emulated is a fleet of real HTTP servers on virtual cores.
//
// Fifteen endpoints of two cores at 1,500 requests a second need ten real cores.
// Here each request gets a random demand instead, its endpoint shares Capacity
// virtual cores between its requests, and the answer leaves when the demand has
// been served. Queueing, tail and CPU usage come out as on real cores; hardly
// any real CPU is used.
//
// [Start] listens and serves. A request passes through endpoint (HTTP, and the
// demand it is given), scheduler (real time, one alarm for the whole fleet) and
// processor (the arithmetic of processor sharing, without a clock).
package emulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/valyala/fasthttp"

	"taper.dev/taper/internal/lab/fleet"
)

// maxConnections bounds those of one endpoint, far above what the lab opens.
const maxConnections = 16384

// Options say how the fleet behaves.
type Options struct {
	// Seed makes the demands of each endpoint's requests reproducible, in the
	// order in which they arrive there.
	Seed uint64
}

// Fleet is a running set of emulated endpoints.
type Fleet struct {
	members   []fleet.Member
	scheduler *scheduler
	endpoints []*endpoint
	listeners []*trackedListener

	serving sync.WaitGroup // one per listener
	closing sync.Once
}

var _ fleet.Fleet = (*Fleet)(nil)

// Start listens on the address of every member and serves until Close. Each
// member needs a Capacity above 0. An address in use is an error that names it,
// and nothing is left running.
func Start(members []fleet.Member, opts Options) (*Fleet, error) {
	cores := make([]float64, len(members))
	for i, m := range members {
		if !(m.Capacity > 0) || math.IsInf(m.Capacity, 1) {
			return nil, fmt.Errorf("endpoint %s: capacity %v: want a finite number of cores above 0", m.Address, m.Capacity)
		}
		cores[i] = m.Capacity
	}
	listeners, err := listen(members)
	if err != nil {
		return nil, err
	}
	s, err := newScheduler(cores)
	if err != nil {
		closeAll(listeners)
		return nil, err
	}
	f := &Fleet{members: slices.Clone(members), scheduler: s}
	for i, m := range f.members {
		e := newEndpoint(m, s, i, opts.Seed)
		f.endpoints = append(f.endpoints, e)
		f.serve(listeners[i], e)
	}
	return f, nil
}

// listen opens the address of every member, or none.
func listen(members []fleet.Member) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, m := range members {
		l, err := net.Listen("tcp", m.Address)
		if err != nil {
			closeAll(listeners)
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, fmt.Errorf("endpoint %s: %w: end the program that listens there (ss -tlnp names it; it may be another run of the lab)", m.Address, syscall.EADDRINUSE)
			}
			return nil, fmt.Errorf("endpoint %s: %w", m.Address, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// serve answers on a listener until Close. The server is fasthttp's rather than
// net/http's because it shares the machine with what is measured.
func (f *Fleet) serve(l net.Listener, e *endpoint) {
	server := &fasthttp.Server{
		Handler:               e.serve,
		Concurrency:           maxConnections,
		NoDefaultServerHeader: true,
		// There is no bound on idle connections: closing one just as a proxy sends
		// on it would look like a failed request. Broken ones are what a proxy
		// leaves behind when it ends.
		Logger: log.New(io.Discard, "", 0),
	}
	tracked := &trackedListener{Listener: l, open: map[net.Conn]struct{}{}}
	f.listeners = append(f.listeners, tracked)
	f.serving.Go(func() { server.Serve(tracked) })
}

// Members implements [fleet.Fleet].
func (f *Fleet) Members() []fleet.Member { return slices.Clone(f.members) }

// Usage implements [fleet.Fleet]. It never fails.
func (f *Fleet) Usage(context.Context) ([]fleet.Usage, error) {
	at, used, answered := f.scheduler.counters()
	usage := make([]fleet.Usage, len(f.members))
	for i, m := range f.members {
		usage[i] = fleet.Usage{Address: m.Address, CPUSeconds: used[i], Requests: answered[i], At: at}
	}
	return usage, nil
}

// Disturb implements [fleet.Fleet].
func (f *Fleet) Disturb(address string, factor float64) error {
	if !(factor > 0) || math.IsInf(factor, 1) {
		return fmt.Errorf("disturbing endpoint %s: factor %v: want a finite number above 0", address, factor)
	}
	known := make([]string, len(f.members))
	for i, m := range f.members {
		if m.Address == address {
			f.endpoints[i].demand.scale(factor)
			return nil
		}
		known[i] = m.Address
	}
	return fmt.Errorf("disturbing endpoint %s: no such endpoint, known are %s", address, strings.Join(known, ", "))
}

// Close implements [fleet.Fleet]. Requests under way are cut off.
func (f *Fleet) Close() error {
	f.closing.Do(func() {
		for _, l := range f.listeners {
			l.cutOff()
		}
		f.serving.Wait()
		f.scheduler.close()
		for _, l := range f.listeners {
			l.connections.Wait()
		}
	})
	return nil
}

// trackedListener knows its connections, so that Close can end them and wait.
type trackedListener struct {
	net.Listener
	connections sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &trackedConn{Conn: conn, listener: l}
	l.open[tracked] = struct{}{}
	l.connections.Add(1)
	return tracked, nil
}

// cutOff closes the listener and every connection.
func (l *trackedListener) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.Listener.Close()
	for conn := range l.open {
		conn.(*trackedConn).Conn.Close()
	}
}

// trackedConn is one that its listener forgets once the server has closed it.
type trackedConn struct {
	net.Conn
	listener *trackedListener
	once     sync.Once
}

func (c *trackedConn) Close() error {
	c.once.Do(func() {
		c.listener.mu.Lock()
		delete(c.listener.open, c)
		c.listener.mu.Unlock()
		c.listener.connections.Done()
	})
	return c.Conn.Close()
}
