package metrics

//go:generate go test . -run ^TestReference$ -update

import (
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/operator/journal"
)

// Options say what to show.
type Options struct {
	// Version is the operator's.
	Version string
	// Leading tells whether this replica acts. It must be set.
	Leading func() bool
	// Endpoints is for how many endpoints there are series, in all; 0 for none.
	// Policies whose endpoints do not fit are left out, and counted.
	Endpoints int
}

// Metrics counts what the operator does. Its methods may be called by several
// goroutines at once.
type Metrics struct {
	decisions   *prometheus.CounterVec
	writes      *prometheus.CounterVec
	applyErrors *prometheus.CounterVec
	queryErrors *prometheus.CounterVec
	queries     *prometheus.HistogramVec
	cycles      prometheus.Histogram
	membership  prometheus.Histogram
}

// New registers the metrics. It panics when they are registered already, as
// [prometheus.Registerer] does.
func New(reg prometheus.Registerer, j *journal.Journal, o Options) *Metrics {
	m := &Metrics{
		decisions: counters("taper_decisions_total",
			"Decisions by what caused them (trigger: interval or membership) and why weights were not moved freely (hold: none when they were).",
			"namespace", "policy", "mode", "trigger", "hold"),
		writes: counters("taper_writes_total",
			"Writes of weights or membership to the mesh that succeeded.",
			"namespace", "policy"),
		applyErrors: counters("taper_apply_errors_total",
			"Writes to the mesh that failed or were refused.",
			"namespace", "policy", "reason"),
		queryErrors: counters("taper_source_query_errors_total",
			"Queries that a source of samples did not answer in full.",
			"source"),
		queries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "taper_source_query_duration_seconds",
			Help:    "How long queries to a source of samples took, those that failed included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"source"}),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "taper_cycle_duration_seconds",
			Help:    "How long a control cycle took: asking the sources and deciding about all policies that were due.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		membership: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "taper_membership_write_latency_seconds",
			Help:    "Time from the event that an endpoint came or went to the write that tells the mesh.",
			Buckets: []float64{.005, .01, .025, .05, .1, .2, .3, .5, .75, 1, 1.5, 2.5, 5, 10, 30},
		}),
	}
	reg.MustRegister(
		m.decisions, m.writes, m.applyErrors, m.queryErrors, m.queries, m.cycles, m.membership,
		leader(o.Leading), buildInfo(o.Version), policies{j, o.Leading, o.Endpoints},
	)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func leader(leading func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "taper_leader",
		Help: "1 when this replica acts, 0 when it stands by.",
	}, func() float64 {
		if leading() {
			return 1
		}
		return 0
	})
}

func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "taper_build_info",
		Help:        "Always 1; the labels tell what runs.",
		ConstLabels: prometheus.Labels{"version": strings.ToValidUTF8(version, "?"), "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// Decided counts a decision. Call it once for each entry recorded in the journal
// that is one.
func (m *Metrics) Decided(e journal.Entry) {
	trigger, hold := "membership", "none"
	if e.Sampled {
		trigger = "interval"
	}
	if e.Hold.Reason != "" {
		hold = string(e.Hold.Reason)
	}
	m.decisions.WithLabelValues(e.Policy.Namespace, e.Policy.Name, e.Mode, trigger, hold).Inc()
	// The first write is an increase only for those who saw the 0 before it.
	m.writes.WithLabelValues(e.Policy.Namespace, e.Policy.Name)
}

// Written counts a write to the mesh.
func (m *Metrics) Written(policy types.NamespacedName) {
	m.writes.WithLabelValues(policy.Namespace, policy.Name).Inc()
}

// ApplyFailed counts a write that failed. The reason is one of a fixed set of
// CamelCase words.
func (m *Metrics) ApplyFailed(policy types.NamespacedName, reason string) {
	m.applyErrors.WithLabelValues(policy.Namespace, policy.Name, reason).Inc()
}

// Queried counts a query to a source, which is named by its URL or otherwise;
// credentials in a URL are left out.
func (m *Metrics) Queried(source string, took time.Duration, err error) {
	source = publicName(source)
	m.queries.WithLabelValues(source).Observe(took.Seconds())
	failed := m.queryErrors.WithLabelValues(source)
	if err != nil {
		failed.Inc()
	}
}

// Cycled notes how long a control cycle took.
func (m *Metrics) Cycled(took time.Duration) { m.cycles.Observe(took.Seconds()) }

// MembershipWritten notes how long a change of endpoints took from its event to
// the write.
func (m *Metrics) MembershipWritten(latency time.Duration) { m.membership.Observe(latency.Seconds()) }

// Forget drops what was counted for a policy.
func (m *Metrics) Forget(policy types.NamespacedName) {
	of := prometheus.Labels{"namespace": policy.Namespace, "policy": policy.Name}
	for _, v := range []*prometheus.CounterVec{m.decisions, m.writes, m.applyErrors} {
		v.DeletePartialMatch(of)
	}
}

// Reset drops what was counted for all policies, when this replica stops to lead.
func (m *Metrics) Reset() {
	for _, v := range []*prometheus.CounterVec{m.decisions, m.writes, m.applyErrors} {
		v.Reset()
	}
}

// ForgetSource drops what was counted for a source that no policy uses any more.
func (m *Metrics) ForgetSource(source string) {
	source = publicName(source)
	m.queries.DeleteLabelValues(source)
	m.queryErrors.DeleteLabelValues(source)
}

// publicName is the name of a source without what may be secret in a URL: user,
// password, query and fragment.
func publicName(source string) string {
	if !strings.Contains(source, "://") {
		return strings.ToValidUTF8(source, "?")
	}
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return "unreadable URL"
	}
	return strings.ToValidUTF8((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "?")
}
