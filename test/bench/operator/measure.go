package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"taper.dev/taper/test/cluster"
)

const (
	// metricsAsked is how many metrics a policy without overrides asks for.
	metricsAsked = 3
	// settledWithin is how many cycles weights may take to settle.
	settledWithin = 10
	// enforcedWithin is how long the first entries may take, in all.
	enforcedWithin = 10 * time.Minute
	// lookEvery is the pause between looks at what takes seconds, and lookWithin ends
	// one that hangs.
	lookEvery  = 500 * time.Millisecond
	lookWithin = 30 * time.Second
)

// bench is a cluster, a store and an operator, and what follows them.
type bench struct {
	plan      plan
	world     *world
	cluster   *cluster.Cluster
	transport *http.Client // an admin's, for the API server
	store     *store
	subject   *subject
	started   time.Time // the subject
	follower  *follower
}

// measure sets everything up, measures, and cleans up.
func measure(ctx context.Context, p plan) (*result, error) {
	b := &bench{plan: p, world: newWorld(p), follower: newFollower()}
	defer b.close()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := &result{plan: p}
	ctx, end := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.store.feed(ctx, b.world) })
	group.Go(func() error { return b.follower.run(ctx, b.cluster.REST(), b.transport) })
	group.Go(func() error { return b.watchProcesses(ctx) })
	group.Go(func() error {
		defer end()
		for _, phase := range []func(context.Context, *result) error{b.start, b.settle, b.steady, b.churn} {
			if err := phase(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		b.quoteLog()
		return nil, err
	}
	return r, nil
}

func (b *bench) close() {
	if b.subject != nil {
		b.subject.Stop(subjectStopWithin)
	}
	if b.store != nil {
		b.store.Stop(storeStopWithin)
	}
	if b.cluster != nil {
		b.cluster.Close()
	}
}

// prepare makes all there is, and then starts the operator.
func (b *bench) prepare(ctx context.Context) (err error) {
	progress("starting etcd, API server and store")
	if err := surroundings(); err != nil {
		return err
	}
	if b.cluster, err = cluster.Start(ctx, cluster.Config{}); err != nil {
		return err
	}
	if b.transport, err = rest.HTTPClientFor(b.cluster.REST()); err != nil {
		return err
	}
	if err := errors.Join(b.cluster.InstallIstioCRDs(ctx), b.cluster.InstallTaperCRDs(ctx)); err != nil {
		return err
	}
	if b.store, err = startStore(ctx, b.cluster.Dir()); err != nil {
		return err
	}
	progress("creating %d services with %d pods each", b.plan.policies, b.plan.endpoints)
	if err := b.world.create(ctx, b.cluster); err != nil {
		return err
	}
	progress("telling the store what was measured so far")
	if err := b.store.backfill(ctx, b.world); err != nil {
		return err
	}
	b.started = time.Now()
	b.subject, err = startSubject(b.cluster, b.store.url, b.plan)
	return err
}

// surroundings has the servers around the operator collect garbage less often: they
// have memory for that here, and share two cores. The operator has its own settings.
func surroundings() error { return os.Setenv("GOGC", "150") }

// watchProcesses returns when one of them has ended by itself.
func (b *bench) watchProcesses(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := errors.Join(b.cluster.Err(), b.store.Err(), b.subject.Err()); err != nil {
				return err
			}
		}
	}
}

// quoteLog shows the end of the operator's log.
func (b *bench) quoteLog() {
	const most = 4000
	text, err := os.ReadFile(filepath.Join(b.cluster.Dir(), "taper-operator.log"))
	if err == nil {
		fmt.Fprintf(os.Stderr, "end of the operator's log:\n%s\n", text[max(0, len(text)-most):])
	}
}

// start measures what it takes until every service has its first weights.
func (b *bench) start(ctx context.Context, r *result) error {
	progress("waiting for the first entries")
	if err := b.subject.awaitReady(ctx); err != nil {
		return err
	}
	r.ReadySeconds = time.Since(b.started).Seconds()
	err := cluster.Eventually(ctx, enforcedWithin, "every service has an entry", func(context.Context) error {
		return b.follower.complete(b.plan.policies, b.plan.endpoints)
	})
	if err != nil {
		return err
	}
	r.EnforcedSeconds = time.Since(b.started).Seconds()
	cpu, err := b.subject.CPUTime()
	if err != nil {
		return err
	}
	r.StartCPUSeconds = cpu.Seconds()
	_, r.StartPeakBytes, err = b.subject.memory()
	return err
}

// settle waits for a cycle in which nothing is written.
func (b *bench) settle(ctx context.Context, r *result) error {
	for r.SettlingCycles = range settledWithin {
		before, err := b.count(ctx)
		if err != nil {
			return err
		}
		progress("waiting for a cycle without a write")
		if err := b.awaitCycles(ctx, 1); err != nil {
			return err
		}
		after, err := b.count(ctx)
		if err != nil {
			return err
		}
		wrote := after.writes.since(before.writes)
		if wrote.total() == 0 {
			return nil
		}
		progress("%v", wrote)
	}
	return nil // what is written from now on shows in the table
}

// awaitCycles returns half an interval after the n-th cycle from now has asked the
// store: from one call to the end of the next it is n intervals, with a cycle in the
// middle of each.
func (b *bench) awaitCycles(ctx context.Context, n int) error {
	before, err := b.queries(ctx)
	if err != nil {
		return err
	}
	within := b.plan.interval*3/2 + lookWithin
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	deadline := time.After(within)
	for now := before; now == before; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("the store was asked nothing in %s", within)
		case <-tick.C:
		}
		if now, err = b.queries(ctx); err != nil {
			return err
		}
	}
	return pause(ctx, time.Duration(n-1)*b.plan.interval+b.plan.interval/2)
}

// steady measures cycles in which there is nothing to do.
func (b *bench) steady(ctx context.Context, r *result) error {
	progress("measuring %d cycles in which nothing changes", b.plan.cycles)
	if err := b.subject.forgetPeak(); err != nil {
		return err
	}
	// Serving its metrics costs the operator CPU time too, which is not the cycle's.
	counted, err := b.count(ctx)
	if err != nil {
		return err
	}
	used, err := b.used()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.awaitCycles(ctx, b.plan.cycles); err != nil {
		return err
	}
	took := time.Since(start)
	usedAfter, err := b.used()
	if err != nil {
		return err
	}
	countedAfter, err := b.count(ctx)
	if err != nil {
		return err
	}
	r.Cycles = math.Round(took.Seconds() / b.plan.interval.Seconds())
	r.CycleCPUSeconds = usedAfter.since(used)[operator].Seconds() / took.Seconds() * b.plan.interval.Seconds()
	r.StoreCPUSeconds = usedAfter.since(used)[storage].Seconds() / took.Seconds() * b.plan.interval.Seconds()
	r.SteadyWrites = countedAfter.writes.since(counted.writes).total()
	r.QueriesPerMetric = (countedAfter.queries - counted.queries) / metricsAsked / r.Cycles
	r.SteadyBytes, r.SteadyPeakBytes, err = b.subject.memory()
	return err
}

// churn measures how endpoints that come and go are followed.
func (b *bench) churn(ctx context.Context, r *result) error {
	progress("changing %d endpoints a second for %s", b.plan.changes, b.plan.changing)
	typed, err := newClientset(b.cluster.REST())
	if err != nil {
		return err
	}
	if err := b.subject.forgetPeak(); err != nil {
		return err
	}
	counted, err := b.count(ctx)
	if err != nil {
		return err
	}
	used, err := b.used()
	if err != nil {
		return err
	}
	start := time.Now()
	made, err := b.world.churn(ctx, typed, b.follower)
	if err != nil {
		return err
	}
	took := time.Since(start)
	usedAfter, err := b.used()
	if err != nil {
		return err
	}
	r.Cores = usedAfter.since(used).cores(took)
	r.Offered = float64(made) / took.Seconds()
	absorbed, _ := b.follower.left()
	r.Absorbed = float64(absorbed) / took.Seconds()
	if err := b.awaitAbsorbed(ctx); err != nil {
		return err
	}
	_, r.Lost = b.follower.left()
	r.Latency = summarize(b.follower.latencies(), r.Lost)
	countedAfter, err := b.count(ctx)
	if err != nil {
		return err
	}
	r.ChurnWrites = map[string]float64{}
	for resource, n := range countedAfter.writes.since(counted.writes) {
		r.ChurnWrites[resource] = n / float64(made)
	}
	r.OwnP99Seconds = number(countedAfter.latency.since(counted.latency).quantile(0.99))
	_, r.ChurnPeakBytes, err = b.subject.memory()
	return err
}

// awaitAbsorbed waits for the last entries, but not for ever: what is missing then
// is lost.
func (b *bench) awaitAbsorbed(ctx context.Context) error {
	for deadline := time.Now().Add(absorbedWithin); time.Now().Before(deadline); {
		if _, pending := b.follower.left(); pending == 0 {
			return nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var begun = time.Now()

// progress tells a person what is going on, and since when.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
}

// every calls f again and again until the function that it returns is called.
func every(d time.Duration, f func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() { close(stopped) }
}
