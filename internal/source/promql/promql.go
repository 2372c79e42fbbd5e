// Package promql measures endpoints by asking a store that speaks the
// Prometheus HTTP API: Prometheus, VictoriaMetrics, Thanos, Mimir.
//
// Series selectors come in ([Metric]); readings per endpoint go out, each with
// the time of the raw sample behind it. An instant query cannot be taken at its
// word for that: it is stamped with the time of the question and looks back
// over minutes, so beside each value its time is asked for. There are two
// queries per metric, however many endpoints there are.
//
// Start with [Config] and [Source.Collect]; queries.go holds the PromQL,
// client.go the HTTP.
package promql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/model"
)

// DefaultLabel is the label that names an endpoint in the metrics of Kubernetes.
const DefaultLabel = "pod"

// Config says which store is asked, and what for.
type Config struct {
	// URL is the base of the API, such as http://prometheus:9090. Userinfo in it
	// is sent as basic authentication.
	URL string
	// Headers are sent with each request, such as X-Scope-OrgID.
	Headers map[string]string
	// BearerTokenFile holds a token. It is read for each request: tokens rotate.
	BearerTokenFile string
	// CAFile holds the PEM certificates that the store's certificate is checked
	// against; empty for those of the system.
	CAFile string

	// Label is the label whose value names an endpoint; [DefaultLabel] if empty.
	// Its value is compared with the endpoint's Name, then with its Address,
	// then with the host part of the Address where no other endpoint has it.
	Label string
	// Window is what rates and means are taken over. It should hold at least
	// three scrapes: a rate needs two, and one may be missed.
	Window time.Duration
	// CPU and Requests select the series. One without a selector is not asked
	// for, and its readings are missing.
	CPU, Requests Metric
}

// Source asks one store.
type Source struct {
	name     string
	label    prommodel.LabelName
	api      v1.API
	cpu      *queries
	requests *queries
}

// New checks the configuration; it does not contact the store.
func New(cfg Config) (*Source, error) {
	if cfg.Label == "" {
		cfg.Label = DefaultLabel
	}
	if !prommodel.LegacyValidation.IsValidLabelName(cfg.Label) {
		return nil, fmt.Errorf("label %q is not a label name; want one such as %q", cfg.Label, DefaultLabel)
	}
	if cfg.Window < time.Millisecond {
		return nil, fmt.Errorf("window %s is too short; want at least three scrape intervals, such as 2m", cfg.Window)
	}
	if cfg.CPU.Selector == "" && cfg.Requests.Selector == "" {
		return nil, errors.New("neither cpu nor requests has a selector; want at least one, such as container_cpu_usage_seconds_total{pod=~\"fib-.*\"}")
	}
	cpu, err := newQueries("cpu", cfg.CPU, cfg.Label, cfg.Window)
	if err != nil {
		return nil, err
	}
	requests, err := newQueries("requests", cfg.Requests, cfg.Label, cfg.Window)
	if err != nil {
		return nil, err
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Source{
		name:     client.base.Redacted(),
		label:    prommodel.LabelName(cfg.Label),
		api:      v1.NewAPI(client),
		cpu:      cpu,
		requests: requests,
	}, nil
}

// Collect implements [taper.dev/taper/internal/source.Source].
//
// A metric that was asked for and not answered in full is an error even when
// the other was answered: half a sample would quietly change how the decision
// estimates demand. So is an answer in which no series belongs to any of the
// endpoints, because the label or the selector is wrong then. Values are passed
// on as they were measured, NaN included: judging them is the decision's task.
func (s *Source) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	var cpu, requests map[string]model.Reading
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		cpu, err = s.read(ctx, s.cpu, endpoints)
		return err
	})
	group.Go(func() (err error) {
		requests, err = s.read(ctx, s.requests, endpoints)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	snapshot := make(model.Snapshot, len(endpoints))
	for _, e := range endpoints {
		sample := model.Sample{CPU: cpu[e.Address], Requests: requests[e.Address]}
		if sample.CPU.Known() || sample.Requests.Known() {
			snapshot[e.Address] = sample
		}
	}
	return snapshot, nil
}

// read returns the readings of one metric by endpoint address.
func (s *Source) read(ctx context.Context, q *queries, endpoints []model.Endpoint) (map[string]model.Reading, error) {
	if q == nil {
		return nil, nil
	}
	// The times are asked for first. A scrape that lands between the two
	// questions then makes a value fresher than it says, never staler.
	times, err := s.ask(ctx, q, q.time)
	if err != nil {
		return nil, err
	}
	values, err := s.ask(ctx, q, q.value)
	if err != nil {
		return nil, err
	}
	readings := make(map[string]model.Reading, len(values))
	for name, value := range values {
		if at, ok := times[name]; ok {
			readings[name] = model.Reading{Value: value, At: time.UnixMilli(int64(math.Round(at * 1000)))}
		}
	}
	matched := match(readings, endpoints)
	if len(matched) == 0 && len(readings) > 0 && len(endpoints) > 0 {
		return nil, fmt.Errorf("reading %s from %s: label %q names none of the endpoints: it says %s; want %s",
			q.metric, s.name, s.label, some(slices.Sorted(maps.Keys(readings))), strings.Join(names(endpoints[0]), " or "))
	}
	return matched, nil
}

// ask returns the value of each series in the answer by its endpoint label.
func (s *Source) ask(ctx context.Context, q *queries, query string) (map[string]float64, error) {
	fail := func(err error) error { return fmt.Errorf("reading %s from %s: %w", q.metric, s.name, err) }
	// Without a time the store uses its own clock, the one its samples were stamped by.
	answer, warnings, err := s.api.Query(ctx, query, time.Time{})
	if err != nil {
		return nil, fail(explain(err))
	}
	if err := complete(warnings); err != nil {
		return nil, fail(err)
	}
	vector, ok := answer.(prommodel.Vector)
	if !ok {
		return nil, fail(fmt.Errorf("the answer to %s is a %s; want a vector", query, answer.Type()))
	}
	values := make(map[string]float64, len(vector))
	for _, sample := range vector {
		values[string(sample.Metric[s.label])] = float64(sample.Value)
	}
	return values, nil
}

// complete is an error when a warning says that the answer lacks something.
func complete(warnings v1.Warnings) error {
	for _, w := range warnings {
		// Prometheus 2.47 to 2.52 sent remarks on style, such as a counter's name
		// without _total, as warnings with this prefix.
		if !strings.HasPrefix(w, "PromQL info:") {
			return fmt.Errorf("the store warns %q; an answer that may lack series is not used", firstLine(w))
		}
	}
	return nil
}

// match gives each endpoint the reading that carries one of its names.
func match(readings map[string]model.Reading, endpoints []model.Endpoint) map[string]model.Reading {
	claims := map[string]int{}
	counted := map[string]bool{}
	for _, e := range endpoints {
		if counted[e.Address] {
			continue // it is behind two services
		}
		counted[e.Address] = true
		for _, name := range names(e) {
			claims[name]++
		}
	}
	matched := make(map[string]model.Reading, len(endpoints))
	for _, e := range endpoints {
		for _, name := range names(e) {
			if r, ok := readings[name]; ok && (claims[name] == 1 || name == e.Address) {
				matched[e.Address] = r
				break
			}
		}
	}
	return matched
}

// names returns what a label may call the endpoint, the most telling first.
func names(e model.Endpoint) []string {
	all := []string{e.Address}
	if e.Name != "" && e.Name != e.Address {
		all = []string{e.Name, e.Address}
	}
	if host, _, err := net.SplitHostPort(e.Address); err == nil && host != e.Name {
		all = append(all, host)
	}
	return all
}

// some shows a few of many names.
func some(all []string) string {
	const few = 3
	quoted := make([]string, 0, few)
	for _, name := range all[:min(few, len(all))] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	if more := len(all) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(quoted, ", "), more)
	}
	return strings.Join(quoted, ", ")
}
