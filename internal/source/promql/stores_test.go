package promql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/promql"
)

// sample is a value some seconds before the question.
type sample struct {
	ago   int
	value float64
}

// line is a counter that rises by rate a second, with a sample every ten seconds.
func line(rate float64, from, to int) (samples []sample) {
	for ago := from; ago >= to; ago -= 10 {
		samples = append(samples, sample{ago, 1000 + rate*float64(305-ago)})
	}
	return samples
}

func cadvisor(namespace, pod, container string) string {
	return fmt.Sprintf(`container_cpu_usage_seconds_total{namespace=%q,pod=%q,container=%q,image="i",id="/%s/%s"}`, namespace, pod, container, pod, container)
}

func istio(metric, pod, code string) string {
	return fmt.Sprintf(`%s{namespace="shop",pod=%q,reporter="destination",response_code=%q}`, metric, pod, code)
}

// fixture is what was scraped of a small cluster in the last minutes.
var fixture = map[string][]sample{
	// Everything that cAdvisor and the kubelet have of a pod, of which 0.5 + 0.25
	// cores are its own.
	cadvisor("shop", "web-1", "web"):                                                                      line(0.5, 305, 5),
	cadvisor("shop", "web-1", "helper"):                                                                   line(0.25, 297, 7),
	cadvisor("shop", "web-1", "istio-proxy"):                                                              line(3, 305, 5),
	cadvisor("shop", "web-1", "POD"):                                                                      line(3, 305, 5),
	`container_cpu_usage_seconds_total{namespace="shop",pod="web-1",id="/pod"}`:                           line(6.75, 305, 5),
	`container_cpu_usage_seconds_total{namespace="shop",pod="web-1",image="pause",id="/pause"}`:           line(3, 305, 5),
	`container_cpu_usage_seconds_total{namespace="shop",pod="web-1",container="web"}`:                     line(0.5, 305, 5),
	`container_cpu_usage_seconds_total{namespace="shop",pod="web-1",container="web",reporter="not ours"}`: line(0.5, 305, 5),

	cadvisor("bank", "web-1", "web"):   line(2, 305, 5),   // another pod of that name
	cadvisor("other", "web-1", "web"):  line(100, 305, 5), // not asked for
	cadvisor("shop", "gone-1", "web"):  line(1, 305, 125), // not scraped for two minutes
	cadvisor("shop", "new-1", "web"):   line(1, 5, 5),     // scraped once
	cadvisor("shop", "again-1", "old"): line(1, 305, 185), // ended, and started as another
	cadvisor("shop", "again-1", "web"): line(1.5, 175, 5),
	cadvisor("shop", "ended-1", "web"): append(line(1, 305, 45), sample{35, math.Float64frombits(value.StaleNaN)}),

	istio("istio_requests_total", "web-1", "200"):                          line(40, 305, 5),
	istio("istio_requests_total", "web-1", "503"):                          line(2, 305, 5),
	istio("istio_request_duration_milliseconds_sum", "web-1", "200"):       line(3000, 305, 5),
	`istio_requests_total{namespace="shop",pod="web-1",reporter="source"}`: line(500, 305, 5),

	`load{namespace="shop",pod="web-1"}`:  {{25, 2}, {15, 4}, {5, 6}},
	`load{namespace="shop",pod="gone-1"}`: {{25, 2}, {15, math.NaN()}, {5, math.NaN()}},
}

// endpointsOf are pods by namespace/name, which is their address here.
func endpointsOf(names ...string) (all []model.Endpoint) {
	for _, n := range names {
		all = append(all, model.Endpoint{Address: n, Name: n})
	}
	return all
}

// TestStores asks both real query engines the same and expects the same of them,
// apart from what the comments name.
func TestStores(t *testing.T) {
	for name, start := range map[string]func(*testing.T, time.Time) string{"prometheus": startPrometheus, "victoria-metrics": startVictoriaMetrics} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isVM := name == "victoria-metrics"
			now := time.Now().Truncate(time.Millisecond)
			url := start(t, now)
			t.Run("cluster", func(t *testing.T) { checkCluster(t, url, now, !isVM) })
			t.Run("many namespaces", func(t *testing.T) { checkMany(t, url, now) })
			t.Run("gauge", func(t *testing.T) { checkGauge(t, url, now, isVM) })
			t.Run("value", func(t *testing.T) { checkValue(t, url) })
		})
	}
}

// checkCluster is about the defaults. A series that ended with a marker of staleness
// has no newest sample; VictoriaMetrics was given none, and dates its last one.
func checkCluster(t *testing.T, url string, now time.Time, marked bool) {
	s, err := promql.New(promql.Config{
		URL: url, NamespaceLabel: "namespace", Window: time.Minute,
		CPU: promql.ClusterCPU, Requests: promql.ClusterRequests, InFlight: promql.ClusterInFlight,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Collect(t.Context(), endpointsOf("shop/web-1", "bank/web-1", "shop/gone-1", "shop/new-1", "shop/again-1", "shop/ended-1", "shop/never-1"))
	if err != nil {
		t.Fatal(err)
	}
	newest := now.Add(-5 * time.Second)
	check(t, got, "shop/web-1", model.Sample{CPU: model.Reading{Value: 0.75, At: newest}, Requests: model.Reading{Value: 42, At: newest}, InFlight: model.Reading{Value: 3, At: newest}})
	check(t, got, "bank/web-1", model.Sample{CPU: model.Reading{Value: 2, At: newest}})
	check(t, got, "shop/again-1", model.Sample{CPU: model.Reading{Value: 1.5, At: newest}})
	var ended model.Sample
	if !marked {
		ended.CPU = model.Reading{Value: 1, At: now.Add(-45 * time.Second)}
	}
	check(t, got, "shop/ended-1", ended)
	for _, missing := range []string{"shop/gone-1", "shop/new-1", "shop/never-1", "other/web-1"} {
		if reading, ok := got[missing]; ok {
			t.Errorf("%s has %v; want it missing", missing, reading)
		}
	}
}

// checkMany asks for pods of so many namespaces that the query is as long as it may
// be, and of more.
func checkMany(t *testing.T, url string, now time.Time) {
	s, err := promql.New(promql.Config{URL: url, NamespaceLabel: "namespace", Window: time.Minute, CPU: promql.ClusterCPU})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{400, 2000} {
		all := endpointsOf("shop/web-1", "bank/web-1")
		for i := range n {
			all = append(all, endpointsOf(fmt.Sprintf("namespace-%05d/web-1", i))...)
		}
		got, err := s.Collect(t.Context(), all)
		if err != nil || len(got) != 2 {
			t.Errorf("%d namespaces: %v, %v; want two pods", n, got, err)
		}
		check(t, got, "bank/web-1", model.Sample{CPU: model.Reading{Value: 2, At: now.Add(-5 * time.Second)}})
	}
}

// checkGauge is about means and NaN: Prometheus hands NaN on, VictoriaMetrics leaves
// such samples out.
func checkGauge(t *testing.T, url string, now time.Time, skipsNaN bool) {
	s, err := promql.New(promql.Config{
		URL: url, NamespaceLabel: "namespace", Window: 30 * time.Second,
		InFlight: promql.Metric{Selector: "load", Type: promql.Gauge, Scale: 0.5},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Collect(t.Context(), endpointsOf("shop/web-1", "shop/gone-1"))
	if err != nil {
		t.Fatal(err)
	}
	newest := now.Add(-5 * time.Second)
	check(t, got, "shop/web-1", model.Sample{InFlight: model.Reading{Value: 2, At: newest}})
	odd := got["shop/gone-1"].InFlight
	if skipsNaN {
		check(t, got, "shop/gone-1", model.Sample{InFlight: model.Reading{Value: 1, At: now.Add(-25 * time.Second)}})
	} else if !math.IsNaN(odd.Value) || !odd.At.Equal(newest) || odd.Valid() {
		t.Errorf("a pod with NaN has %v; want NaN, which is not valid", odd)
	}
}

func checkValue(t *testing.T, url string) {
	s, err := promql.New(promql.Config{URL: url, Window: time.Minute, CPU: promql.ClusterCPU})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Value(t.Context(), `sum(rate(istio_requests_total{reporter="destination",response_code=~"5.."}[1m])) / sum(rate(istio_requests_total{reporter="destination"}[1m]))`)
	if err != nil || math.Abs(got-2./42) > 0.001 {
		t.Errorf("%g, %v; want 2/42", got, err)
	}
	if got, err := s.Value(t.Context(), `1 + 1`); err != nil || got != 2 {
		t.Errorf("%g, %v; want 2", got, err)
	}
	for query, fails := range map[string]string{`nothing`: "empty", `load`: "has 2 series", `rate(`: "the store answered 4"} {
		if got, err := s.Value(t.Context(), query); err == nil || !strings.Contains(err.Error(), fails) {
			t.Errorf("%s: %g, %v; want an error with %q", query, got, err, fails)
		}
	}
}

// check allows values 2 %, since stores differ in where a window begins, and times
// the millisecond.
func check(t *testing.T, snapshot model.Snapshot, address string, want model.Sample) {
	t.Helper()
	got := snapshot[address]
	for name, pair := range map[string][2]model.Reading{"cpu": {got.CPU, want.CPU}, "requests": {got.Requests, want.Requests}, "in flight": {got.InFlight, want.InFlight}} {
		got, want := pair[0], pair[1]
		if got.Known() != want.Known() || math.Abs(got.Value-want.Value) > 0.02*want.Value || got.At.Sub(want.At).Abs() > time.Millisecond {
			t.Errorf("%s of %s is %v, want %v", name, address, got, want)
		}
	}
}

// startPrometheus serves the fixture by Prometheus's own engine.
func startPrometheus(t *testing.T, now time.Time) string {
	queryable := fixed{now}
	e := engine.NewEngine(engine.EngineOpts{MaxSamples: 100_000, Timeout: 10 * time.Second})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := now
		if asked, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
			at = time.UnixMilli(int64(math.Round(asked * 1000)))
		}
		query, err := e.NewInstantQuery(r.Context(), queryable, nil, r.FormValue("query"), at)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer query.Close()
		result := query.Exec(r.Context())
		if result.Err != nil {
			http.Error(w, result.Err.Error(), http.StatusUnprocessableEntity)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": result.Value.Type(), "result": result.Value}})
	}))
	t.Cleanup(func() {
		server.Close()
		e.Close()
	})
	return server.URL
}

// fixed implements [storage.Queryable] and [storage.Querier] over the fixture.
type fixed struct{ now time.Time }

func (f fixed) Querier(int64, int64) (storage.Querier, error) { return f, nil }

func (f fixed) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
next:
	for text, samples := range fixture {
		series, err := parser.NewParser(parser.Options{}).ParseMetric(text)
		if err != nil {
			return storage.ErrSeriesSet(err)
		}
		for _, m := range matchers {
			if !m.Matches(series.Get(m.Name)) {
				continue next
			}
		}
		list := make([]chunks.Sample, len(samples))
		for i, s := range samples {
			list[i] = point{f.now.Add(-time.Duration(s.ago) * time.Second).UnixMilli(), s.value}
		}
		set.rest = append(set.rest, storage.NewListSeries(series, list))
	}
	return set
}

func (fixed) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (fixed) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (fixed) Close() error { return nil }

// seriesSet implements [storage.SeriesSet] over a slice.
type seriesSet struct {
	current storage.Series
	rest    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.current }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// point implements [chunks.Sample]; t is in Unix milliseconds.
type point struct {
	t int64
	f float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.f }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// startVictoriaMetrics imports the fixture into the real server. The import knows no
// markers of staleness.
func startVictoriaMetrics(t *testing.T, now time.Time) string {
	needsVictoriaMetrics(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "something 1\n") }))
	t.Cleanup(target.Close)
	s, err := victoriametrics.Start(t.Context(), victoriametrics.Config{Targets: []string{target.URL + "/metrics"}, ScrapeEvery: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var body strings.Builder
	for series, samples := range fixture {
		for _, one := range samples {
			fmt.Fprintf(&body, "%s %v %d\n", series, one.value, now.Add(-time.Duration(one.ago)*time.Second).UnixMilli())
		}
	}
	for _, ask := range []struct{ path, body string }{{"/api/v1/import/prometheus", body.String()}, {"/internal/force_flush", ""}} {
		resp, err := http.Post(s.URL()+ask.path, "text/plain", strings.NewReader(ask.body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s answered %s", ask.path, resp.Status)
		}
	}
	return s.URL()
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
