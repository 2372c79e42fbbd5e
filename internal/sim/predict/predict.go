package predict

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/sim/policy"
)

// Names of the arms that are no strategy of package balance.
const (
	Today      = "today"
	AllKnowing = "all-knowing"
)

// Options say how to predict. Start from [DefaultOptions].
type Options struct {
	// Draws is how many services are simulated.
	Draws int
	// Sigma is the deviation of the logarithm of what requests cost, where today's latency
	// does not tell it.
	Sigma float64
	Seed  uint64

	// requests of a run, where it is not the size of the service that says.
	requests int
}

// DefaultOptions gives intervals that hold the truth 9 times of 10 and differ little from
// seed to seed.
func DefaultOptions() Options {
	return Options{Draws: 20, Sigma: 0.8, Seed: 1}
}

// Validate reports the first option that is out of its bounds.
func (o Options) Validate() error {
	if o.Draws < 10 || o.Draws > 1000 {
		return fmt.Errorf("%d draws: it takes 10, for the ends of an interval, to 1000", o.Draws)
	}
	if !(o.Sigma >= 0 && o.Sigma <= mostSigma) {
		return fmt.Errorf("sigma is %g: it takes 0, where all requests cost the same, to %g", o.Sigma, mostSigma)
	}
	return nil
}

// Progress is how far a prediction is.
type Progress struct {
	Doing string
	// Done is in 0..1.
	Done float64
}

// Predict says what each way to balance would make of the service. It fails when the
// observation does not carry a prediction, saying what it lacks, and when the context ends.
func Predict(ctx context.Context, s *Service, o Options, progress func(Progress)) (*report.Prediction, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	usable, err := s.usable()
	if err != nil {
		return nil, err
	}
	observed := usable.observe()
	if err := observed.suffices(); err != nil {
		return nil, err
	}
	p := &prediction{options: o, observation: observed, given: s, progress: progress}
	if p.arms, err = p.chooseArms(); err != nil {
		return nil, err
	}
	if err := p.fits(); err != nil {
		return nil, err
	}
	if p.hidden, err = p.calibrate(ctx); err != nil {
		return nil, err
	}
	if err := p.simulate(ctx); err != nil {
		return nil, err
	}
	return p.report(), nil
}

// suffices tells what is not known that has to be.
func (o *observation) suffices() error {
	n, known := len(o.Endpoints), len(o.central.measured())
	switch {
	case known == 0:
		return fmt.Errorf("service %q: nothing tells what requests cost: it takes CPU with request rates, requests in flight with request rates, or CPU alone", o.Name)
	case float64(known) < o.Policy.Coverage*float64(n):
		return fmt.Errorf("service %q: what requests cost is known of %d of %d endpoints: it takes %.0f %%", o.Name, known, n, 100*o.Policy.Coverage)
	}
	var rate float64
	for _, r := range o.rates {
		rate += r
	}
	if !(rate > 0) {
		return fmt.Errorf("service %q served no requests while it was observed", o.Name)
	}
	return nil
}

// arm is a way to balance.
type arm struct {
	name string
	kind policy.Kind
	// strategy is empty for an arm without weights.
	strategy balance.Strategy
}

// chooseArms lists today's way first, then each strategy with it, then the bound.
func (p *prediction) chooseArms() ([]arm, error) {
	today, err := policy.Find(p.choice())
	if err != nil {
		return nil, err
	}
	bound, err := policy.Find(AllKnowing)
	if err != nil {
		return nil, err
	}
	arms := []arm{{name: Today, kind: today}}
	for _, strategy := range balance.Strategies {
		arms = append(arms, arm{name: string(strategy), kind: today, strategy: strategy})
	}
	if len(p.Endpoints) <= boundEndpoints {
		arms = append(arms, arm{name: AllKnowing, kind: bound})
	}
	return arms, nil
}

const (
	// defaultChoice is what proxies are taken to do where nobody says.
	defaultChoice = "least-request"
	// boundEndpoints is for how many endpoints the all-knowing arm is worth its time: it
	// looks at all of them for each request.
	boundEndpoints = 300
)

func (p *prediction) choice() string {
	if p.Choice == "" {
		return defaultChoice
	}
	return p.Choice
}

// prediction is one in the making.
type prediction struct {
	options Options
	*observation
	// given is the service before windows were left out.
	given    *Service
	arms     []arm
	hidden   hidden
	progress func(Progress)

	mu   sync.Mutex
	done int // runs
	// draws and outcomes have the same order; outcomes are by arm.
	draws    []draw
	outcomes [][]outcome
}

// outcome is what came of one run.
type outcome struct {
	p50, p99, cpu float64 // milliseconds and cores
	saturated     bool
}

// Sizes of a run, in requests.
const (
	fewRequests         = 100_000
	requestsPerEndpoint = 500
)

// requests is how many a run simulates: enough for the tail of the whole, and for each
// endpoint to have its queue.
func (p *prediction) requests() int {
	if p.options.requests > 0 {
		return p.options.requests
	}
	return max(fewRequests, requestsPerEndpoint*len(p.Endpoints))
}

// mostMemory is what one simulation may take for what its proxies know, in bytes. As many
// run at once as there are cores.
const mostMemory = 512 << 20

// parallel is how many runs there are at once.
func (p *prediction) parallel() int { return min(runtime.GOMAXPROCS(0), p.options.Draws) }

// fits tells when the simulations would take more memory than they may.
func (p *prediction) fits() error {
	proxies := p.Proxies
	if proxies == 0 {
		proxies = manyProxies
	}
	var most int64
	for _, a := range p.arms {
		n, k := int64(len(p.Endpoints)), a.kind
		most = max(most, int64(proxies)*(n*int64(k.BytesPerPair)+int64(k.BytesPerProxy))+n*int64(k.BytesPerServer))
	}
	if most > mostMemory {
		return fmt.Errorf("%d proxies that each know %d endpoints by %s take %d MiB to simulate, and may take %d: predict with fewer proxies",
			proxies, len(p.Endpoints), p.choice(), most>>20, int64(mostMemory)>>20)
	}
	return nil
}

// simulate runs every arm for each draw.
func (p *prediction) simulate(ctx context.Context) error {
	chance := random.New(p.options.Seed)
	n := p.options.Draws
	p.draws, p.outcomes = make([]draw, n), make([][]outcome, n)
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = chance.Next()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.parallel())
	for i := range seeds {
		group.Go(func() (err error) {
			if p.draws[i], err = p.conditioned(ctx, seeds[i]); err != nil {
				return err
			}
			p.outcomes[i], err = p.everyArm(ctx, &p.draws[i])
			return err
		})
	}
	return group.Wait()
}

// everyArm simulates a draw under all arms. What today lacks to the median that was
// measured is overhead, which all arms have.
func (p *prediction) everyArm(ctx context.Context, d *draw) (outcomes []outcome, err error) {
	outcomes = make([]outcome, len(p.arms))
	for k, a := range p.arms {
		if outcomes[k], err = p.run(ctx, d, a); err != nil {
			return nil, err
		}
		if fit := p.hidden.fit; fit != nil && k == 0 {
			more := max(fit.MeasuredP50-outcomes[0].p50, -1000*d.overhead)
			d.overhead += more / 1000
			outcomes[0].p50 += more
			outcomes[0].p99 += more
		}
		p.ran(p.options.Draws * len(p.arms))
	}
	return outcomes, nil
}

// ran tells of one more run.
func (p *prediction) ran(of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.progress(Progress{Doing: "simulating services like this one", Done: min(1, float64(p.done)/float64(of))})
}
