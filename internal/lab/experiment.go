package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/standalone"
)

const (
	// requestTimeout is how long a request may take before it has failed.
	requestTimeout = 30 * time.Second
	// maxInFlight bounds what an overloaded machine can pile up: each request in
	// flight takes two of the file descriptors of this process.
	maxInFlight = 4000
	// disturbance is what an endpoint's demand is multiplied by on purpose.
	disturbance = 2
)

// Progress is what an experiment is doing, for a person who waits.
type Progress struct {
	// Doing is a phrase such as "measuring least-latency, round 2 of 3".
	Doing string
	// Done and Total are spans of the experiment's time.
	Done, Total time.Duration
	// Sent and Errors count the requests of the arm that is running.
	Sent, Errors uint64
}

// arm is one way to balance, with what it remembers between its turns.
type arm struct {
	name       string
	controller *standalone.Controller // nil for an arm without a loop
	rounds     []measured

	mu     sync.Mutex
	events []timedEvent
	ran    time.Duration // the loop's own time before this turn
	began  time.Time     // of this turn
	// weights and why are those at the end of the last turn.
	weights model.Weights
	why     map[string]string
	// firstRound is the number of decisions in the first turn.
	firstRound int
}

// timedEvent is a decision in the time of its arm's loop, which stands still while
// other arms run.
type timedEvent struct {
	standalone.Event
	at time.Duration
}

func (a *arm) record(e standalone.Event) {
	if !e.Sampled {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, timedEvent{e, a.ran + e.At.Sub(a.began)})
}

// conclude keeps what the last decision of a turn came to.
func (a *arm) conclude(round int) {
	if round == 0 {
		a.firstRound = len(a.events)
	}
	if len(a.events) == 0 {
		return
	}
	last := a.events[len(a.events)-1].Decision
	a.weights = last.Weights
	a.why = map[string]string{}
	for _, v := range last.Verdicts {
		a.why[v.Address] = v.Why()
	}
}

// Balance runs the experiment and returns what it measured. The progress function
// is called several times a second. When the context ends, everything that was
// started is stopped and the context's error is returned.
func Balance(ctx context.Context, o Options, logger *slog.Logger, progress func(Progress)) (*report.Experiment, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e := &experiment{options: o, progress: progress, started: time.Now(), total: o.Duration()}
	e.say("starting the servers")
	bed, err := startTestbed(ctx, o, logger)
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	e.bed = bed
	for _, name := range o.Arms {
		e.arms = append(e.arms, bed.newArm(name))
	}
	if err := bed.admit(ctx, e.arms); err != nil {
		return nil, err
	}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return e.result(), nil
}

// experiment is one run of [Balance].
type experiment struct {
	options  Options
	bed      *testbed
	arms     []*arm
	progress func(Progress)
	started  time.Time
	total    time.Duration
	done     time.Duration
	upset    *report.Disturbance
}

// run gives the arms their turns. Each round begins with another arm, so that no
// arm always follows the same one.
func (e *experiment) run(ctx context.Context) error {
	for round := range e.options.Rounds {
		for i := range e.arms {
			a := e.arms[(i+round)%len(e.arms)]
			if err := e.turn(ctx, a, round); err != nil {
				return fmt.Errorf("%s, round %d: %w", a.name, round+1, err)
			}
		}
	}
	if !e.options.Disturb {
		return nil
	}
	e.upset = &report.Disturbance{Address: e.bed.fleet.Members()[0].Address, Factor: disturbance, SettledAfter: map[string]int{}}
	for _, a := range e.arms {
		if a.controller == nil {
			continue
		}
		if err := e.disturb(ctx, a); err != nil {
			return fmt.Errorf("%s, disturbed: %w", a.name, err)
		}
	}
	return nil
}

// turn runs one arm for one round: warm up, measure.
func (e *experiment) turn(ctx context.Context, a *arm, round int) error {
	doing := fmt.Sprintf("%s, round %d of %d", a.name, round+1, e.options.Rounds)
	err := e.underLoad(ctx, a, uint64(round), func(ctx context.Context, g *load.Generator) error {
		if err := e.wait(ctx, g, "warming up "+doing, e.options.warmUp(a.name, round)); err != nil {
			return err
		}
		m, err := e.measure(ctx, g, "measuring "+doing)
		if err != nil {
			return err
		}
		a.rounds = append(a.rounds, m)
		return nil
	})
	a.conclude(round)
	return err
}

// underLoad runs an arm's loop, if it has one, and its load around a function.
// Both have ended when it returns.
func (e *experiment) underLoad(ctx context.Context, a *arm, seed uint64, during func(context.Context, *load.Generator) error) error {
	g, err := load.Start(ctx, load.Plan{
		Targets: e.bed.proxies.Addresses(), Host: a.name, Path: "/", Rate: e.options.Rate,
		// The same seed for all arms of a round: they see the same arrivals.
		Seed: e.options.Seed*1000 + seed, Timeout: requestTimeout, MaxInFlight: maxInFlight,
	})
	if err != nil {
		return err
	}
	defer g.Stop()
	a.began = time.Now()
	defer func() { a.ran += time.Since(a.began) }() // once the loop has ended
	loopCtx, stopLoop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	defer loop.Wait()
	defer stopLoop()
	if a.controller != nil {
		loop.Go(func() { _ = a.controller.Run(loopCtx) }) // always nil: it ends with its context
	}
	return during(ctx, g)
}

func (e *experiment) measure(ctx context.Context, g *load.Generator, doing string) (measured, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := e.bed.fleet.Usage(ctx)
	if err != nil {
		return measured{}, err
	}
	type outcome struct {
		m   *load.Measurement
		err error
	}
	result := make(chan outcome, 1)
	go func() {
		m, err := g.Measure(ctx, e.options.Measure)
		result <- outcome{m, err}
	}()
	if err := e.wait(ctx, g, doing, e.options.Measure); err != nil {
		cancel()
		<-result
		return measured{}, err
	}
	after, err := e.bed.fleet.Usage(ctx)
	r := <-result
	if err := errors.Join(err, r.err); err != nil {
		return measured{}, err
	}
	return measured{load: r.m, before: before, after: after}, nil
}

// disturb lets an arm settle, doubles an endpoint's demand and watches the weights.
func (e *experiment) disturb(ctx context.Context, a *arm) error {
	o, doing := e.options, a.name+" with the demand of "+e.upset.Address+" doubled"
	from := 0
	err := e.underLoad(ctx, a, uint64(o.Rounds), func(ctx context.Context, g *load.Generator) error {
		if err := e.wait(ctx, g, "warming up "+doing, o.warmUp(a.name, 1)); err != nil {
			return err
		}
		a.mu.Lock()
		from = len(a.events)
		a.mu.Unlock()
		if err := e.bed.fleet.Disturb(e.upset.Address, disturbance); err != nil {
			return err
		}
		return e.wait(ctx, g, "watching "+doing, disturbed*o.Interval)
	})
	if err != nil {
		return err
	}
	members := e.bed.fleet.Members()
	after := sharesOverTime(a.events[from:], members)
	e.upset.SettledAfter[a.name] = -1
	if n, ok := report.SettledAfter(byKind(after, members, e.upset.Address)); ok {
		e.upset.SettledAfter[a.name] = n
	}
	return e.bed.fleet.Disturb(e.upset.Address, 1/float64(disturbance))
}

// wait lets time pass and tells of it.
func (e *experiment) wait(ctx context.Context, g *load.Generator, doing string, d time.Duration) error {
	begin := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	defer func() { e.done += d }()
	for {
		p := g.Progress()
		e.progress(Progress{Doing: doing, Done: e.done + time.Since(begin), Total: e.total, Sent: p.Sent, Errors: p.Errors})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return e.bed.Failure()
		case <-tick.C:
			if err := e.bed.Failure(); err != nil {
				return err
			}
		}
	}
}

func (e *experiment) say(doing string) { e.progress(Progress{Doing: doing, Total: e.total}) }

func (e *experiment) result() *report.Experiment {
	o := e.options
	result := &report.Experiment{
		Scenario: "fibonacci", Started: e.started.UTC().Truncate(time.Second), Disturbance: e.upset,
		Settings: report.Settings{
			EndpointKind: o.Endpoints, Store: o.Store, Proxies: o.Proxies, RatePerS: o.Rate, Rounds: o.Rounds,
			MeasureS: o.Measure.Seconds(), IntervalS: o.Interval.Seconds(), Seed: o.Seed, ProxyVersion: "Envoy " + e.bed.proxies.Version(),
		},
	}
	for _, a := range e.arms {
		result.Arms = append(result.Arms, a.summarise(e.bed.fleet.Members()))
	}
	result.Compare()
	return result
}
