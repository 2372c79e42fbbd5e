package store_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/store"
	"taper.dev/taper/internal/lab/store/embedded"
	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/promql"
)

const (
	scrapeEvery = 500 * time.Millisecond
	window      = 2 * time.Second
	settled     = 2*window + time.Second // the window, and what a store buffers
)

// steadyFleet uses CPU and serves requests at constant rates, to the millisecond.
type steadyFleet struct {
	fleet.Fleet
	members []fleet.Member
	started time.Time
	broken  atomic.Bool
}

func newSteadyFleet() *steadyFleet {
	return &steadyFleet{members: fleet.Fibonacci(), started: time.Now()}
}

func cpuRate(i int) float64     { return 0.1 * float64(i+1) }
func requestRate(i int) float64 { return 1000 * float64(i+1) }

func (f *steadyFleet) Members() []fleet.Member { return f.members }

func (f *steadyFleet) Usage(context.Context) ([]fleet.Usage, error) {
	if f.broken.Load() {
		return nil, errors.New("the fleet is broken")
	}
	usages := make([]fleet.Usage, len(f.members))
	for i, m := range f.members {
		at := time.Now()
		seconds := at.Sub(f.started).Seconds()
		usages[i] = fleet.Usage{Address: m.Address, CPUSeconds: cpuRate(i) * seconds, Requests: uint64(requestRate(i) * seconds), At: at}
	}
	return usages, nil
}

func (f *steadyFleet) endpoints() []model.Endpoint {
	endpoints := make([]model.Endpoint, len(f.members))
	for i, m := range f.members {
		endpoints[i] = m.Endpoint
	}
	return endpoints
}

// TestStores holds both stores to the same: rates over a short window are
// right, each reading has its own time, and a target that fails is missing.
func TestStores(t *testing.T) {
	stores := map[string]func(t *testing.T, target string) (store.Store, error){
		"embedded": func(_ *testing.T, target string) (store.Store, error) {
			return embedded.Start(embedded.Config{Targets: []string{target}, ScrapeEvery: scrapeEvery})
		},
		"victoria-metrics": func(t *testing.T, target string) (store.Store, error) {
			needsVictoriaMetrics(t)
			return victoriametrics.Start(t.Context(), victoriametrics.Config{Targets: []string{target}, ScrapeEvery: scrapeEvery})
		},
	}
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSteadyFleet()
			target := httptest.NewServer(exporter.New(f))
			t.Cleanup(target.Close)
			s, err := start(t, target.URL+"/metrics")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			checkStore(t, s, f)
		})
	}
}

func checkStore(t *testing.T, s store.Store, f *steadyFleet) {
	source, err := promql.New(promql.Config{
		URL:      s.URL(),
		Window:   window,
		CPU:      promql.Metric{Selector: `container_cpu_usage_seconds_total{namespace="lab",container="fib",job="taper-lab"}`},
		Requests: promql.Metric{Selector: `istio_requests_total{reporter="destination",destination_service_name="fib"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(settled)
	asked := time.Now()
	snapshot, err := source.Collect(t.Context(), f.endpoints())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range f.members {
		sample := snapshot[m.Address]
		checkReading(t, m.Name+" cpu", sample.CPU, cpuRate(i), asked)
		checkReading(t, m.Name+" requests", sample.Requests, requestRate(i), asked)
		if sample.InFlight.Known() {
			t.Errorf("%s: in flight is %v, but nothing measures it", m.Name, sample.InFlight)
		}
	}
	f.broken.Store(true)
	time.Sleep(settled)
	snapshot, err = source.Collect(t.Context(), f.endpoints())
	if err != nil || len(snapshot) != 0 {
		t.Errorf("after %s of failed scrapes: %v, %v; want an empty snapshot", settled, snapshot, err)
	}
}

// checkReading allows for the time between a scrape's stamp and its counters.
func checkReading(t *testing.T, name string, r model.Reading, want float64, asked time.Time) {
	t.Helper()
	if math.Abs(r.Value/want-1) > 0.1 {
		t.Errorf("%s: %v, want %v within 10 %%", name, r.Value, want)
	}
	if age := asked.Sub(r.At); age < -scrapeEvery || age > window {
		t.Errorf("%s: measured %s before the question, want the time of a recent scrape", name, age)
	}
}

// TestClose sees that nothing answers or scrapes once a store is closed.
func TestClose(t *testing.T) {
	needsVictoriaMetrics(t)
	var scrapes atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		scrapes.Add(1)
		io.WriteString(w, "up_to_date 1\n")
	}))
	defer target.Close()
	one, err := embedded.Start(embedded.Config{Targets: []string{target.URL}, ScrapeEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	other, err := victoriametrics.Start(t.Context(), victoriametrics.Config{Targets: []string{target.URL + "/"}, ScrapeEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []store.Store{one, other} {
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("%T: %v", s, err)
			}
		}
		if resp, err := http.Get(s.URL()); err == nil {
			resp.Body.Close()
			t.Errorf("%T answers after Close", s)
		}
	}
	before := scrapes.Load()
	if before == 0 {
		t.Error("nothing was scraped")
	}
	time.Sleep(150 * time.Millisecond)
	if after := scrapes.Load(); after != before {
		t.Errorf("%d scrapes after Close", after-before)
	}
}

func needsVictoriaMetrics(t *testing.T) {
	t.Helper()
	for _, name := range []string{"victoria-metrics", "victoria-metrics-prod"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	const message = "victoria-metrics is not in PATH; install it with apt-get install victoria-metrics"
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatal(message)
	}
	t.Skip(message)
}
