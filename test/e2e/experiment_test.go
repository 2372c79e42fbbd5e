//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	discoveryv1 "k8s.io/api/discovery/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/apply/eds"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/promql"
	"taper.dev/taper/internal/standalone"
	"taper.dev/taper/test/cluster"
)

const (
	// experimentRate is the published load, which needs ten of the thirty emulated cores.
	experimentRate = 1500
	// experimentEnvoys is the number of clients on either way.
	experimentEnvoys = 8
	measureFor       = 10 * time.Second
	// settleFor lets the queues of the arm before drain.
	settleFor = 2 * time.Second
	// goldenRatio is by how much a Fibonacci number costs more than the one before it.
	goldenRatio = 1.618
	// alikeWithin is how far a ratio through istiod may be from the same by EDS.
	alikeWithin = 0.10
)

// contender is one way to balance, on one of the two ways to the Envoys.
type contender struct {
	way, name string
	envoys    *proxy.Group
	host      string
	cluster   string

	latency  *hdrhistogram.Histogram
	cpu      float64 // core-seconds
	requests uint64
	seconds  float64
}

func (c *contender) p(percentile float64) float64 {
	return float64(c.latency.ValueAtPercentile(percentile)) / 1000
}

// cores is the CPU that the endpoints used, on average.
func (c *contender) cores() float64 { return c.cpu / c.seconds }

// The published experiment, through istiod and the operator, comes to the same ratios as
// through taper's own EDS server. Both ways have their own Envoys and share all else:
// endpoints, store, load. They take turns, so that what the machine does to one it does
// to the other.
//
// What requests cost is compared wherever the test runs. How long they take is compared
// where it can be, which is on a machine with nothing else to do: see make
// bench-experiment.
func TestFibonacciThroughIstiod(t *testing.T) {
	compared := map[string]func(*contender) float64{"cpu": (*contender).cores}
	rounds := 1
	if os.Getenv("TAPER_TEST_QUIET") != "" {
		compared["p50"] = func(c *contender) float64 { return c.p(50) }
		compared["p99"] = func(c *contender) float64 { return c.p(99) }
		rounds = 3
	}
	b := startBed(t, 1, fibonacci())
	contenders := append(b.throughIstiod(t), b.throughEDS(t)...)
	e := &comparison{bed: b, contenders: contenders}
	e.warmUp(t)
	for round := range rounds {
		for i := range contenders {
			e.turn(t, contenders[(i+round)%len(contenders)], uint64(round))
		}
	}
	e.report(t)
	e.compareWeights(t)
	for _, name := range []string{"equal-load", "least-latency"} {
		for quantity, of := range compared {
			e.compare(t, name, quantity, of)
		}
	}
}

// fibonacci are the endpoints of the published experiment, at addresses that an
// EndpointSlice takes.
func fibonacci() []fleet.Member {
	var numbers []int
	for _, m := range fleet.Fibonacci() {
		numbers = append(numbers, m.Fib)
	}
	return members(numbers...)
}

// throughIstiod has three services with the same pods: without a policy, and with one of
// each strategy.
func (b *bed) throughIstiod(t *testing.T) []*contender {
	t.Helper()
	list := []*contender{{way: "istiod", name: "least-request"}, {way: "istiod", name: "equal-load"}, {way: "istiod", name: "least-latency"}}
	strategies := map[string]v1alpha1.Strategy{"equal-load": v1alpha1.EqualLoad, "least-latency": v1alpha1.LeastLatency}
	var arms []proxy.Arm
	for _, c := range list {
		s := cluster.Service(namespace, c.name, 8080)
		s.Spec.Selector = b.service.Spec.Selector
		must(t, b.Create(t.Context(), s, cluster.EndpointSlice(s, discoveryv1.AddressTypeIPv4, b.pods...)))
		a := cluster.Outbound(namespace, c.name, 8080)
		c.host, c.cluster = a.Name, a.Cluster
		arms = append(arms, a)
		if strategy, ok := strategies[c.name]; ok {
			policy := b.policy(c.name, v1alpha1.Enforce)
			policy.Spec.TargetRef.Name, policy.Spec.Strategy = c.name, strategy
			must(t, b.Create(t.Context(), policy))
		}
	}
	group, err := b.istiod.StartEnvoys(t.Context(), cluster.Envoys{Name: "experiment", Namespace: namespace, Count: experimentEnvoys, Arms: arms})
	must(t, err)
	for _, c := range list {
		c.envoys = group
		must(t, group.AwaitEndpoints(t.Context(), c.cluster, len(b.pods)))
	}
	startOperator(t, b.Cluster, "operator", cluster.Admin)
	return list
}

// throughEDS has the same three by taper's own loop, as the lab runs them.
func (b *bed) throughEDS(t *testing.T) []*contender {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	server, err := eds.Listen("127.0.0.1:0", logger)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Serve(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the EDS server: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	source, err := promql.New(promql.Config{
		URL: b.store.URL(), Window: window,
		CPU:      promql.Metric{Selector: fmt.Sprintf("container_cpu_usage_seconds_total{namespace=%q}", exporter.Namespace)},
		Requests: promql.Metric{Selector: fmt.Sprintf("istio_requests_total{reporter=\"destination\",destination_service_name=%q}", exporter.Service)},
	})
	must(t, err)
	var endpoints []model.Endpoint
	equal := model.Weights{}
	for _, m := range b.fleet.Members() {
		endpoints, equal[m.Address] = append(endpoints, m.Endpoint), 1
	}
	loop := &standalone.Controller{Interval: interval, MembersEvery: interval, Applier: server, Logger: logger}
	var list []*contender
	var arms []proxy.Arm
	for _, name := range []string{"least-request", "equal-load", "least-latency"} {
		must(t, server.Apply(ctx, apply.Assignment{Service: name, Endpoints: endpoints, Weights: equal}))
		list = append(list, &contender{way: "EDS", name: name, host: name, cluster: name})
		arms = append(arms, proxy.Arm{Name: name, Policy: proxy.LeastRequest})
		if name != "least-request" {
			policy := balance.DefaultPolicy(interval)
			policy.Strategy = balance.Strategy(name)
			loop.Services = append(loop.Services, standalone.Service{Name: name, Members: standalone.Static(endpoints), Policy: policy, Source: source})
		}
	}
	binary, err := process.Lookup("envoy", "run \"tools/fetch.sh envoy\"")
	must(t, err)
	dir := filepath.Join(b.Dir(), "eds")
	must(t, os.Mkdir(dir, 0o755))
	group, err := proxy.Start(t.Context(), proxy.Config{Binary: binary, Count: experimentEnvoys, EDS: server.Addr(), Arms: arms, Dir: dir})
	must(t, err)
	t.Cleanup(func() { group.Close() })
	for _, c := range list {
		c.envoys = group
		must(t, group.AwaitEndpoints(t.Context(), c.cluster, len(endpoints)))
	}
	running.Go(func() { _ = loop.Run(ctx) }) // always nil: it ends with its context
	return list
}

// comparison runs contenders in turns.
type comparison struct {
	*bed
	contenders []*contender
}

// warmUp lets all of the loops learn from the same requests, until weights have been
// moved for some intervals.
func (e *comparison) warmUp(t *testing.T) {
	t.Helper()
	g := e.load(t, e.contenders[0], 1000)
	defer g.Stop()
	for _, c := range e.contenders {
		if c.name == "least-request" {
			continue
		}
		slow := e.fleet.Members()[14].Address
		eventually(t, withinDefault, c.way+" balances by "+c.name, func(ctx context.Context) error {
			all, err := c.envoys.Weights(ctx, c.cluster)
			if err != nil {
				return err
			}
			for i, w := range all {
				if share := w.Shares()[slow]; share > 0.5/15 {
					return fmt.Errorf("Envoy %d gives the slowest endpoint a share of %.3f", i, share)
				}
			}
			return nil
		})
	}
	pause(t, 3*interval)
}

// pause lets time pass that is a part of what is measured.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.FailNow()
	}
}

func (e *comparison) load(t *testing.T, c *contender, seed uint64) *load.Generator {
	t.Helper()
	g, err := load.Start(t.Context(), load.Plan{
		Targets: c.envoys.Addresses(), Host: c.host, Path: "/", Rate: experimentRate,
		// The same seed for all in a round: they see the same arrivals.
		Seed: 1 + seed, Timeout: 30 * time.Second, MaxInFlight: 4000,
	})
	must(t, err)
	return g
}

// turn measures one contender once.
func (e *comparison) turn(t *testing.T, c *contender, round uint64) {
	t.Helper()
	g := e.load(t, c, round)
	defer g.Stop()
	pause(t, settleFor)
	before, err := e.fleet.Usage(t.Context())
	must(t, err)
	m, err := g.Measure(t.Context(), measureFor)
	must(t, err)
	after, err := e.fleet.Usage(t.Context())
	must(t, err)
	if m.Errors > 0 {
		t.Errorf("%s through %s: %d of %d requests failed: %s", c.name, c.way, m.Errors, m.Requests, m.FirstError)
	}
	cores := 0.0
	for i := range before {
		cores += coresBetween(before[i], after[i])
	}
	seconds := after[0].At.Sub(before[0].At).Seconds()
	t.Logf("round %d: %-13s through %-6s p50 %5.2f ms, p99 %6.2f ms, %5.2f cores", round+1, c.name, c.way,
		float64(m.Latency.ValueAtPercentile(50))/1000, float64(m.Latency.ValueAtPercentile(99))/1000, cores)
	if c.latency == nil {
		c.latency = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	}
	c.latency.Merge(m.Latency)
	c.cpu, c.seconds, c.requests = c.cpu+cores*seconds, c.seconds+seconds, c.requests+m.Requests
}

// find returns a contender.
func (e *comparison) find(way, name string) *contender {
	for _, c := range e.contenders {
		if c.way == way && c.name == name {
			return c
		}
	}
	panic("no " + name + " through " + way)
}

// ratio is what a way to balance comes to, beside least-request on the same way.
func (e *comparison) ratio(way, name string, of func(*contender) float64) float64 {
	return of(e.find(way, name)) / of(e.find(way, "least-request"))
}

func (e *comparison) compare(t *testing.T, name, quantity string, of func(*contender) float64) {
	t.Helper()
	got, want := e.ratio("istiod", name, of), e.ratio("EDS", name, of)
	off := got/want - 1
	t.Logf("%s/least-request %s: %.3f through istiod, %.3f through EDS: %+.1f %%", name, quantity, got, want, 100*off)
	if !(math.Abs(off) <= alikeWithin) {
		t.Errorf("%s/least-request: the ratio of %s is %.3f through istiod and %.3f through EDS: %+.1f %%, want at most %.0f %% between them",
			name, quantity, got, want, 100*off, 100*alikeWithin)
	}
}

func (e *comparison) report(t *testing.T) {
	for _, c := range e.contenders {
		t.Logf("%-13s through %-6s: %d requests, p50 %5.2f ms, p99 %6.2f ms, %5.2f cores", c.name, c.way, c.requests, c.p(50), c.p(99), c.cores())
	}
}

// compareWeights wants the operator's weights, which are coarse, to cost no CPU beside
// the fine ones of the loop: by what a request costs at each endpoint, without the noise
// of measuring it.
func (e *comparison) compareWeights(t *testing.T) {
	t.Helper()
	for _, name := range []string{"equal-load", "least-latency"} {
		var cost [2]float64
		for i, way := range []string{"istiod", "EDS"} {
			c := e.find(way, name)
			weights, err := c.envoys.Weights(t.Context(), c.cluster)
			must(t, err)
			shares := weights[0].Shares()
			for _, m := range e.fleet.Members() {
				cost[i] += shares[m.Address] * math.Pow(goldenRatio, float64(m.Fib-25))
			}
			t.Logf("%s through %s: %v", name, way, weights[0])
		}
		off := cost[0]/cost[1] - 1
		t.Logf("%s: by its weights a request costs %+.1f %% through istiod", name, 100*off)
		if math.Abs(off) > 0.05 {
			t.Errorf("%s: by its weights a request costs %+.1f %% through istiod, want at most 5 %% between them", name, 100*off)
		}
	}
}
