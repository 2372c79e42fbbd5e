// Package nginx is a fleet of real nginx servers whose requests compute real
// Fibonacci numbers, recursively, in Lua.
//
// Every endpoint is a process tree of its own: a master, and a worker for each
// core of its capacity. [Start] takes members and runs them; out come answers at
// their addresses and, through [Fleet.Usage], the CPU time that the kernel has
// counted and the requests that the endpoint has. That counter, and the demand
// that [Fleet.Disturb] changes, are reached over a Unix socket, beside the
// requests under test.
//
// The endpoints share the cores of this machine: what they can do together is
// what it has, however high their capacities.
//
// Read nginx.conf.tmpl for how a server is set up and why, endpoint.lua for what
// it does; installation finds nginx and its modules, endpoint runs one.
package nginx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/lab/fleet"
)

const (
	// startTogether is how many endpoints start at a time: enough to use the
	// cores while others wait, and no storm on a small machine.
	startTogether = 4
	// maxWorkers keeps a wrong capacity from becoming a flood of processes.
	maxWorkers = 64
)

// Options say which nginx to run, and where.
type Options struct {
	// Binary is a command or a path. The nginx may be installed, or lie in a folder
	// into which Debian packages were unpacked.
	Binary string
	// Dir gets a folder for each endpoint, with its configuration, socket and log
	// (nginx.log). It is created, and left for the caller to remove.
	Dir string
}

// Fleet is a running set of nginx endpoints.
type Fleet struct {
	members   []fleet.Member
	endpoints []*endpoint
}

var _ fleet.Fleet = (*Fleet)(nil)

// Start runs an nginx for every member and returns once all of them answer. Each
// member needs a Capacity that is a whole number. An address in use is an error
// that names it, and what is missing of nginx is one that names the Debian
// package. If Start fails, nothing is left running.
func Start(ctx context.Context, members []fleet.Member, opts Options) (*Fleet, error) {
	in, err := locate(opts.Binary)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder of the endpoints: %w", err)
	}
	for _, m := range members {
		if err := checkFree(m.Address); err != nil {
			return nil, err
		}
	}
	f := &Fleet{members: slices.Clone(members), endpoints: make([]*endpoint, len(members))}
	group, starting := errgroup.WithContext(ctx)
	group.SetLimit(startTogether)
	for i, m := range f.members {
		group.Go(func() (err error) {
			if err := starting.Err(); err != nil {
				return fmt.Errorf("starting endpoint %s: %w", m.Address, err)
			}
			f.endpoints[i], err = startEndpoint(starting, m, in, filepath.Join(dir, m.Address))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkFree fails when something listens on an address. nginx would not notice
// another one there: reuseport lets the servers of one user share an address, and
// with it the load.
func checkFree(address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("endpoint %s: %w: end the program that listens there (ss -tlnp names it; it may be another run of the lab)", address, syscall.EADDRINUSE)
	}
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", address, err)
	}
	return l.Close()
}

// Members implements [fleet.Fleet].
func (f *Fleet) Members() []fleet.Member { return slices.Clone(f.members) }

// Usage implements [fleet.Fleet]. It fails when an endpoint has died, with the
// end of its log, and when one is too busy to answer for seconds. CPU time
// includes what reading the counters costs, some 0.1 ms each time.
func (f *Fleet) Usage(ctx context.Context) ([]fleet.Usage, error) {
	usage := make([]fleet.Usage, len(f.endpoints))
	group, ctx := errgroup.WithContext(ctx)
	for i, e := range f.endpoints {
		group.Go(func() (err error) {
			usage[i], err = e.usage(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return usage, nil
}

// Disturb implements [fleet.Fleet].
func (f *Fleet) Disturb(address string, factor float64) error {
	known := make([]string, len(f.members))
	for i, m := range f.members {
		if m.Address == address {
			return f.endpoints[i].disturb(factor)
		}
		known[i] = m.Address
	}
	return fmt.Errorf("disturbing endpoint %s: no such endpoint, known are %s", address, strings.Join(known, ", "))
}

// Close implements [fleet.Fleet]. Requests under way may be cut off.
func (f *Fleet) Close() error {
	errs := make([]error, len(f.endpoints))
	var closing sync.WaitGroup
	for i, e := range f.endpoints {
		if e != nil { // did not start
			closing.Go(func() { errs[i] = e.close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
