package metrics

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

var (
	policyLabels   = []string{"namespace", "policy"}
	endpointLabels = []string{"namespace", "policy", "pod", "address"}
)

func ofPolicy(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("taper_policy_"+name, help, append(policyLabels[:2:2], more...), nil)
}

func ofEndpoint(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("taper_endpoint_"+name, help, endpointLabels, nil)
}

var (
	policyInfo      = ofPolicy("info", "Always 1; the labels tell what a policy does. Evidence is what demand is learnt from, empty when nothing was learnt yet.", "service", "mode", "strategy", "evidence")
	policyCondition = ofPolicy("condition", "Always 1; the labels tell how each condition of a policy stands.", "condition", "status", "reason")
	policyHeld      = ofPolicy("held", "1 for the reason why weights are not moved freely; no series when they are.", "reason")
	policyEndpoints = ofPolicy("endpoints", "Endpoints in the newest decision.")
	policyInterval  = ofPolicy("interval_seconds", "Time between two decisions from samples.")
	policyDecided   = ofPolicy("last_decision_timestamp_seconds", "When the newest decision from samples was made.")
	policyNewest    = ofPolicy("newest_sample_timestamp_seconds", "Time of the newest sample of any endpoint that the newest decision rests on.")
	policyOldest    = ofPolicy("oldest_sample_timestamp_seconds", "Time of the sample of the endpoint that was measured longest ago; endpoints that never were do not count.")
	policyCoverage  = ofPolicy("coverage_ratio", "Part of the endpoints that had a fresh sample in the newest decision.")

	endpointWeight      = ofEndpoint("weight", "Weight that the mesh was given; no series when none was.")
	endpointDecided     = ofEndpoint("decided_weight", "Weight decided last: the one in force with Enforce, what Enforce would settle at with Recommend.")
	endpointShare       = ofEndpoint("share_ratio", "Part of the service's requests that the decided weight stands for.")
	endpointWanted      = ofEndpoint("wanted_share_ratio", "Share that the strategy wants, apart from how fast it may be reached; no series while decisions are held.")
	endpointUtilization = ofEndpoint("utilization_ratio", "CPU used over capacity that the share makes of the endpoint; no series while unknown.")
	endpointDemand      = ofEndpoint("demand_seconds", "CPU time that a request costs; no series while unknown, or when request rates are.")

	endpointsOmitted = prometheus.NewDesc("taper_endpoints_omitted",
		"Endpoints that have no series because there would be too many.", nil, nil)
)

// policies collects what the journal has when it is asked.
type policies struct {
	journal *journal.Journal
	leading func() bool
	most    int // endpoints with series; 0 for none
}

// Describe implements [prometheus.Collector].
func (p policies) Describe(descs chan<- *prometheus.Desc) {
	all := []*prometheus.Desc{
		policyInfo, policyCondition, policyHeld, policyEndpoints,
		policyInterval, policyDecided, policyNewest, policyOldest, policyCoverage,
	}
	if p.most > 0 {
		all = append(all, endpointWeight, endpointDecided, endpointShare, endpointWanted,
			endpointUtilization, endpointDemand, endpointsOmitted)
	}
	for _, d := range all {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. Which policies fit in depends on
// nothing but the policies, so that no series come and go between scrapes. A replica
// that stands by has nothing to say: what it knows is old.
func (p policies) Collect(metrics chan<- prometheus.Metric) {
	if !p.leading() {
		return
	}
	room, omitted := p.most, 0
	for _, e := range p.journal.All() {
		of := series{metrics, []string{e.Policy.Namespace, e.Policy.Name}}
		of.policy(&e)
		if len(e.Endpoints) > room {
			omitted += len(e.Endpoints)
			continue
		}
		room -= len(e.Endpoints)
		of.endpoints(&e)
	}
	if p.most > 0 {
		metrics <- prometheus.MustNewConstMetric(endpointsOmitted, prometheus.GaugeValue, float64(omitted))
	}
}

// series sends metrics that begin with the same labels.
type series struct {
	metrics chan<- prometheus.Metric
	labels  []string
}

func (s series) send(d *prometheus.Desc, value float64, more ...string) {
	m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, append(s.labels[:len(s.labels):len(s.labels)], more...)...)
	if err != nil {
		return // a label that is no UTF-8 must not cost all other metrics
	}
	s.metrics <- m
}

// known sends a value unless it is 0, which stands for unknown, or no number.
func (s series) known(d *prometheus.Desc, value float64) {
	if isKnown(value) {
		s.send(d, value)
	}
}

func isKnown(value float64) bool { return value > 0 && !math.IsInf(value, 1) }

func (s series) policy(e *journal.Entry) {
	s.send(policyInfo, 1, e.Service, e.Mode, e.Strategy, string(e.Evidence))
	s.known(policyInterval, e.Interval.Seconds())
	for kind, c := range e.Conditions {
		s.send(policyCondition, 1, kind, c.Status, c.Reason)
	}
	if held := e.Held(); held.Reason != "" {
		s.send(policyHeld, 1, string(held.Reason))
	}
	if e.At.IsZero() {
		return
	}
	s.send(policyEndpoints, float64(len(e.Endpoints)))
	if !e.DecidedAt.IsZero() {
		s.send(policyDecided, seconds(e.DecidedAt))
	}
	s.samples(e)
}

// samples tells how old and how complete the samples are.
func (s series) samples(e *journal.Entry) {
	fresh, measured := 0, 0
	var newest, oldest time.Duration
	for i := range e.Endpoints {
		age := e.Endpoints[i].Verdict.Age
		if age < 0 {
			continue
		}
		if age <= e.MaxAge {
			fresh++
		}
		if measured == 0 {
			newest, oldest = age, age
		}
		measured++
		newest, oldest = min(newest, age), max(oldest, age)
	}
	if measured > 0 {
		s.send(policyNewest, seconds(e.At.Add(-newest)))
		s.send(policyOldest, seconds(e.At.Add(-oldest)))
	}
	if e.MaxAge > 0 && len(e.Endpoints) > 0 {
		s.send(policyCoverage, float64(fresh)/float64(len(e.Endpoints)))
	}
}

// endpoints shows each address once, whatever the entry says: a series that is
// there twice fails the whole scrape.
func (s series) endpoints(e *journal.Entry) {
	shown := make(map[string]bool, len(e.Endpoints))
	namespace, policy := pair("namespace", e.Policy.Namespace), pair("policy", e.Policy.Name)
	for i := range e.Endpoints {
		ep := &e.Endpoints[i]
		v := &ep.Verdict
		if shown[v.Address] || !utf8.ValidString(ep.Pod) || !utf8.ValidString(v.Address) {
			continue
		}
		shown[v.Address] = true
		of := endpointSeries{s.metrics, []*dto.LabelPair{pair("address", v.Address), namespace, pair("pod", ep.Pod), policy}}
		of.known(endpointWeight, float64(ep.InForce))
		of.known(endpointDecided, float64(v.Weight))
		of.known(endpointShare, v.Share)
		of.known(endpointWanted, v.Proposed)
		of.known(endpointUtilization, v.Utilization)
		if e.Evidence != balance.FromCPUOnly {
			of.known(endpointDemand, v.Demand)
		}
	}
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// endpointSeries sends the metrics of an endpoint. They share their labels, which for
// tens of thousands of endpoints would be most of what a scrape takes.
type endpointSeries struct {
	metrics chan<- prometheus.Metric
	labels  []*dto.LabelPair // sorted by name
}

func (s endpointSeries) known(d *prometheus.Desc, value float64) {
	if isKnown(value) {
		s.metrics <- gauge{d, s.labels, value}
	}
}

// gauge is a [prometheus.Metric].
type gauge struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc implements [prometheus.Metric].
func (g gauge) Desc() *prometheus.Desc { return g.desc }

// Write implements [prometheus.Metric].
func (g gauge) Write(out *dto.Metric) error {
	out.Label, out.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
