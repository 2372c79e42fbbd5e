package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// run is one matrix under way.
type run struct {
	Options
	started  time.Time
	progress func(string)
	rows     []*row
	// known are the places of agents by what they say of themselves.
	known map[identity][]int
	// native is the path that the others are compared with.
	native probe.Path
	// doors are the shared services that lead from one agent to another.
	doors []visit

	mu    sync.Mutex // of what follows: pairs of a round are measured at the same time
	cells map[place]*cell
	// visits counts them, so that each has paths in an order of its own.
	visits int
	// shares are of what a path gives of the native one, one for each visit.
	shares map[shareOf][]float64
	notes  []string
}

// Run measures the matrix. Agents that cannot be reached, or are lost on the way, have a
// Problem; if ctx ends, or fewer than two are left, what was measured is returned, marked
// as incomplete. An error means that nothing was. progress is told what is going on; nil
// tells nobody.
func Run(ctx context.Context, o Options, progress func(string)) (*probe.Matrix, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	r := &run{Options: o, started: time.Now(), progress: progress, cells: map[place]*cell{}, shares: map[shareOf][]float64{}}
	for _, a := range o.Agents {
		r.rows = append(r.rows, newRow(a))
	}
	progress(fmt.Sprintf("reaching %d agents", len(r.rows)))
	defer r.close()
	r.dialAll(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !r.enough() {
		return nil, r.tooFew()
	}
	r.know()
	r.noteReleases()
	r.native = r.firstPath()
	for _, step := range []func(context.Context) error{r.openDoors, r.bandwidthRounds, r.doorRounds, r.latencyRounds, r.again} {
		if ctx.Err() != nil || !r.enough() {
			break
		}
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r.result(ctx)
}

// enough tells whether there are two agents that can be asked.
func (r *run) enough() bool { return len(r.reached()) >= verdict.FewestAgents }

// reached are the places of agents that can be asked.
func (r *run) reached() []int {
	var list []int
	for i, w := range r.rows {
		if w.here() {
			list = append(list, i)
		}
	}
	return list
}

// firstPath is the first path that can be measured at all.
func (r *run) firstPath() probe.Path {
	for _, path := range measuredPaths {
		here := 0
		for _, w := range r.rows {
			if w.Addresses[path] != "" && w.on(path).here() {
				here++
			}
		}
		if here >= verdict.FewestAgents {
			return path
		}
	}
	return probe.ServicePath
}

// noteReleases tells of agents that are not all of one release: figures of different ones
// may mean different things.
func (r *run) noteReleases() {
	named := map[string]string{}
	var releases []string
	for _, w := range r.rows {
		for _, s := range w.stations() {
			if !s.here() {
				continue
			}
			v := s.conn.Host().Version
			if _, ok := named[v]; !ok {
				named[v] = w.Name
				releases = append(releases, fmt.Sprintf("%s on %s", v, w.Name))
			}
		}
	}
	if len(releases) > 1 {
		slices.Sort(releases)
		r.notes = append(r.notes, fmt.Sprintf("Agents are of different releases of taper (%s): use the same everywhere.", few(releases)))
	}
}

// mostNamed is how many of many are named.
const mostNamed = 6

// few names the first of many.
func few(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// bandwidthRounds measures each pair of the plan both ways, one after the other.
func (r *run) bandwidthRounds(ctx context.Context) error {
	reached := r.reached()
	plan, err := verdict.Plan(len(reached), r.Seed)
	if err != nil {
		return err
	}
	for i, round := range plan {
		for back := range 2 {
			var visits []visit
			for _, p := range round {
				v := visit{from: reached[p.From], to: reached[p.To], tests: []probe.Spec{r.bandwidth()}}
				if back == 1 {
					v.from, v.to = v.to, v.from
				}
				visits = append(visits, v)
			}
			r.round(ctx, fmt.Sprintf("bandwidth, round %d of %d", 2*i+back+1, 2*len(plan)), visits)
		}
	}
	return nil
}

// latencyRounds measures the sampled pairs.
func (r *run) latencyRounds(ctx context.Context) error {
	if r.LatencyPairs == 0 {
		return nil
	}
	reached := r.reached()
	pairs, err := verdict.Sample(len(reached), r.LatencyPairs, r.Seed)
	if err != nil {
		return err
	}
	var visits []visit
	for _, p := range pairs {
		visits = append(visits, visit{from: reached[p.From], to: reached[p.To], tests: []probe.Spec{r.latency()}})
	}
	r.disjointRounds(ctx, "latency", visits)
	return nil
}

// doorRounds measures pairs of which one reaches the other through a shared service: that
// and the other paths, side by side.
func (r *run) doorRounds(ctx context.Context) error {
	r.disjointRounds(ctx, "shared service", r.doors)
	return nil
}

// disjointRounds makes rounds of visits, so that no agent is in two of the same.
func (r *run) disjointRounds(ctx context.Context, what string, visits []visit) {
	rounds := disjoint(visits, len(r.rows))
	for i, round := range rounds {
		r.round(ctx, fmt.Sprintf("%s, round %d of %d", what, i+1, len(rounds)), round)
	}
}

// disjoint puts each visit into the first round in which both its agents are free.
func disjoint(visits []visit, agents int) [][]visit {
	var rounds [][]visit
	var busy [][]bool
	for _, v := range visits {
		i := slices.IndexFunc(busy, func(b []bool) bool { return !b[v.from] && !b[v.to] })
		if i < 0 {
			i = len(rounds)
			rounds = append(rounds, nil)
			busy = append(busy, make([]bool, agents))
		}
		rounds[i] = append(rounds[i], v)
		busy[i][v.from], busy[i][v.to] = true, true
	}
	return rounds
}

// holding is how many pairs are measured at the same time where each holds distributions of
// latency, of some 200 KB, until it is done.
const holding = 32

// round measures disjoint pairs at the same time, as far as there are both agents.
func (r *run) round(ctx context.Context, what string, visits []visit) {
	visits = slices.DeleteFunc(slices.Clone(visits), func(v visit) bool { return len(r.ways(v)) == 0 })
	if ctx.Err() != nil || len(visits) == 0 {
		return
	}
	r.progress(fmt.Sprintf("%s: %d pairs", what, len(visits)))
	var all errgroup.Group
	if slices.ContainsFunc(visits, visit.holds) {
		all.SetLimit(holding)
	}
	for _, v := range visits {
		all.Go(func() error {
			r.measure(ctx, v)
			return nil
		})
	}
	_ = all.Wait() // failures are in cells
}
