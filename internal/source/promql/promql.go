// Package promql measures endpoints by asking a store that speaks the
// Prometheus HTTP API: Prometheus, VictoriaMetrics, Thanos, Mimir.
//
// Series selectors come in ([Metric]); readings per endpoint go out, each with
// the time of the raw sample behind it. An instant query cannot be taken at its
// word for that: it is stamped with the time of the question and looks back over
// minutes, so the same query asks for each value and for its time. There is one
// query per metric, however many endpoints and services there are.
//
// Start with [Config] and [Source.Collect]; queries.go holds the PromQL and
// defaults.go what to select in a cluster, match.go says whose a series is,
// client.go holds the HTTP and answer.go what comes back by it. [Source.Value]
// asks for a single number.
package promql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	prommodel "github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/model"
)

// The labels that name a pod and its namespace in the metrics of Kubernetes.
const (
	DefaultLabel          = "pod"
	DefaultNamespaceLabel = "namespace"
)

// Config says which store is asked, and what for. Printed, logged or marshalled it
// shows the store's address only.
type Config struct {
	// URL is the base of the API, such as http://prometheus:9090. Userinfo in it
	// is sent as basic authentication.
	URL string
	// Headers are sent with each request, such as X-Scope-OrgID.
	Headers map[string]string
	// Username and Password are sent as basic authentication.
	Username string
	Password Secret
	// BearerToken is sent as it is; BearerTokenFile holds one instead, and is read
	// for each request: tokens rotate.
	BearerToken     Secret
	BearerTokenFile string
	// CAPEM holds the certificates that the store's certificate is checked against;
	// CAFile names a file of them. Without either they are the system's.
	CAPEM  []byte
	CAFile string
	// ServerName is the name that the store's certificate must have; the URL's host
	// if empty.
	ServerName string

	// Label is the label whose value names an endpoint; [DefaultLabel] if empty.
	// Its value is compared with the endpoint's Name, then with its Address,
	// then with the host part of the Address where no other endpoint has it.
	Label string
	// NamespaceLabel, where set, is the label that holds the pod's namespace. Then
	// an endpoint's Name is "namespace/pod", and nothing but it is compared with the
	// two labels. Clusters that share a store are not told apart: selectors have to
	// (cluster="a") where two of them may have pods of the same name.
	NamespaceLabel string
	// Window is what rates and means are taken over. It should hold at least
	// three scrapes: a rate needs two, and one may be missed.
	Window time.Duration
	// CPU, Requests and InFlight select the series. One without a selector is not
	// asked for, and its readings are missing.
	CPU, Requests, InFlight Metric
}

// String returns the store's address, without what may be secret in it.
func (c Config) String() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "a URL that is not usable"
	}
	return address(u).String()
}

// Format implements [fmt.Formatter]: no verb shows more than String does.
func (c Config) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// MarshalText implements [encoding.TextMarshaler], which JSON and logs use.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// The quantities that are read, as indexes.
const (
	cpu = iota
	requests
	inFlight
	quantities
)

// Source asks one store. It is safe for concurrent use.
type Source struct {
	name    string
	labels  grouping
	client  *client
	queries [quantities]*query // nil for one that is not asked for
	window  time.Duration
}

// New checks the configuration; it does not contact the store. A source needs no
// closing: its idle connections end by themselves.
func New(cfg Config) (*Source, error) {
	labels, err := newGrouping(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Window < time.Millisecond {
		return nil, fmt.Errorf("window %s is too short; want at least three scrape intervals, such as 2m", cfg.Window)
	}
	s := &Source{labels: labels, window: cfg.Window}
	asked := false
	for i, m := range [quantities]struct {
		name   string
		metric Metric
	}{cpu: {"cpu", cfg.CPU}, requests: {"requests", cfg.Requests}, inFlight: {"in-flight", cfg.InFlight}} {
		if s.queries[i], err = newQuery(m.name, m.metric, labels, cfg.Window); err != nil {
			return nil, err
		}
		asked = asked || s.queries[i] != nil
	}
	if !asked {
		return nil, errors.New("no metric has a selector; want at least one, such as container_cpu_usage_seconds_total{pod=~\"fib-.*\"}")
	}
	if s.client, err = newClient(cfg); err != nil {
		return nil, err
	}
	s.name = s.client.base.String()
	return s, nil
}

func newGrouping(cfg Config) (grouping, error) {
	g := grouping{namespace: cfg.NamespaceLabel, endpoint: cfg.Label}
	if g.endpoint == "" {
		g.endpoint = DefaultLabel
	}
	for _, label := range g.names() {
		if !prommodel.LegacyValidation.IsValidLabelName(label) {
			return g, fmt.Errorf("label %q is not a label name; want one such as %q", label, DefaultLabel)
		}
		if label == kindLabel {
			return g, fmt.Errorf("label %q cannot be grouped by: the queries set it themselves", label)
		}
	}
	if g.namespace == g.endpoint {
		return g, fmt.Errorf("label %q is to hold both namespace and pod; want two labels", g.endpoint)
	}
	return g, nil
}

// Collect implements [taper.dev/taper/internal/source.Source].
//
// A metric whose query fails, or is answered in part, fails all of it, even when
// the others were answered: half a sample would quietly change how the decision
// estimates demand. A metric that the store answers and has no series of is
// missing: that is what pods without a sidecar look like, and the decision has
// its own patience before it goes by other evidence.
//
// An answer is an error too when its labels cannot be right. Without a
// NamespaceLabel that is one in which no series belongs to any of the endpoints.
// With it, other pods of their namespaces are in every answer, so it is one whose
// series all lack a label, or several of which none, of any metric, belongs to
// any of the endpoints.
//
// Values are passed on as they were measured, NaN included: judging them is the
// decision's task.
func (s *Source) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	dir := newDirectory(endpoints, s.labels.namespaced())
	if s.labels.namespaced() && len(dir.namespaces) == 0 {
		return model.Snapshot{}, nil // without a namespace, all of the cluster would be asked for
	}
	var found [quantities]*readings
	group, ctx := errgroup.WithContext(ctx)
	for i, q := range s.queries {
		if q == nil {
			continue
		}
		group.Go(func() (err error) {
			found[i], err = s.read(ctx, q, dir)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := s.acquainted(found, dir); err != nil {
		return nil, err
	}
	return dir.snapshot(found, s.window), nil
}

// read returns the readings of one metric.
func (s *Source) read(ctx context.Context, q *query, dir *directory) (*readings, error) {
	r := newReadings(dir, q.scale)
	got, err := s.client.query(ctx, q.text(dir.namespaces), s.labels.answered(), r.take)
	if err == nil {
		err = got.is("vector")
	}
	if err == nil && !s.labels.namespaced() && r.foreign() && len(dir.endpoints) > 0 {
		err = r.unknown(s.labels)
	}
	if err == nil && r.unlabelled() {
		err = fmt.Errorf("none of its series has both labels %q and %q; want those that the store gives to pods, or a selector of series that have them", s.labels.namespace, s.labels.endpoint)
	}
	if err != nil {
		return nil, s.failed(q, err)
	}
	return r, nil
}

// acquainted is an error when there are series, and of no metric one that belongs
// to an endpoint.
func (s *Source) acquainted(found [quantities]*readings, dir *directory) error {
	stranger := -1
	for i, r := range found {
		if r == nil {
			continue
		}
		if r.matched > 0 {
			return nil
		}
		if stranger < 0 && r.foreign() {
			stranger = i
		}
	}
	if stranger < 0 || len(dir.endpoints) == 0 {
		return nil
	}
	return s.failed(s.queries[stranger], found[stranger].unknown(s.labels))
}

func (s *Source) failed(q *query, err error) error {
	return fmt.Errorf("reading %s from %s: %w", q.metric, s.name, err)
}
