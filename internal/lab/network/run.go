package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/measure"
	"taper.dev/taper/internal/pageload"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
)

// Result is what was found. Its JSON form is a contract: names are only ever added.
type Result struct {
	Scenario string `json:"scenario"`
	// Made says what networks were made, so that it can be compared with what was found.
	Made Made `json:"made"`
	// Paths are native, VXLAN and user space; Shaped is the cable with a bucket.
	Paths  *probe.Result `json:"paths"`
	Shaped *probe.Result `json:"shaped"`
	// Page is the page behind the balancer.
	Page *probe.PageLoad `json:"page"`
}

// Made are the limits that the networks have.
type Made struct {
	ShapeBytesPerS  float64 `json:"shape_bytes_per_s"`
	BucketBytes     float64 `json:"bucket_bytes"`
	NarrowBytesPerS float64 `json:"narrow_bytes_per_s"`
}

// Run makes the networks and measures. It needs root, and the program moved to a network
// of its own by netns.Enter. progress is told what goes on.
func Run(ctx context.Context, o Options, progress func(string)) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	// It is what is most often missing.
	envoy, err := process.Lookup(o.Envoy, `run "make tools", or name it with --envoy`)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "taper-network-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for what goes on: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := netns.Switch(netns.End{Name: lan, Prefix: lanPrefix}); err != nil {
		return nil, err
	}
	l := &lab{options: o, dir: dir, envoy: envoy, progress: progress, result: &Result{Scenario: "network", Made: Made{
		ShapeBytesPerS: float64(o.Shape.BitsPerS) / 8, BucketBytes: float64(o.Shape.Bytes), NarrowBytesPerS: float64(o.Narrow.BitsPerS) / 8,
	}}}
	for _, part := range []func(context.Context) error{l.machines, l.page} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return l.result, nil
}

// lab is a run.
type lab struct {
	options    Options
	dir, envoy string
	progress   func(string)
	result     *Result
}

// machines measures between two machines.
func (l *lab) machines(ctx context.Context) error {
	l.progress("making two machines, cables and overlays")
	p, err := newPair(l.dir, l.options.Shape)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.serve(ctx, l.options.Agent); err != nil {
		return err
	}
	return guarded(ctx, p.watch, func(ctx context.Context) error {
		if l.result.Paths, err = l.paths(ctx, p); err != nil {
			return err
		}
		l.result.Shaped, err = l.shaped(ctx, p)
		return err
	})
}

// guarded runs f until it is done, the context ends, or something that is watched fails:
// then that is the error.
func guarded(ctx context.Context, watch func(context.Context, func(error)), f func(context.Context) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watch(ctx, fail)
	err := f(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// trial is shorter than elsewhere: round trips are of microseconds, and there are four
// turns in each round.
const trial = 300 * time.Millisecond

// paths compares native, VXLAN and user space.
func (l *lab) paths(ctx context.Context, p *pair) (*probe.Result, error) {
	o := l.options.measuring(l.progress)
	o.Paths = []measure.Path{p.path(native), p.path(vxlan), p.path(userSpace)}
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency, probe.PathMTU} {
		s := probe.Default(test)
		s.Duration = trial
		o.Specs = append(o.Specs, s)
	}
	return whole(measure.Run(ctx, o))
}

// floor is for how long the rate after the burst is looked at.
const floor = 4 * time.Second

// shaped measures the cable with a bucket, for as long as it takes to empty it, and a few
// times after that.
func (l *lab) shaped(ctx context.Context, p *pair) (*probe.Result, error) {
	o := l.options.measuring(l.progress)
	o.Paths = []measure.Path{p.path(shaped)}
	s := probe.Default(probe.TCPBandwidth)
	s.Duration = measure.DefaultTrial
	o.Specs = []probe.Spec{s}
	o.Sustain = floor + l.draining()
	o.Budget = min(o.Budget, floor)
	return whole(measure.Run(ctx, o))
}

// slowest is the least that a cable without a bucket carries, bytes per second, on any
// machine that is worth a lab.
const slowest = 250e6

// draining is how long the bucket lasts at what the native cable gives. Where that is
// less than the bucket's rate it lasts for ever, and no time would show it.
func (l *lab) draining() time.Duration {
	made, speed := l.result.Made, slowest
	for _, t := range l.result.Paths.Tests {
		if t.Test == probe.TCPBandwidth && t.BytesPerS > 0 {
			speed = t.BytesPerS
		}
	}
	beyond := speed - made.ShapeBytesPerS
	if beyond <= 0 {
		return 0
	}
	return min(time.Duration(2*made.BucketBytes/beyond*float64(time.Second)), mostDraining)
}

const mostDraining = time.Minute

// whole is a result that no path is missing from.
func whole(r *probe.Result, err error) (*probe.Result, error) {
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, path := range answer.Paths(r) {
		if path.Incomplete != "" {
			errs = append(errs, fmt.Errorf("the path %s: %s", path.Name, path.Incomplete))
		}
	}
	return r, errors.Join(errs...)
}

// page loads the page through the balancer, and past it.
func (l *lab) page(ctx context.Context) error {
	l.progress("starting a balancer and two servers of a page")
	s, err := newSite(ctx, l.dir, l.envoy, l.options.Agent, l.options.Narrow)
	if err != nil {
		return err
	}
	defer s.Close()
	return guarded(ctx, s.watch, func(ctx context.Context) (err error) {
		l.result.Page, err = pageload.Run(ctx, pageload.Options{
			Targets: s.targets(), MaxUsers: l.options.Users, Step: l.options.Step, Seed: l.options.Seed,
		}, l.progress)
		return err
	})
}
