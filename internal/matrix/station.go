package matrix

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// Conn is a control connection to an agent.
type Conn interface {
	// Host is who the agent is, Peer where it was reached.
	Host() probe.Host
	Peer() netip.AddrPort
	// Delegate has it run a trial with another one.
	Delegate(context.Context, agent.Target, probe.Spec) (probe.Trial, error)
	// Interfaces are its network interfaces. That it answers is a sign of life.
	Interfaces(context.Context) ([]probe.Interface, error)
	Close()
}

// DialWith dials agents with these options.
func DialWith(options agent.DialOptions) func(context.Context, string) (Conn, error) {
	return func(ctx context.Context, address string) (Conn, error) {
		c, err := agent.Dial(ctx, address, options)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

const (
	// dialling is how many agents are dialled at once, dialLimit how long each may take.
	dialling  = 32
	dialLimit = 15 * time.Second
)

// station is one agent process: what a machine has on one path. Only one pair at a time
// has to do with it.
type station struct {
	address string
	path    probe.Path
	conn    Conn // nil until it was reached
	// gone is why it cannot be asked any more; empty while it can.
	gone string
}

// here tells whether the station can be asked.
func (s *station) here() bool { return s != nil && s.gone == "" }

// row is an agent with its stations.
type row struct {
	Agent
	host, pod *station // nil where it has no address
}

func newRow(a Agent) *row {
	at := func(path probe.Path) *station {
		if a.Problem != "" || a.Addresses[path] == "" {
			return nil
		}
		return &station{address: a.Addresses[path], path: path}
	}
	return &row{Agent: a, host: at(probe.HostPath), pod: at(probe.PodPath)}
}

// stations are those that it has.
func (w *row) stations() []*station {
	var list []*station
	for _, s := range []*station{w.host, w.pod} {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// on is the station of a path; that of a service is the pod's, where there is one.
func (w *row) on(path probe.Path) *station {
	if path == probe.HostPath || path == probe.ServicePath && w.pod == nil {
		return w.host
	}
	return w.pod
}

// here tells whether the agent can be asked on any path.
func (w *row) here() bool { return w.host.here() || w.pod.here() }

// problem is why it cannot be asked on any path; empty if it can on one.
func (w *row) problem() string {
	if w.Problem != "" || w.here() {
		return w.Problem
	}
	var all []string
	for _, s := range w.stations() {
		all = append(all, fmt.Sprintf("%s path: %s", s.path, s.gone))
	}
	return strings.Join(all, "; ")
}

// partial tells of agents that could be asked on one path and not on the other.
func (r *run) partial() []string {
	gone := map[probe.Path][]string{}
	for _, w := range r.rows {
		for _, s := range w.stations() {
			if w.here() && s.gone != "" {
				gone[s.path] = append(gone[s.path], w.Name+": "+s.gone)
			}
		}
	}
	var notes []string
	for _, path := range measuredPaths {
		if list := gone[path]; len(list) > 0 {
			notes = append(notes, fmt.Sprintf("On the %s path, %d agents could not be asked: %s.", path, len(list), few(list)))
		}
	}
	return notes
}

// dial reaches a station, or notes why it cannot be reached.
func (r *run) dial(ctx context.Context, s *station) {
	limited, cancel := context.WithTimeoutCause(ctx, dialLimit, fmt.Errorf("it did not answer in %v", dialLimit))
	defer cancel()
	conn, err := r.Dial(limited, s.address)
	switch {
	case err == nil:
		s.conn = conn
	case ctx.Err() != nil:
		s.gone = "interrupted"
	default:
		s.gone = err.Error()
	}
}

// dialAll reaches all stations. Of two addresses that lead to the same one, the second is
// left out: it would be asked to measure to itself.
func (r *run) dialAll(ctx context.Context) {
	var stations []*station
	for _, w := range r.rows {
		stations = append(stations, w.stations()...)
	}
	each(stations, func(s *station) { r.dial(ctx, s) })
	seen := map[netip.AddrPort]string{}
	for _, w := range r.rows {
		for _, s := range w.stations() {
			if s.conn == nil {
				continue
			}
			if other, ok := seen[s.conn.Peer()]; ok {
				s.gone = fmt.Sprintf("%s leads to %v, as the address of %s does: each agent is needed once", s.address, s.conn.Peer(), other)
				continue
			}
			seen[s.conn.Peer()] = w.Name
		}
	}
}

// each does something with all of a list, some at once.
func each[T any](list []T, do func(T)) {
	var all errgroup.Group
	all.SetLimit(dialling)
	for _, v := range list {
		all.Go(func() error {
			do(v)
			return nil
		})
	}
	_ = all.Wait() // what goes wrong is noted where it does
}

func (r *run) close() {
	for _, w := range r.rows {
		for _, s := range w.stations() {
			if s.conn != nil {
				s.conn.Close()
			}
		}
	}
}

// examine finds out, after something failed, whether an agent is still there. A lost
// connection is made anew, which it tells.
func (r *run) examine(ctx context.Context, s *station) (anew bool) {
	if ctx.Err() != nil || !s.here() {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, dialLimit)
	_, err := s.conn.Interfaces(limited)
	cancel()
	if err == nil || ctx.Err() != nil {
		return false
	}
	s.conn.Close()
	r.dial(ctx, s)
	return s.here()
}

// tooFew is the error where not even two agents can be reached.
func (r *run) tooFew() error {
	var problems []string
	for _, w := range r.rows {
		if p := w.problem(); p != "" {
			problems = append(problems, w.Name+": "+p)
		}
	}
	return fmt.Errorf("fewer than two agents can be reached: %s", few(problems))
}
