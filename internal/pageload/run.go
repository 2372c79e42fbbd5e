package pageload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// Run loads the page from all targets, with more and more users, and says which hop is
// full. The targets take turns with each number of users, in random order. If the context
// ends, what was measured until then is returned, marked as incomplete. It is an error if
// there is nothing to return; progress, which may be nil, is told what is going on.
func Run(ctx context.Context, o Options, progress func(string)) (*probe.PageLoad, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	s := &sweeps{options: o.withDefaults(), progress: progress, load: &probe.PageLoad{Started: time.Now()}}
	err := s.look(ctx)
	if err == nil {
		err = s.climb(ctx)
	}
	if err != nil {
		s.load.Incomplete = why(ctx)
	}
	for _, w := range s.ways {
		s.load.Targets = append(s.load.Targets, w.found)
	}
	if !s.anything() {
		return nil, s.nothing(err)
	}
	s.load.Bottleneck = s.bottleneck()
	return s.load, nil
}

// why is the reason for which a run ended before its time.
func why(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return "the time was over"
	}
	return "interrupted"
}

// sweeps is a run.
type sweeps struct {
	options  Options
	progress func(string)
	load     *probe.PageLoad
	ways     []*way
}

// way is a target on which the number of users rises.
type way struct {
	*target
	plan  *plan
	found probe.PageTarget
	steps []measured
}

// look finds out what the page is, on each way to it. The error is that of the context.
func (s *sweeps) look(ctx context.Context) error {
	for _, t := range s.options.Targets {
		target, err := newTarget(t)
		if err != nil {
			return err // which Validate has found already
		}
		s.progress(fmt.Sprintf("looking at %s (%s)", target.url, t.Name))
		w := &way{target: target, found: probe.PageTarget{Name: t.Name, URL: target.url.String(), Connect: t.Connect}}
		s.ways = append(s.ways, w)
		if err := w.look(ctx, &s.options); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.found.Problem = err.Error()
			continue
		}
		w.found.Objects, w.found.PageBytes = w.plan.objects, w.plan.bytes
		s.load.Notes = append(s.load.Notes, w.plan.notes(t.Name)...)
	}
	return nil
}

// lookTimeouts is for how many pages' time a page may be looked at: its objects are loaded
// one after the other.
const lookTimeouts = 4

func (w *way) look(ctx context.Context, o *Options) (err error) {
	limit := lookTimeouts * o.Timeout
	late := fmt.Errorf("%s: the page and what it references were not there within %v", w.url, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	b := newBrowser(w.target, o)
	defer b.Close()
	if w.plan, err = look(ctx, b, w.url, o); errors.Is(context.Cause(ctx), late) {
		return late
	}
	return err
}

// climb raises the number of users until throughput has stopped growing everywhere. The
// error is that of the context.
func (s *sweeps) climb(ctx context.Context) error {
	for round, users := range numbersOfUsers(s.options.MaxUsers) {
		for _, w := range verdict.Order(round, s.ways, s.options.Seed) {
			if w.found.Users > 0 || w.found.Problem != "" { // more users would tell nothing more
				continue
			}
			s.progress(fmt.Sprintf("loading %s (%s), users: %d", w.url, w.Name, users))
			found, busy, err := w.run(ctx, w.plan, users, &s.options)
			if err != nil {
				return err
			}
			w.add(found, busy)
		}
	}
	return nil
}

// numbersOfUsers are 1, 2, 4, 8 … and the most.
func numbersOfUsers(most int) []int {
	var numbers []int
	for n := 1; n < most; n *= 2 {
		numbers = append(numbers, n)
	}
	return append(numbers, most)
}

// add takes a step. A target where more fails than succeeds is not asked for more: refusing
// is quick, and would look like a throughput.
func (w *way) add(p probe.PageStep, busy float64) {
	if !math.IsNaN(busy) {
		p.ClientBusy = &busy
	}
	w.found.Steps = append(w.found.Steps, p)
	if p.Errors > p.Pages {
		w.found.Problem = fmt.Sprintf("with %d users %d loads failed and %d were whole; first: %s", p.Users, p.Errors, p.Pages, p.Why)
		return
	}
	w.steps = append(w.steps, measured{verdict.Step{Users: p.Users, Rate: p.BytesPerS}, busy})
	if at, ok := verdict.Plateau(w.evidence(stayedFull).rates); ok {
		w.found.Users, w.found.BytesPerS = at.Users, at.Rate
	}
}

func (s *sweeps) anything() bool {
	for _, w := range s.ways {
		if len(w.found.Steps) > 0 {
			return true
		}
	}
	return false
}

// nothing says why nothing was measured.
func (s *sweeps) nothing(err error) error {
	errs := []error{err}
	for _, w := range s.ways {
		if w.found.Problem != "" {
			errs = append(errs, errors.New(w.found.Problem))
		}
	}
	return fmt.Errorf("the page was not measured: %w", errors.Join(errs...))
}
