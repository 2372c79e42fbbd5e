package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/apply/eds"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/fleet/emulated"
	"taper.dev/taper/internal/lab/fleet/nginx"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/proxy"
	"taper.dev/taper/internal/lab/store"
	"taper.dev/taper/internal/lab/store/embedded"
	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source"
	"taper.dev/taper/internal/source/promql"
	"taper.dev/taper/internal/standalone"
)

// readyWithin is how long servers may take to be ready, on a busy machine.
const readyWithin = 60 * time.Second

// equalWeight is the weight of every endpoint in an arm without a loop. Envoy
// chooses between two by requests in flight when weights are equal.
const equalWeight = 1

// testbed is everything that runs while the experiment does.
type testbed struct {
	options Options
	logger  *slog.Logger
	dir     string
	fleet   fleet.Fleet
	source  source.Source
	eds     *eds.Server
	proxies *proxy.Group

	closers  []func()
	failOnce sync.Once
	failed   chan struct{} // closed when a server ended by itself
	failure  error         // why; readable once failed is closed
}

// startTestbed starts the endpoints, the store that watches them, taper's EDS
// server and the proxies. What was started is stopped again if a part fails.
func startTestbed(ctx context.Context, o Options, logger *slog.Logger) (*testbed, error) {
	bed := &testbed{options: o, logger: logger, failed: make(chan struct{})}
	if err := bed.start(ctx); err != nil {
		bed.Close()
		return nil, err
	}
	return bed, nil
}

func (bed *testbed) start(ctx context.Context) error {
	// The binary is looked up before anything is started: it is what is most often
	// missing.
	envoy, err := process.Lookup(bed.options.Envoy, `run "make tools", or name it with --envoy`)
	if err != nil {
		return err
	}
	if bed.dir, err = os.MkdirTemp("", "taper-lab-"); err != nil {
		return fmt.Errorf("making a folder for the servers: %w", err)
	}
	bed.onClose(func() { os.RemoveAll(bed.dir) })
	if err := bed.startFleet(ctx); err != nil {
		return err
	}
	if err := bed.startStore(ctx); err != nil {
		return err
	}
	if err := bed.startEDS(); err != nil {
		return err
	}
	return bed.startProxies(ctx, envoy)
}

func (bed *testbed) startProxies(ctx context.Context, envoy string) (err error) {
	arms := make([]proxy.Arm, len(bed.options.Arms))
	for i, name := range bed.options.Arms {
		arms[i] = proxy.Arm{Name: name, Policy: proxy.LeastRequest}
		if name == RoundRobin {
			arms[i].Policy = proxy.RoundRobin
		}
	}
	bed.proxies, err = proxy.Start(ctx, proxy.Config{
		Binary: envoy, Count: bed.options.Proxies, EDS: bed.eds.Addr(), Arms: arms, Dir: filepath.Join(bed.dir, "envoy"),
	})
	if err != nil {
		return err
	}
	bed.onClose(func() { bed.proxies.Close() })
	return nil
}

func (bed *testbed) onClose(f func()) { bed.closers = append(bed.closers, f) }

// Close stops everything, the last started first, and returns when it has ended.
func (bed *testbed) Close() {
	for _, f := range slices.Backward(bed.closers) {
		f()
	}
	bed.closers = nil
}

func (bed *testbed) startFleet(ctx context.Context) (err error) {
	if bed.options.Endpoints == Nginx {
		bed.fleet, err = nginx.Start(ctx, fleet.Fibonacci(), nginx.Options{Binary: bed.options.NginxBinary, Dir: filepath.Join(bed.dir, "nginx")})
	} else {
		bed.fleet, err = emulated.Start(fleet.Fibonacci(), emulated.Options{Seed: bed.options.Seed})
	}
	if err != nil {
		return err
	}
	bed.onClose(func() { bed.fleet.Close() })
	return nil
}

// startStore scrapes the fleet and opens the source that asks the store.
func (bed *testbed) startStore(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the store's scrapes: %w", err)
	}
	server := &http.Server{Handler: exporter.New(bed.fleet), ReadHeaderTimeout: 5 * time.Second}
	bed.serve("exporter", func() error { return server.Serve(listener) }, func() { server.Close() })

	target := "http://" + listener.Addr().String() + "/metrics"
	every := bed.options.Interval / 6
	var s store.Store
	if bed.options.Store == VictoriaMetrics {
		s, err = victoriametrics.Start(ctx, victoriametrics.Config{Targets: []string{target}, ScrapeEvery: every})
	} else {
		s, err = embedded.Start(embedded.Config{Targets: []string{target}, ScrapeEvery: every, Retention: 20 * bed.options.Interval})
	}
	if err != nil {
		return err
	}
	bed.onClose(func() { s.Close() })
	bed.source, err = promql.New(promql.Config{
		URL: s.URL(), Label: "pod", Window: bed.options.Interval,
		CPU:      promql.Metric{Selector: fmt.Sprintf(`container_cpu_usage_seconds_total{namespace=%q}`, exporter.Namespace)},
		Requests: promql.Metric{Selector: fmt.Sprintf(`istio_requests_total{reporter="destination",destination_service_name=%q}`, exporter.Service)},
	})
	return err
}

func (bed *testbed) startEDS() (err error) {
	if bed.eds, err = eds.Listen("127.0.0.1:0", bed.logger); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	bed.serve("EDS server", func() error { return bed.eds.Serve(ctx) }, cancel)
	return nil
}

// serve runs a server of this process until stop is called, at Close. One that
// ends before fails the experiment.
func (bed *testbed) serve(name string, run func() error, stop func()) {
	ended := make(chan error, 1)
	stopping := make(chan struct{})
	go func() {
		err := run()
		ended <- err
		select {
		case <-stopping:
		default:
			bed.failOnce.Do(func() {
				bed.failure = fmt.Errorf("the %s ended: %w", name, err)
				close(bed.failed)
			})
		}
	}()
	bed.onClose(func() {
		close(stopping)
		stop()
		<-ended
	})
}

// Failure says which server ended by itself, and why; nil while all is well.
func (bed *testbed) Failure() error {
	select {
	case <-bed.failed:
		return bed.failure
	default:
		return bed.proxies.Err()
	}
}

// newArm prepares one way to balance.
func (bed *testbed) newArm(name string) *arm {
	a := &arm{name: name, weights: model.Weights{}, why: map[string]string{}}
	endpoints := bed.endpoints()
	for _, e := range endpoints {
		a.weights[e.Address] = equalWeight
	}
	if !controlled(name) {
		return a
	}
	policy := balance.DefaultPolicy(bed.options.Interval)
	policy.Strategy = balance.Strategy(name)
	a.controller = &standalone.Controller{
		Services:     []standalone.Service{{Name: name, Members: standalone.Static(endpoints), Policy: policy, Source: bed.source}},
		Interval:     bed.options.Interval,
		MembersEvery: bed.options.Interval,
		Applier:      bed.eds,
		Logger:       bed.logger.With("arm", name),
		OnDecision:   a.record,
	}
	return a
}

func (bed *testbed) endpoints() []model.Endpoint {
	members := bed.fleet.Members()
	endpoints := make([]model.Endpoint, len(members))
	for i, m := range members {
		endpoints[i] = m.Endpoint
	}
	return endpoints
}

// admit gives every arm equal weights to begin with and waits until every proxy
// has them.
func (bed *testbed) admit(ctx context.Context, arms []*arm) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	endpoints := bed.endpoints()
	for _, a := range arms {
		if err := bed.eds.Apply(ctx, apply.Assignment{Service: a.name, Endpoints: endpoints, Weights: a.weights}); err != nil {
			return err
		}
	}
	for _, a := range arms {
		if err := bed.proxies.AwaitEndpoints(ctx, a.name, len(endpoints)); err != nil {
			return errors.Join(fmt.Errorf("waiting for the proxies to take the endpoints of %s: %w", a.name, err), bed.proxies.Err())
		}
	}
	return nil
}
