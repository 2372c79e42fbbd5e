package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// world is a network of simulated agents. Addresses are path/name.
type world struct {
	t *testing.T
	// bandwidth is in bytes per second, rtt the round trip; of the n-th trial of a pair.
	bandwidth func(from, to string, path probe.Path, n int) float64
	rtt       func(from, to string, path probe.Path, n int) time.Duration
	// services are who answers behind an address, by who asks.
	services map[string]func(from string, n int) string
	// before is told of each trial, and may keep it from being one.
	before func(ctx context.Context, from, to string, path probe.Path, test probe.Test) (incomplete string, err error)
	// release of an agent.
	release func(name string) string
	// node is what an agent says of where it is.
	node func(name string) string

	mu      sync.Mutex
	dead    map[string]bool // addresses
	broken  map[string]bool // addresses to which the connection is lost
	trials  map[string]int
	busy    map[string]bool
	clashes []string
	open    int // connections
	dialled int
}

func newWorld(t *testing.T) *world {
	return &world{
		t:         t,
		bandwidth: func(string, string, probe.Path, int) float64 { return 1e9 },
		rtt:       func(string, string, probe.Path, int) time.Duration { return 100 * time.Microsecond },
		before:    func(context.Context, string, string, probe.Path, probe.Test) (string, error) { return "", nil },
		release:   func(string) string { return "v1.2.3" },
		node:      func(name string) string { return name },
		services:  map[string]func(string, int) string{},
		dead:      map[string]bool{}, broken: map[string]bool{}, trials: map[string]int{}, busy: map[string]bool{},
	}
}

// agents are n of them on these paths, in blocks of so many.
func agents(n, block int, paths ...probe.Path) []Agent {
	var list []Agent
	for i := range n {
		a := Agent{Name: fmt.Sprintf("node-%d", i), Addresses: map[probe.Path]string{}}
		if block > 0 {
			a.Block = fmt.Sprintf("zone-%d", i/block)
		}
		for _, path := range paths {
			a.Addresses[path] = string(path) + "/" + a.Name
		}
		list = append(list, a)
	}
	return list
}

func (w *world) options(list []Agent) Options {
	return Options{Agents: list, Dial: w.dial, Trial: DefaultTrial, Trials: 3, Streams: 1, LatencyPairs: DefaultLatencyPairs, Seed: 7}
}

var errRefused = errors.New("connection refused")

func (w *world) dial(ctx context.Context, address string) (Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled++
	path, name, ok := strings.Cut(address, "/")
	if !ok || w.dead[address] {
		return nil, fmt.Errorf("agent %s: %w", address, errRefused)
	}
	w.open++
	delete(w.broken, address)
	peer := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(len(w.trials)+w.dialled))
	return &simulated{world: w, name: name, path: probe.Path(path), address: address, peer: peer}, nil
}

// simulated is a connection to a simulated agent.
type simulated struct {
	world   *world
	name    string
	path    probe.Path
	address string
	peer    netip.AddrPort
	closed  bool
}

func (s *simulated) Host() probe.Host {
	return probe.Host{Version: s.world.release(s.name), Name: s.name, Node: s.world.node(s.name)}
}
func (s *simulated) Peer() netip.AddrPort { return s.peer }

func (s *simulated) Close() {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if !s.closed {
		s.world.open--
	}
	s.closed = true
}

func (s *simulated) lost() error {
	if s.world.dead[s.address] || s.world.broken[s.address] || s.closed {
		return fmt.Errorf("agent at %s: connection reset", s.address)
	}
	return nil
}

func (s *simulated) Interfaces(context.Context) ([]probe.Interface, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return nil, s.lost()
}

// breakOff loses the connection to an agent that is well.
func (w *world) breakOff(address string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[address] = true
	return fmt.Errorf("agent at %s: connection reset", address)
}

// begin takes the turn of both agents, which nobody else may have at that time.
func (s *simulated) begin(to string) (end func()) {
	w := s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range []string{s.name, to} {
		if w.busy[name] {
			w.clashes = append(w.clashes, name)
		}
		w.busy[name] = true
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.busy, s.name)
		delete(w.busy, to)
	}
}

func (s *simulated) Delegate(ctx context.Context, target agent.Target, spec probe.Spec) (probe.Trial, error) {
	w := s.world
	t := probe.Trial{Spec: spec}
	path, to, _ := strings.Cut(target.Address, "/")
	w.mu.Lock()
	key := fmt.Sprint(s.name, "→", target.Address, spec.Test)
	n := w.trials[key]
	w.trials[key]++
	err := s.lost()
	if err == nil && w.dead[target.Address] {
		err = fmt.Errorf("agent at %s: agent at %s: %w", s.address, target.Address, errRefused)
	}
	w.mu.Unlock()
	if err != nil {
		return t, err
	}
	if answers, ok := w.services[target.Address]; ok {
		to = answers(s.name, n)
	}
	if to == s.name {
		return t, fmt.Errorf("%s is this agent itself: it cannot be both ends of a trial", target.Address)
	}
	if spec.Duration == DefaultTrial { // not only to see who is there
		defer s.begin(to)()
	}
	if t.Incomplete, err = w.before(ctx, s.name, to, probe.Path(path), spec.Test); err != nil || t.Incomplete != "" {
		return t, err
	}
	t.FarHost = &probe.Host{Name: to, Node: w.node(to)}
	if spec.Test == probe.TCPBandwidth {
		t.Far.Elapsed = time.Second
		t.Far.ReceivedBytes = int64(w.bandwidth(s.name, to, probe.Path(path), n))
		return t, nil
	}
	t.RTT = probe.NewDistribution()
	for range 100 {
		t.RTT.Record(w.rtt(s.name, to, probe.Path(path), n))
	}
	return t, nil
}

// run measures, and checks what must hold always.
func (w *world) run(ctx context.Context, o Options) (*probe.Matrix, []string, error) {
	w.t.Helper()
	var told []string
	m, err := Run(ctx, o, func(text string) { told = append(told, text) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != 0 {
		w.t.Errorf("%d connections are left open", w.open)
	}
	if len(w.clashes) > 0 {
		w.t.Errorf("in two trials at the same time: %v", w.clashes)
	}
	return m, told, err
}

// must is run where it has to succeed.
func (w *world) must(o Options) (*probe.Matrix, []string) {
	w.t.Helper()
	m, told, err := w.run(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return m, told
}
