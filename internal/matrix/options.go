package matrix

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// Agent is one row and column: a machine, with the agents that run on it.
type Agent struct {
	Name string
	// Block is what it shares with others, such as a zone; empty for none.
	Block string
	// Type is what kind of machine it is, for prices; empty if unknown.
	Type string
	// Addresses are host or host:port, by the path that leads there. One of the host or
	// the pod path must be there: who sends through a service is an agent there.
	Addresses map[probe.Path]string
	// Problem is why the agent cannot be asked, if that is known already.
	Problem string
}

// Options say what is measured.
type Options struct {
	Agents []Agent
	// Services are addresses behind which any of the agents may be, always the same for
	// who asks (session affinity). The first that leads to another agent is measured.
	Services []string
	// Dial connects to an agent.
	Dial func(ctx context.Context, address string) (Conn, error)
	// Trial is how long one takes, Trials how many a pair has on each path.
	Trial  time.Duration
	Trials int
	// Streams is with how many connections bandwidth is measured.
	Streams int
	// LatencyPairs is with how many others each agent measures latency; 0 leaves it out.
	LatencyPairs int
	// Prices are of machines; nil if nobody knows.
	Prices *Prices
	// Seed decides who meets whom, and the order of paths.
	Seed uint64
}

// Defaults.
const (
	DefaultTrial        = 500 * time.Millisecond
	DefaultTrials       = 3
	DefaultLatencyPairs = 4
	// ratePerS is with how many messages a second latency is measured.
	ratePerS = 1000
	// maxTrials bounds how long a pair may take.
	maxTrials = 100
)

// measuredPaths are those that a matrix can have, the native one first.
var measuredPaths = []probe.Path{probe.HostPath, probe.PodPath, probe.ServicePath}

// bandwidth and latency are the specs of all trials.
func (o Options) bandwidth() probe.Spec {
	s := probe.Default(probe.TCPBandwidth)
	s.Duration, s.Streams = o.Trial, o.Streams
	return s
}

func (o Options) latency() probe.Spec {
	s := probe.Default(probe.TCPLatency)
	s.Duration, s.RatePerS = o.Trial, ratePerS
	return s
}

// Validate says what is wrong, all at once.
func (o Options) Validate() error {
	var errs []error
	if n := len(o.Agents); n < verdict.FewestAgents || n > verdict.MostAgents {
		errs = append(errs, fmt.Errorf("a matrix of %d agents is not possible: there must be %d to %d", n, verdict.FewestAgents, verdict.MostAgents))
	}
	errs = append(errs, o.validateAgents()...)
	if o.Trials < 1 || o.Trials > maxTrials {
		errs = append(errs, fmt.Errorf("%d trials are not possible: there must be 1 to %d", o.Trials, maxTrials))
	}
	if o.LatencyPairs < 0 {
		errs = append(errs, fmt.Errorf("latency of %d pairs per agent is not possible: it must be 0, for none, or more", o.LatencyPairs))
	}
	return errors.Join(append(errs, o.bandwidth().Validate())...)
}

func (o Options) validateAgents() []error {
	var errs []error
	names, addresses := map[string]bool{}, map[string]string{}
	var here, elsewhere []string
	for _, a := range o.Agents {
		if a.Name == "" {
			errs = append(errs, fmt.Errorf("the agent at %v has no name", a.Addresses))
		}
		if names[a.Name] {
			errs = append(errs, fmt.Errorf("two agents are called %q: give them names of their own, as in NAME=HOST", a.Name))
		}
		names[a.Name] = true
		if a.Problem == "" && a.Addresses[probe.HostPath] == "" && a.Addresses[probe.PodPath] == "" {
			errs = append(errs, fmt.Errorf("agent %q has no address on the host or pod path: it could not be asked", a.Name))
		}
		for path, address := range a.Addresses {
			if !slices.Contains(measuredPaths, path) {
				errs = append(errs, fmt.Errorf("agent %q has an address on path %q: a matrix has the paths %v", a.Name, path, measuredPaths))
			}
			if other, ok := addresses[address]; ok {
				errs = append(errs, fmt.Errorf("%s is given twice, for %s and for %s: each address leads to one agent", address, other, a.Name))
			}
			addresses[address] = a.Name
			if isLoopback(address) {
				here = append(here, address)
			} else {
				elsewhere = append(elsewhere, address)
			}
		}
	}
	if len(here) > 0 && len(elsewhere) > 0 {
		slices.Sort(here)
		errs = append(errs, fmt.Errorf("%s is another machine to each agent: give the address at which the others reach it", here[0]))
	}
	return errs
}

// isLoopback tells whether an address means the machine of whoever uses it.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}
