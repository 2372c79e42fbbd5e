package operator

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source"
)

const (
	// collectWithin bounds the wait for a source that hangs; half an interval does
	// too, where that is less. A store that is asked for a hundred thousand pods may
	// need most of it, and by default gives up then itself.
	collectWithin = 30 * time.Second
	// railsAtOnce bounds how many guard rails a store is asked for at the same time.
	railsAtOnce = 4
)

// subscription is what a policy wants to be measured.
type subscription struct {
	source    sourceRef
	interval  time.Duration
	guardRail *v1alpha1.GuardRail
	// endpoints have podKey both as address and as name: an IP address may belong to
	// pods of several services, on the host's network.
	endpoints []model.Endpoint
}

// round is what one collection brought for the policies that were due.
type round struct {
	at time.Time
	// snapshot is by podKey. It is never nil.
	snapshot model.Snapshot
	// err is what the source complained of; the snapshot may have something all the same.
	err   error
	rails map[types.NamespacedName]balance.Rail

	waiting atomic.Int64
	done    func()
}

// decided is called by each due policy once, when it has dealt with the round.
func (r *round) decided() {
	if r.waiting.Add(-1) == 0 {
		r.done()
	}
}

// collector asks each source once per cycle, for all of its policies that are due,
// and tells them. Sources do not wait for each other.
type collector struct {
	open    func(context.Context, sourceRef) (source.Source, error)
	tell    func(types.NamespacedName)
	observe cycleObserver
	// unused is told of a source that no policy wants any more.
	unused func(sourceRef)
	logger *slog.Logger

	mu       sync.Mutex
	groups   map[sourceRef]*group
	policies map[types.NamespacedName]*subscriber
	started  context.Context
	running  sync.WaitGroup
}

// cycleObserver is told how long things took; the metrics are.
type cycleObserver interface {
	Queried(source string, took time.Duration, err error)
	Cycled(took time.Duration)
}

// subscriber is a policy and where it stands.
type subscriber struct {
	subscription
	next   time.Time
	asked  bool // at least once
	latest *round
}

// group is a source and those who want to know of it.
type group struct {
	ref     sourceRef
	members map[types.NamespacedName]*subscriber
	changed chan struct{} // of capacity 1: the timer has to be set anew
	stop    context.CancelFunc
	// began and took are those of the last question.
	began time.Time
	took  time.Duration
}

func newCollector(open func(context.Context, sourceRef) (source.Source, error), tell func(types.NamespacedName), observe cycleObserver, logger *slog.Logger) *collector {
	return &collector{
		open: open, tell: tell, observe: observe, unused: func(sourceRef) {}, logger: logger,
		groups: map[sourceRef]*group{}, policies: map[types.NamespacedName]*subscriber{},
	}
}

// Start implements the manager's Runnable: sources are asked from now on, until the
// context ends. Only the leader's is started.
func (c *collector) Start(ctx context.Context) error {
	c.mu.Lock()
	c.started = ctx
	for _, g := range c.groups {
		c.launch(g)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.running.Wait()
	return nil
}

// launch runs a group's loop; the lock is held.
func (c *collector) launch(g *group) {
	if c.started == nil || c.started.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(c.started)
	g.stop = stop
	c.running.Go(func() { c.run(ctx, g) })
}

// subscribe says what a policy wants from now on. A policy that is new, or has
// changed its source or interval, is asked for soon.
func (c *collector) subscribe(policy types.NamespacedName, s subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.policies[policy]
	if known != nil && known.source != s.source {
		c.drop(policy)
		known = nil
	}
	if known != nil {
		if known.interval != s.interval {
			known.next = time.Now().Add(gather)
			c.groups[s.source].poke()
		}
		known.subscription = s
		return
	}
	g := c.groups[s.source]
	if g == nil {
		g = &group{ref: s.source, members: map[types.NamespacedName]*subscriber{}, changed: make(chan struct{}, 1)}
		c.groups[s.source] = g
		c.launch(g)
	}
	sub := &subscriber{subscription: s, next: time.Now().Add(gather)}
	c.policies[policy], g.members[policy] = sub, sub
	g.poke()
}

// unsubscribe forgets a policy.
func (c *collector) unsubscribe(policy types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(policy)
}

func (c *collector) drop(policy types.NamespacedName) {
	sub := c.policies[policy]
	if sub == nil {
		return
	}
	delete(c.policies, policy)
	g := c.groups[sub.source]
	delete(g.members, policy)
	if len(g.members) == 0 {
		delete(c.groups, sub.source)
		if g.stop != nil {
			g.stop()
		}
		c.unused(sub.source)
	}
	if sub.latest != nil {
		sub.latest.decided()
	}
}

// take returns the newest round that the policy has not been given yet, or nil.
func (c *collector) take(policy types.NamespacedName) *round {
	c.mu.Lock()
	defer c.mu.Unlock()
	sub := c.policies[policy]
	if sub == nil {
		return nil
	}
	r := sub.latest
	sub.latest = nil
	return r
}

func (g *group) poke() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

const (
	// gather is how long a cycle waits for policies that are due soon, so that they
	// are asked for together, and policies that turn up one after the other do not
	// each cost a query.
	gather = 500 * time.Millisecond
	// restTimes is how long a source rests from its last question before it is asked for
	// new policies, in times that the question took. To a store, a few policies cost
	// almost as much as all; and after a hand-over they turn up for a while.
	restTimes = 4
)

// dueAt is when a member is to be asked for.
func (g *group) dueAt(sub *subscriber) time.Time {
	if rested := g.began.Add((1 + restTimes) * g.took); !sub.asked && rested.After(sub.next) {
		return rested
	}
	return sub.next
}

func (c *collector) run(ctx context.Context, g *group) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
			timer.Reset(c.untilDue(g))
		case <-timer.C:
			c.cycle(ctx, g)
			timer.Reset(c.untilDue(g))
		}
	}
}

func (c *collector) untilDue(g *group) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := time.Now().Add(time.Hour)
	for _, sub := range g.members {
		if at := g.dueAt(sub); at.Before(first) {
			first = at
		}
	}
	return time.Until(first)
}

// due takes the subscriptions whose time has come, or nearly, and sets their next.
// New ones are taken along.
func (c *collector) due(g *group, now time.Time) map[types.NamespacedName]subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	isDue := func(sub *subscriber) bool { return !g.dueAt(sub).After(now.Add(min(gather, sub.interval/4))) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(g.members)), isDue) {
		return nil
	}
	due := map[types.NamespacedName]subscription{}
	for name, sub := range g.members {
		if isDue(sub) || !sub.asked {
			due[name] = sub.subscription
			sub.next, sub.asked = now.Add(untilNext(now, sub.interval)), true
		}
	}
	return due
}

// untilNext is the time to the next multiple of the interval that is not too near:
// policies of one interval come together, whenever they turned up.
func untilNext(now time.Time, interval time.Duration) time.Duration {
	return now.Add(interval / 2).Truncate(interval).Add(interval).Sub(now)
}

func (c *collector) cycle(ctx context.Context, g *group) {
	start := time.Now()
	due := c.due(g, start)
	if len(due) == 0 {
		return
	}
	r := c.collect(ctx, g.ref, due)
	c.mu.Lock()
	g.began, g.took = start, time.Since(start)
	c.mu.Unlock()
	if ctx.Err() != nil {
		return // stopping: an interrupted collection is not a missing one
	}
	r.done = func() { c.observe.Cycled(time.Since(start)) }
	c.deliver(g, due, r)
}

func (c *collector) deliver(g *group, due map[types.NamespacedName]subscription, r *round) {
	// The cycle itself waits too, so that it does not end before all are told.
	r.waiting.Store(1)
	c.mu.Lock()
	told := make([]types.NamespacedName, 0, len(due))
	for name := range due {
		sub := g.members[name]
		if sub == nil {
			continue // gone meanwhile
		}
		if sub.latest != nil {
			sub.latest.decided() // it was too slow to look at its last one
		}
		sub.latest = r
		r.waiting.Add(1)
		told = append(told, name)
	}
	c.mu.Unlock()
	for _, name := range told {
		c.tell(name)
	}
	r.decided()
}

// collect asks the source, within a deadline, and then the guard rails.
func (c *collector) collect(ctx context.Context, ref sourceRef, due map[types.NamespacedName]subscription) *round {
	within := collectWithin
	var endpoints []model.Endpoint
	for _, name := range slices.SortedFunc(maps.Keys(due), compareNames) {
		within = min(within, due[name].interval/2)
		endpoints = append(endpoints, due[name].endpoints...)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	start := time.Now()
	src, err := c.open(ctx, ref)
	r := &round{at: start, snapshot: model.Snapshot{}, rails: map[types.NamespacedName]balance.Rail{}}
	if err == nil {
		var snapshot model.Snapshot
		snapshot, err = src.Collect(ctx, endpoints)
		if snapshot != nil {
			r.snapshot = snapshot
		}
	}
	r.err = err
	if !errors.Is(ctx.Err(), context.Canceled) {
		c.observe.Queried(ref.String(), time.Since(start), err)
		if err != nil {
			c.logger.Warn("no samples", "source", ref.String(), "policies", len(due), "error", err)
		}
	}
	c.readRails(ctx, src, due, r)
	return r
}

// valuer is a source that can evaluate a guard rail's query.
type valuer interface {
	Value(ctx context.Context, query string) (float64, error)
}

func (c *collector) readRails(ctx context.Context, src source.Source, due map[types.NamespacedName]subscription, r *round) {
	var mu sync.Mutex
	var reading errgroup.Group
	reading.SetLimit(railsAtOnce)
	for name, sub := range due {
		if sub.guardRail == nil {
			continue
		}
		reading.Go(func() error {
			rail := readRail(ctx, src, sub.guardRail)
			mu.Lock()
			defer mu.Unlock()
			r.rails[name] = rail
			return nil
		})
	}
	_ = reading.Wait() // no reader returns an error: a rail that is not read says so
}
