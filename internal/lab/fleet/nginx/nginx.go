// Package nginx runs real endpoints: one nginx with Lua per member, each
// request computing a real Fibonacci number. It implements fleet.Fleet.
//
// Every endpoint is a process tree of its own, a master and two workers, in a
// folder of its own. Its configuration is nginx.conf.tmpl, which also says why
// it is as it is. Its CPU time comes from the kernel; its request counter and
// its demand are reached over a unix socket in the folder, so that reading the
// one and changing the other is not load. Start with [Start].
//
// Capacity is two cores only as far as the machine has them: at a rate that
// keeps all cores busy the endpoints slow each other down.
package nginx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/process"
)

const (
	// startDeadline is far above what a start takes, 0.1 s on an idle machine.
	startDeadline = 20 * time.Second
	// controlDeadline bounds a wait behind computations: a few hundred of them.
	controlDeadline = 5 * time.Second
	// stopGrace lets a worker finish the computation it is in.
	stopGrace = 2 * time.Second
)

// Options say which nginx to run, and where.
type Options struct {
	// Binary is the path of the nginx executable; see process.Lookup. It may be
	// installed, or lie in a folder where Debian packages were unpacked: what it
	// needs is found from where it is.
	Binary string
	// ModuleDir has ngx_http_lua_module.so; ../lib/nginx/modules from the binary's
	// folder when empty.
	ModuleDir string
	// LuaPath has resty/core.lua; ../share/lua/5.1 from the binary's folder when empty.
	LuaPath string
	// Dir is a folder for configurations, sockets and logs, used by nobody else.
	// A unix socket's path is limited to 107 bytes: keep it short.
	Dir string
}

// Fleet is a set of running nginx endpoints. It implements fleet.Fleet.
type Fleet struct {
	members   []fleet.Member
	endpoints []*endpoint
}

// Start runs an nginx for each member and returns once all of them answer.
func Start(ctx context.Context, members []fleet.Member, opts Options) (*Fleet, error) {
	install, err := locate(opts)
	if err != nil {
		return nil, err
	}
	if err := checkFree(members); err != nil {
		return nil, err
	}
	f := &Fleet{members: slices.Clone(members)}
	if err := f.start(ctx, install, opts.Dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context, install installation, dir string) error {
	for _, m := range f.members {
		e, err := startEndpoint(m, install, filepath.Join(dir, m.Address))
		if err != nil {
			return err
		}
		f.endpoints = append(f.endpoints, e)
	}
	for _, e := range f.endpoints {
		if err := process.Await(ctx, e.process, e.ready, startDeadline); err != nil {
			return err
		}
	}
	return nil
}

// checkFree fails for an address that something listens on. Two nginx of one
// user would share a reuseport address, and the load on it, without a word.
func checkFree(members []fleet.Member) error {
	for _, m := range members {
		l, err := net.Listen("tcp", m.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("endpoint address %s is in use: end what listens there, such as another lab", m.Address)
		}
		if err != nil {
			return fmt.Errorf("endpoint address %s cannot be used: %w", m.Address, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("endpoint address %s: %w", m.Address, err)
		}
	}
	return nil
}

// Members returns the endpoints in the order given to [Start].
func (f *Fleet) Members() []fleet.Member { return slices.Clone(f.members) }

// Usage reads what each endpoint has used, from the kernel and from its own
// counter. It names an endpoint that has died.
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

// Disturb multiplies the demand of one endpoint by factor, for every request
// whose computation begins from now on.
func (f *Fleet) Disturb(address string, factor float64) error {
	if !(factor > 0) || math.IsInf(factor, 1) {
		return fmt.Errorf("disturbing %s by a factor of %v: it must be above 0 and finite", address, factor)
	}
	for _, e := range f.endpoints {
		if e.member.Address == address {
			return e.disturb(factor)
		}
	}
	known := make([]string, len(f.members))
	for i, m := range f.members {
		known[i] = m.Address
	}
	return fmt.Errorf("no endpoint %s to disturb, there are %s", address, strings.Join(known, ", "))
}

// Close ends all endpoints. It returns once they have ended.
func (f *Fleet) Close() error {
	var stopping sync.WaitGroup
	for _, e := range f.endpoints {
		stopping.Go(e.close)
	}
	stopping.Wait()
	return nil
}
