package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/test/bench/aim"
)

// The queue that both programs simulate: M/M/2, first come, first served.
const (
	cores       = 2
	utilization = 0.8
	// erlang is the mean wait in M/M/2, in mean service times (Erlang 1917).
	erlang = utilization * utilization / (1 - utilization*utilization)
	// stretches are what a run is cut into to see what chance does.
	stretches = 20
)

// speed measures requests per second of one core, and SimPy beside.
func (p plan) speed(ctx context.Context, dir string) error {
	article, err := article()
	if err != nil {
		return err
	}
	theirs, missing := installSimPy(ctx, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var m measured
	for seed := range uint64(p.rounds) {
		article.Seed = seed
		_, speed, err := simulate(ctx, article)
		if err != nil {
			return err
		}
		m.article = append(m.article, speed)
		if missing != nil {
			continue
		}
		if err := m.compare(ctx, p, theirs, seed); err != nil {
			return err
		}
	}
	rate := aim.Median(m.article)
	aim.Row("article, least-request: requests per second of one core", rate, "/s", "≥ 2 million", rate >= aimRequestsPerSecond)
	if missing != nil {
		fmt.Println("SimPy cannot be had, nothing to compare with:", missing)
		return nil
	}
	m.print()
	return nil
}

// measured are figures of all rounds.
type measured struct {
	article              []float64 // requests per second of CPU time
	ours, theirs         []float64 // customers of the queue per second of CPU time
	times                []float64 // ours over theirs
	ourWaits, theirWaits []float64 // means of stretches, in mean service times
}

// compare has both programs simulate the queue, one after the other.
func (m *measured) compare(ctx context.Context, p plan, simpy *simPy, seed uint64) error {
	ours, ourWaits, err := queue(ctx, p.customers, seed)
	if err != nil {
		return err
	}
	theirs, theirWaits, err := simpy.queue(ctx, p.simpy, seed)
	if err != nil {
		return err
	}
	m.ours, m.theirs, m.times = append(m.ours, ours), append(m.theirs, theirs), append(m.times, ours/theirs)
	m.ourWaits, m.theirWaits = append(m.ourWaits, ourWaits...), append(m.theirWaits, theirWaits...)
	return nil
}

func (m *measured) print() {
	queue := fmt.Sprintf("M/M/%d at %g", cores, utilization)
	aim.Row(queue+", taper: customers per second of one core", aim.Median(m.ours), "/s", "", true)
	aim.Row(queue+", SimPy: customers per second of one core", aim.Median(m.theirs), "/s", "", true)
	times := aim.Median(m.times)
	aim.Row("times as fast as SimPy", times, "", "≥ 100", times >= aimTimesSimPy)
	agree(queue+", taper: mean wait over Erlang's", m.ourWaits)
	agree(queue+", SimPy: mean wait over Erlang's", m.theirWaits)
}

// agree prints whether waiting times are as theory has them, as far as chance allows: within
// 2 %, or three standard errors where these are more.
func agree(what string, waits []float64) {
	mean, squares, n := 0.0, 0.0, float64(len(waits))
	for _, w := range waits {
		mean += w / erlang / n
	}
	for _, w := range waits {
		squares += (w/erlang - mean) * (w/erlang - mean)
	}
	within := max(0.02, 3*math.Sqrt(squares/(n-1)/n))
	aim.Row(what, mean, "×", fmt.Sprintf("1 ± %.2g", within), math.Abs(mean-1) <= within)
}

// article is the experiment's service under least-request, as it is shipped.
func article() (sim.Trial, error) {
	s, err := scenario.Open("article")
	if err != nil {
		return sim.Trial{}, err
	}
	i := slices.IndexFunc(s.Arms, func(a scenario.Arm) bool { return a.Name == "least-request" })
	if i < 0 {
		return sim.Trial{}, errors.New("the scenario article has no arm least-request")
	}
	return sim.Trial{Service: &s.Service, NewPolicy: s.Arms[i].NewPolicy, Weigher: s.Arms[i].Weigher, Steps: 100}, nil
}

// queue simulates customers who queue, and returns how many a second of CPU time is enough
// for, and how long they wait on average, in stretches.
func queue(ctx context.Context, customers int, seed uint64) (speed float64, waits []float64, err error) {
	alone, err := policy.Find("random")
	if err != nil {
		return 0, nil, err
	}
	demand := sim.Exponential(1)
	s := sim.Service{
		Servers:  []sim.Server{{Address: "127.0.1.1:80", Cores: cores, Demand: demand, Discipline: sim.FirstComeFirstServed}},
		Proxies:  1,
		Arrivals: sim.Poisson{{Rate: cores * utilization}},
		Measure:  float64(customers) / (cores * utilization),
	}
	r, speed, err := simulate(ctx, sim.Trial{Service: &s, NewPolicy: alone.New, Seed: seed, Steps: stretches})
	if err != nil {
		return 0, nil, err
	}
	for _, step := range r.Series {
		waits = append(waits, step.Latency.Mean()-demand.Mean())
	}
	return speed, waits, nil
}

// simulate runs a trial and returns how many requests, of those of the warm-up too, a second
// of CPU time is enough for.
func simulate(ctx context.Context, t sim.Trial) (*sim.Result, float64, error) {
	began, err := cpuTime()
	if err != nil {
		return nil, 0, err
	}
	r, err := sim.Run(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	ended, err := cpuTime()
	if err != nil {
		return nil, 0, err
	}
	var requests uint64
	for _, step := range r.Series {
		requests += step.Requests
	}
	return r, float64(requests) / (ended - began).Seconds(), nil
}

// cpuTime is what this process has used so far, the collection of garbage included.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading the CPU time of this process: %w", err)
	}
	return time.Duration(usage.Utime.Nano()), nil
}
