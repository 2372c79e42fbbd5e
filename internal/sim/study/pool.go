package study

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/scenario"
)

// trial is one arm of a scenario in one round.
type trial struct {
	scenario *scenario.Scenario
	arm      *scenario.Arm
	round    int
	seed     uint64
	// steps is how many stretches the run's series has.
	steps int
	// at says more about what runs, such as the value of a sweep.
	at string
}

// trials are all arms in all rounds, round by round.
func trials(s *scenario.Scenario, steps int, at string) []trial {
	var all []trial
	seeds := random.New(s.Seed)
	for round := range s.Rounds {
		seed := seeds.Next()
		for i := range s.Arms {
			all = append(all, trial{s, &s.Arms[i], round, seed, steps, at})
		}
	}
	return all
}

func (t *trial) String() string {
	return fmt.Sprintf("%s%s, round %d of %d", t.arm.Name, t.at, t.round+1, t.scenario.Rounds)
}

// pool runs trials side by side.
type pool struct {
	Options
	started time.Time

	mu    sync.Mutex
	parts []float64 // of each trial, what is done
	said  time.Time
	err   error // of the first that failed
}

// run runs all trials and keeps of each what take makes of its result, in their order. The
// first error ends the others.
func run[T any](ctx context.Context, trials []trial, o Options, take func(*trial, *sim.Result) T) ([]T, error) {
	atOnce, err := width(trials, o.Memory)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pool{Options: o, started: time.Now(), parts: make([]float64, len(trials))}
	taken := make([]T, len(trials))
	next := make(chan int)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				result, err := p.simulate(ctx, &trials[i], i)
				if err != nil {
					p.fail(err)
					cancel()
					continue
				}
				taken[i] = take(&trials[i], result)
			}
		})
	}
	p.hand(ctx, len(trials), next)
	workers.Wait()
	return taken, p.err
}

// hand gives trials to who is free, until the context ends.
func (p *pool) hand(ctx context.Context, trials int, next chan<- int) {
	defer close(next)
	for i := range trials {
		select {
		case next <- i:
		case <-ctx.Done():
			p.fail(ctx.Err())
			return
		}
	}
}

// width is how many of the trials run at once.
func width(trials []trial, memory int64) (int, error) {
	atOnce := min(runtime.GOMAXPROCS(0), len(trials))
	if memory <= 0 {
		return atOnce, nil
	}
	var known *scenario.Scenario
	for _, t := range trials {
		if t.scenario == known {
			continue // to find out takes a while
		}
		known = t.scenario
		takes := max(1, known.Bytes())
		if takes > memory {
			return 0, &TooLarge{Scenario: known.Name + t.at, Takes: takes, Limit: memory}
		}
		atOnce = int(min(int64(atOnce), memory/takes))
	}
	return atOnce, nil
}

func (p *pool) simulate(ctx context.Context, t *trial, i int) (*sim.Result, error) {
	result, err := sim.Run(ctx, sim.Trial{
		Service: &t.scenario.Service, NewPolicy: t.arm.NewPolicy, Weigher: t.arm.Weigher, Seed: t.seed, Steps: t.steps,
		Progress: func(part float64) { p.say(t, i, part) },
	})
	if err != nil {
		return nil, fmt.Errorf("simulating %s: %w", t, err)
	}
	p.say(t, i, 1)
	return result, nil
}

func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// often is how long nothing is said after something was.
const often = 200 * time.Millisecond

// say tells of a trial's progress.
func (p *pool) say(t *trial, i int, part float64) {
	if p.Progress == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[i] = part
	now := time.Now()
	if now.Sub(p.said) < often {
		return
	}
	p.said = now
	var done float64
	for _, part := range p.parts {
		done += part / float64(len(p.parts))
	}
	progress := Progress{Part: min(1, done), Doing: t.String()}
	// What is left is told once it is more than a guess.
	if took := now.Sub(p.started); took > time.Second && done > 0.01 {
		progress.Left = time.Duration(float64(took) * (1 - done) / done)
	}
	p.Progress(progress)
}
