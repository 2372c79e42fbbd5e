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
	// too, where that is less.
	collectWithin = 10 * time.Second
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
	latest *round
}

// group is a source and those who want to know of it.
type group struct {
	ref     sourceRef
	members map[types.NamespacedName]*subscriber
	changed chan struct{} // of capacity 1: the timer has to be set anew
	stop    context.CancelFunc
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
// changed its source or interval, is asked for at once.
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
			known.next = time.Now()
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
	sub := &subscriber{subscription: s, next: time.Now()}
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

// gather is how long a cycle waits for policies that are due soon, so that they are
// asked for together, and policies that turn up one after the other at the start do
// not each cost a query.
const gather = 500 * time.Millisecond

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
		if sub.next.Before(first) {
			first = sub.next
		}
	}
	return max(gather, time.Until(first))
}

// due takes the subscriptions whose time has come, or nearly, and sets their next.
// Times are multiples of the interval, so that policies of one interval stay together.
func (c *collector) due(g *group, now time.Time) map[types.NamespacedName]subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := map[types.NamespacedName]subscription{}
	for name, sub := range g.members {
		if sub.next.After(now.Add(min(gather, sub.interval/4))) {
			continue
		}
		due[name] = sub.subscription
		sub.next = now.Add(sub.interval)
	}
	return due
}

func (c *collector) cycle(ctx context.Context, g *group) {
	start := time.Now()
	due := c.due(g, start)
	if len(due) == 0 {
		return
	}
	r := c.collect(ctx, g.ref, due)
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
