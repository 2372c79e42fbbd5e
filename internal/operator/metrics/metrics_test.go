package metrics_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/metrics"
)

var (
	cart = types.NamespacedName{Namespace: "shop", Name: "cart"}
	at   = time.Unix(1_800_000_000, 0)
)

// decided is a decision with one endpoint of which all is known and one of which
// nothing is.
func decided(policy types.NamespacedName) journal.Entry {
	return journal.Entry{
		Policy: policy, Service: "carts", Mode: "Enforce", Strategy: "LeastLatency", At: at, Sampled: true,
		Interval: 30 * time.Second, MaxAge: 90 * time.Second, Evidence: balance.FromCPU,
		Endpoints: []journal.Endpoint{
			{Pod: "cart-0", InForce: 25, Verdict: balance.Verdict{
				Address: "10.0.0.1", Weight: 30, Share: .75, Proposed: .8, Demand: .004, Utilization: .5, Capacity: 2,
				Age: 10 * time.Second, Reason: balance.StepLimit,
			}},
			{Pod: "cart-1", Verdict: balance.Verdict{Address: "10.0.0.2", Weight: 10, Share: .25, Age: -1, Reason: balance.Missing}},
		},
		Conditions: map[string]journal.Condition{"Ready": {Status: "True", Reason: "Decided"}},
	}
}

type setup struct {
	*testing.T
	*metrics.Metrics
	journal  *journal.Journal
	registry *prometheus.Registry
	leading  bool
}

func newSetup(t *testing.T, endpoints int) *setup {
	s := &setup{T: t, journal: journal.New(), registry: prometheus.NewPedanticRegistry(), leading: true}
	s.Metrics = metrics.New(s.registry, s.journal, metrics.Options{
		Version: "v1.2.3", Leading: func() bool { return s.leading }, Endpoints: endpoints,
	})
	return s
}

// decide records and counts, as the reconciler does.
func (s *setup) decide(e journal.Entry) {
	s.journal.Record(e)
	s.Decided(e)
}

// want compares the series of the given names with those of text, in whatever order.
func (s *setup) want(text string, names ...string) {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	var exposed strings.Builder
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&exposed, f); err != nil {
			s.Fatal(err)
		}
	}
	if diff := cmp.Diff(series(text), series(exposed.String())); diff != "" {
		s.Errorf("series (-want +got):\n%s", diff)
	}
}

// series are the lines of the exposition format that are no comments, sorted.
func series(text string) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
	slices.Sort(lines)
	return lines
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 0)
	e := decided(cart)
	s.decide(e)
	s.decide(e)
	e.Sampled = false
	e.Hold = balance.Hold{Reason: balance.MembershipOnly}
	s.decide(e)
	s.want(`
taper_decisions_total{hold="none",mode="Enforce",namespace="shop",policy="cart",trigger="interval"} 2
taper_decisions_total{hold="MembershipOnly",mode="Enforce",namespace="shop",policy="cart",trigger="membership"} 1
taper_writes_total{namespace="shop",policy="cart"} 0
taper_policy_held{namespace="shop",policy="cart",reason="MembershipOnly"} 1
`, "taper_decisions_total", "taper_writes_total", "taper_policy_held")
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	s.decide(decided(cart))
	s.want(`
taper_policy_info{evidence="cpu",mode="Enforce",namespace="shop",policy="cart",service="carts",strategy="LeastLatency"} 1
taper_policy_condition{condition="Ready",namespace="shop",policy="cart",reason="Decided",status="True"} 1
taper_policy_endpoints{namespace="shop",policy="cart"} 2
taper_policy_interval_seconds{namespace="shop",policy="cart"} 30
taper_policy_last_decision_timestamp_seconds{namespace="shop",policy="cart"} 1.8e+09
taper_policy_newest_sample_timestamp_seconds{namespace="shop",policy="cart"} 1.79999999e+09
taper_policy_oldest_sample_timestamp_seconds{namespace="shop",policy="cart"} 1.79999999e+09
taper_policy_coverage_ratio{namespace="shop",policy="cart"} 0.5
`, "taper_policy_info", "taper_policy_condition", "taper_policy_held", "taper_policy_endpoints", "taper_policy_interval_seconds", "taper_policy_last_decision_timestamp_seconds",
		"taper_policy_newest_sample_timestamp_seconds", "taper_policy_oldest_sample_timestamp_seconds", "taper_policy_coverage_ratio")
}

// endpointNames are all families with a series per endpoint.
var endpointNames = []string{
	"taper_endpoint_weight", "taper_endpoint_decided_weight", "taper_endpoint_share_ratio", "taper_endpoint_wanted_share_ratio",
	"taper_endpoint_utilization_ratio", "taper_endpoint_demand_seconds", "taper_endpoints_omitted",
}

func TestEndpointsUnknownIsAbsent(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	s.decide(decided(cart))
	s.want(`
taper_endpoint_weight{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 25
taper_endpoint_decided_weight{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 30
taper_endpoint_decided_weight{address="10.0.0.2",namespace="shop",pod="cart-1",policy="cart"} 10
taper_endpoint_share_ratio{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 0.75
taper_endpoint_share_ratio{address="10.0.0.2",namespace="shop",pod="cart-1",policy="cart"} 0.25
taper_endpoint_wanted_share_ratio{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 0.8
taper_endpoint_utilization_ratio{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 0.5
taper_endpoint_demand_seconds{address="10.0.0.1",namespace="shop",pod="cart-0",policy="cart"} 0.004
taper_endpoints_omitted 0
`, endpointNames...)
}

// What nothing is known of, or what is no number, has no series and fails no scrape.
func TestOddEntries(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	s.journal.Record(journal.Entry{Policy: cart, Mode: "Recommend"})
	s.want(`
taper_policy_info{evidence="",mode="Recommend",namespace="shop",policy="cart",service="",strategy=""} 1
taper_endpoints_omitted 0
`, append(endpointNames, "taper_policy_info", "taper_policy_endpoints", "taper_policy_interval_seconds", "taper_policy_last_decision_timestamp_seconds",
		"taper_policy_newest_sample_timestamp_seconds", "taper_policy_oldest_sample_timestamp_seconds", "taper_policy_coverage_ratio")...)

	e := decided(cart)
	e.Evidence = balance.FromCPUOnly
	e.MaxAge = 0
	for _, v := range []float64{math.NaN(), math.Inf(1), -1} {
		e.Endpoints = []journal.Endpoint{
			{Pod: "a", Verdict: balance.Verdict{Address: "10.0.0.1", Weight: 1, Share: v, Utilization: v, Proposed: v, Demand: 3, Age: -1}},
			{Pod: "b", Verdict: balance.Verdict{Address: "10.0.0.1", Weight: 2, Age: -1}},
			{Pod: "\xff", Verdict: balance.Verdict{Address: "10.0.0.3", Weight: 3, Age: -1}},
		}
		s.journal.Record(e)
		s.want(`
taper_endpoint_decided_weight{address="10.0.0.1",namespace="shop",pod="a",policy="cart"} 1
taper_endpoints_omitted 0
`, append(endpointNames, "taper_policy_newest_sample_timestamp_seconds", "taper_policy_oldest_sample_timestamp_seconds", "taper_policy_coverage_ratio")...)
	}
}

func TestEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	large := func() journal.Entry {
		e := decided(types.NamespacedName{Namespace: "shop", Name: "b"})
		for i := range 5 {
			e.Endpoints = append(e.Endpoints, journal.Endpoint{Verdict: balance.Verdict{Address: fmt.Sprint(i), Weight: 20}})
		}
		return e
	}
	for most, want := range map[int]struct{ shown, omitted int }{0: {0, -1}, 1: {0, 11}, 4: {4, 7}, 10: {9, 2}, 11: {11, 0}} {
		s := newSetup(t, most)
		s.decide(decided(types.NamespacedName{Namespace: "shop", Name: "a"}))
		s.decide(large())
		s.decide(decided(types.NamespacedName{Namespace: "shop", Name: "c"}))
		shown := s.count("taper_endpoint_decided_weight")
		if shown != want.shown {
			t.Errorf("with room for %d there are %d endpoints, want %d", most, shown, want.shown)
		}
		if want.omitted < 0 {
			s.want("", "taper_endpoints_omitted")
		} else {
			s.want(fmt.Sprintf("taper_endpoints_omitted %d\n", want.omitted), "taper_endpoints_omitted")
		}
	}
}

// count is how many series a family has.
func (s *setup) count(name string) int {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}
	return 0
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	s.Written(cart)
	s.Written(cart)
	s.ApplyFailed(cart, "ForeignServiceEntry")
	s.want(`
taper_writes_total{namespace="shop",policy="cart"} 2
taper_apply_errors_total{namespace="shop",policy="cart",reason="ForeignServiceEntry"} 1
taper_leader 1
`, "taper_writes_total", "taper_apply_errors_total", "taper_leader")

	s.Cycled(1200 * time.Millisecond)
	s.MembershipWritten(999 * time.Millisecond)
	s.MembershipWritten(1001 * time.Millisecond)
	if got := bucket(s, "taper_cycle_duration_seconds", 1); got != 0 {
		t.Errorf("%d cycles within 1 s, want 0", got)
	}
	if got := bucket(s, "taper_membership_write_latency_seconds", 1); got != 1 {
		t.Errorf("%d writes within 1 s, want 1", got)
	}
}

// bucket is the count of a histogram's bucket with that very bound.
func bucket(s *setup, name string, bound float64) uint64 {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			if b.GetUpperBound() == bound {
				return b.GetCumulativeCount()
			}
		}
	}
	s.Fatalf("%s has no bucket up to %g", name, bound)
	return 0
}

func TestSourcesAreNamedWithoutSecrets(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"https://user:secret@vm.example:8428/select/0/prometheus?token=secret#secret": "https://vm.example:8428/select/0/prometheus",
		"http://prometheus:9090":            "http://prometheus:9090",
		"metrics.k8s.io":                    "metrics.k8s.io",
		"https://user:se%cret@vm.example":   "unreadable URL",
		"https://user:secret\x00@x":         "unreadable URL",
		"http:///secret":                    "unreadable URL",
		"shop/\xff":                         "shop/?",
		"https://user:secret@[::1]:8428/%2": "unreadable URL",
	} {
		s := newSetup(t, 10)
		s.Queried(source, time.Second, nil)
		s.Queried(source, time.Second, errors.New("down"))
		s.want(fmt.Sprintf("taper_source_query_errors_total{source=%q} 1\n", want), "taper_source_query_errors_total")
		if got := bucket(s, "taper_source_query_duration_seconds", 1); got != 2 {
			t.Errorf("%d queries, want 2", got)
		}
		s.ForgetSource(source)
		s.want("", "taper_source_query_errors_total", "taper_source_query_duration_seconds")
	}
}

func TestDeletedPoliciesVanish(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	other := types.NamespacedName{Namespace: "cart", Name: "shop"}
	for _, policy := range []types.NamespacedName{cart, other} {
		s.decide(decided(policy))
		s.Written(policy)
		s.ApplyFailed(policy, "Conflict")
	}
	s.Forget(cart)
	s.journal.Forget(cart)
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "policy" && l.GetValue() == "cart" {
					t.Errorf("%s is still there", f.GetName())
				}
				if l.GetName() == "policy" && l.GetValue() == "shop" {
					others++
				}
			}
		}
	}
	if others < 10 {
		t.Errorf("the other policy has %d series left", others)
	}
}

// A replica that stops to lead shows nothing of what it knew.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 10)
	s.decide(decided(cart))
	s.ApplyFailed(cart, "Conflict")
	s.leading = false
	s.Reset()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "taper_policy_") || strings.HasPrefix(name, "taper_endpoint") || strings.HasSuffix(name, "_total") {
			t.Errorf("%s is there: %v", name, f.GetMetric())
		}
	}
	s.want("taper_leader 0\n", "taper_leader")
}

// Scrapes see a sound set of series while policies come and go.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := newSetup(t, 100)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			policy := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(worker)}
			for range 50 {
				s.decide(decided(policy))
				s.Written(policy)
				s.Queried("metrics.k8s.io", time.Millisecond, nil)
				if _, err := s.registry.Gather(); err != nil {
					t.Error(err)
				}
				s.journal.Forget(policy)
				s.Forget(policy)
			}
		})
	}
	wg.Wait()
}
