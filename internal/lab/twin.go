package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/fleet/emulated"
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
)

// twin is a measured experiment in the simulator: the same endpoints, arrivals, proxies,
// loops and turns, and none of the machine.
type twin struct {
	options Options
	members []fleet.Member
	// overhead is what proxies, sockets and the machine add to a request, in seconds.
	overhead float64
}

// newTwin builds the twin of what was measured. It takes emulated endpoints, of which it is
// known what requests cost.
func newTwin(e *report.Experiment) (*twin, error) {
	s := e.Settings
	t := &twin{options: Options{
		Endpoints: s.EndpointKind, Store: s.Store, Proxies: s.Proxies, Rate: s.RatePerS, Rounds: s.Rounds,
		Measure: seconds(s.MeasureS), Interval: seconds(s.IntervalS), Seed: s.Seed,
	}}
	if e.Scenario != "fibonacci" {
		return nil, fmt.Errorf("scenario is %q: it takes what taper lab balance --json printed, whose scenario is fibonacci", e.Scenario)
	}
	if s.EndpointKind != Emulated {
		return nil, fmt.Errorf("endpoints are %q: it takes %q ones, of which it is known what requests cost", s.EndpointKind, Emulated)
	}
	for _, a := range e.Arms {
		t.options.Arms = append(t.options.Arms, a.Name)
	}
	if err := t.options.Validate(); err != nil {
		return nil, err
	}
	for i := range e.Arms {
		if err := measuredWell(&e.Arms[i]); err != nil {
			return nil, err
		}
	}
	if n := t.requests(); n > mostSimulated {
		return nil, fmt.Errorf("the experiment takes %.2g simulated requests, and up to %.2g are simulated: measure fewer rounds, or shorter ones", n, float64(mostSimulated))
	}
	for i := range e.Arms {
		members, err := membersOf(&e.Arms[i])
		if err != nil {
			return nil, err
		}
		t.members = members
	}
	return t, nil
}

const (
	// twinRuns is how many experiments are simulated: their median varies by less than half of
	// what one varies.
	twinRuns = 9
	// mostSimulated bounds the time that it takes, to some minutes.
	mostSimulated = 500e6
)

// requests is how many are simulated in all.
func (t *twin) requests() float64 {
	var seconds float64
	for _, arm := range t.options.Arms {
		for round := range t.options.Rounds {
			s := t.service(arm, round)
			seconds += s.WarmUp + s.Measure
		}
	}
	return twinRuns * seconds * t.options.Rate
}

// seconds is a time from a file, which may say anything.
func seconds(s float64) time.Duration {
	if !(s >= 0 && s <= 1e6) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// measuredWell tells what keeps an arm from being compared.
func measuredWell(a *report.Arm) error {
	switch {
	case a.Requests == 0:
		return fmt.Errorf("arm %s measured no requests", a.Name)
	case a.Errors > 0:
		return fmt.Errorf("arm %s: %d of %d requests failed: the machine was not up to the experiment, and a simulation of it is", a.Name, a.Errors, a.Requests)
	case !(a.P50 > 0 && a.P99 > 0 && a.CPU > 0):
		return fmt.Errorf("arm %s lacks latencies or CPU", a.Name)
	}
	for _, e := range a.Endpoints {
		if !(e.Requests > 0 && e.Requests < 1e9) {
			return fmt.Errorf("arm %s: endpoint %s served %g requests/s: it takes what the lab measured, above 0", a.Name, e.Address, e.Requests)
		}
	}
	return nil
}

// membersOf are the fleet's, which the experiment has to have had.
func membersOf(a *report.Arm) ([]fleet.Member, error) {
	members := fleet.Fibonacci()
	if len(a.Endpoints) != len(members) {
		return nil, fmt.Errorf("arm %s has %d endpoints: the experiment has %d", a.Name, len(a.Endpoints), len(members))
	}
	for i, m := range members {
		e := a.Endpoints[i]
		number, ok := strings.CutPrefix(e.Demand, "fib(")
		fib, err := strconv.Atoi(strings.TrimSuffix(number, ")"))
		if !ok || err != nil || fib != m.Fib || e.Address != m.Address {
			return nil, fmt.Errorf("endpoint %s computes %s: in the experiment of this taper the %d. is %s and computes fib(%d)", e.Address, e.Demand, i+1, m.Address, m.Fib)
		}
	}
	return members, nil
}

// service is what a round of an arm has: it runs on from the rounds before, with the
// memory of its loop.
func (t *twin) service(arm string, round int) *sim.Service {
	o := t.options
	s := &sim.Service{
		Proxies: o.Proxies, Arrivals: sim.Poisson{{Rate: o.Rate}}, RoundTrip: t.overhead,
		Timeout: requestTimeout.Seconds(), Measure: o.Measure.Seconds(),
	}
	for r := range round + 1 {
		s.WarmUp += o.warmUp(arm, r).Seconds()
		if r > 0 {
			s.WarmUp += s.Measure
		}
	}
	for _, m := range t.members {
		mean, spread := emulated.Demand(m.Fib)
		s.Servers = append(s.Servers, sim.Server{
			Address: m.Address, Cores: m.Capacity, Demand: sim.NewLogNormal(mean, spread), Discipline: sim.ProcessorSharing,
		})
	}
	return s
}

// weigher is an arm's loop, as the testbed has it; nil without one.
func (t *twin) weigher(arm string) *sim.Weigher {
	if !controlled(arm) {
		return nil
	}
	p := balance.DefaultPolicy(t.options.Interval)
	p.Strategy = balance.Strategy(arm)
	return &sim.Weigher{
		// The testbed's exporter tells no requests in flight.
		Decide: balance.Decide, Policy: p, Evidence: balance.FromCPU, NoInFlight: true,
		// In the mean, the newest scrape is half its interval old.
		Delay: (t.options.Interval / scrapesPerInterval / 2).Seconds(),
	}
}

// scrapesPerInterval is how often the testbed's store scrapes in a control interval.
const scrapesPerInterval = 6

// run simulates an arm of the whole experiment, with one seed for all of it.
func (t *twin) run(ctx context.Context, arm string, seed uint64) (*report.Arm, error) {
	kind, err := policy.Find(proxyPolicy(arm))
	if err != nil {
		return nil, err
	}
	result := &report.Arm{Name: arm}
	for round := range t.options.Rounds {
		r, err := sim.Run(ctx, sim.Trial{
			Service: t.service(arm, round), NewPolicy: kind.New, Weigher: t.weigher(arm), Seed: seed, Steps: 1,
		})
		if err != nil {
			return nil, err
		}
		result.Rounds = append(result.Rounds, report.Round{
			Requests: r.Requests, Errors: r.Errors, CPU: r.CPU(),
			P50: 1000 * r.Latency.Quantile(0.5), P99: 1000 * r.Latency.Quantile(0.99),
		})
	}
	result.Conclude()
	return result, nil
}

// proxyPolicy is how an arm's proxies choose.
func proxyPolicy(arm string) string {
	if arm == RoundRobin {
		return RoundRobin
	}
	return LeastRequest
}

// Agree simulates a measured experiment and says how near every arm's p50, p99 and CPU
// come, which is to be within so many per cent. Progress is told the part that is done.
func Agree(ctx context.Context, e *report.Experiment, within float64, progress func(part float64)) (*report.Agreement, error) {
	t, err := newTwin(e)
	if err != nil {
		return nil, err
	}
	if t.overhead, err = t.overheadOf(e); err != nil {
		return nil, err
	}
	result := &report.Agreement{
		Scenario: e.Scenario, OverheadMS: 1000 * t.overhead, WithinPercent: within, Runs: twinRuns,
		Conditions: []string{
			e.Conditions(),
			fmt.Sprintf("simulated with %s ms added to every request, which is how much later than their cost the quickest tenth was answered", report.Number(1000*t.overhead)),
			fmt.Sprintf("medians of %d simulated experiments", twinRuns),
		},
	}
	for i := range e.Arms {
		a := &e.Arms[i]
		simulated, err := t.median(ctx, a.Name, func(part float64) { progress((float64(i) + part) / float64(len(e.Arms))) })
		if err != nil {
			return nil, err
		}
		result.Arms = append(result.Arms, beside(a, simulated, within))
	}
	return result, nil
}

// median is the median of several simulated experiments.
func (t *twin) median(ctx context.Context, arm string, progress func(part float64)) (*report.Arm, error) {
	chance := random.New(t.options.Seed)
	var all report.Arm
	for n := range twinRuns {
		one, err := t.run(ctx, arm, chance.Next())
		if err != nil {
			return nil, err
		}
		all.Rounds = append(all.Rounds, report.Round{P50: one.P50, P99: one.P99, CPU: one.CPU})
		progress(float64(n+1) / twinRuns)
	}
	all.Conclude()
	return &all, nil
}

// beside puts an arm's figures side by side.
func beside(measured, simulated *report.Arm, within float64) report.AgreementOf {
	of := report.AgreementOf{Name: measured.Name}
	for _, f := range []struct {
		name, unit          string
		measured, simulated float64
		round               func(report.Round) float64
	}{
		{"p50", "ms", measured.P50, simulated.P50, func(r report.Round) float64 { return r.P50 }},
		{"p99", "ms", measured.P99, simulated.P99, func(r report.Round) float64 { return r.P99 }},
		{"CPU", "cores", measured.CPU, simulated.CPU, func(r report.Round) float64 { return r.CPU }},
	} {
		figure := report.AgreementFigure{
			Name: f.name, Unit: f.unit, Measured: f.measured, Low: f.measured, High: f.measured,
			Simulated: f.simulated, Ratio: f.simulated / f.measured,
		}
		for _, r := range measured.Rounds {
			figure.Low, figure.High = min(figure.Low, f.round(r)), max(figure.High, f.round(r))
		}
		figure.Within = math.Abs(figure.Ratio-1) <= within/100
		of.Figures = append(of.Figures, figure)
	}
	return of
}

// overheadOf is what the machine adds to a request, in seconds, as far as it is the same
// for all of them. The quickest tenth of the requests met hardly any others: they took
// what they cost, and what they took beyond that is overhead. It is taken from the arm that
// shows the least, for what queues add is in it as well. No other figure of the
// measurement is used.
func (t *twin) overheadOf(e *report.Experiment) (float64, error) {
	least := math.Inf(1)
	for _, a := range e.Arms {
		for _, p := range a.Percentiles {
			if p.Quantile < quickest || p.Quantile > 2*quickest {
				continue
			}
			least = min(least, p.Latency/1000-t.cost(&a, p.Quantile))
			break
		}
	}
	if math.IsInf(least, 1) {
		return 0, errors.New("no arm has a latency curve that begins with its quickest tenth: its percentiles are missing")
	}
	return max(0, least), nil
}

// quickest is the part of the requests that the overhead is read from.
const quickest = 0.1

// cost is what a part q of an arm's requests did not cost more than, in seconds of CPU.
func (t *twin) cost(a *report.Arm, q float64) float64 {
	var all float64
	for _, e := range a.Endpoints {
		all += e.Requests
	}
	low, high := 0.0, 10.0
	for range 50 {
		middle := (low + high) / 2
		var part float64
		for i, e := range a.Endpoints {
			mean, spread := emulated.Demand(t.members[i].Fib)
			above := math.Log(middle/mean)/spread + spread/2
			part += e.Requests / all * 0.5 * math.Erfc(-above/math.Sqrt2)
		}
		if part < q {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
