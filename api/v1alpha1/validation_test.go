package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"taper.dev/taper/api/v1alpha1"
)

// edge is a bound of the schema, with a value on either side of it. Both are YAML
// of what is in the policy beside its target.
type edge struct {
	bound          string // as [bounds] names it
	accept, refuse string
}

func long(n int) string { return strings.Repeat("a", n) }

func edges() []edge {
	const prometheus = "type: Prometheus, url: http://prometheus:9090"
	all := []edge{
		{"spec required", "spec: {}", "spec: null"},
		{"spec.targetRef required", "spec: {targetRef: {name: a}}", "spec: {targetRef: null}"},
		{"spec.targetRef.name required", "spec: {targetRef: {name: a}}", "spec: {targetRef: {}}"},
		{"spec.targetRef.name minLength", "spec: {targetRef: {name: 2a}}", `spec: {targetRef: {name: ""}}`},
		{"spec.targetRef.name maxLength", "spec: {targetRef: {name: " + long(63) + "}}", "spec: {targetRef: {name: " + long(64) + "}}"},
		{"spec.targetRef.name pattern", "spec: {targetRef: {name: a-1}}", "spec: {targetRef: {name: a.b}}"},
		{"spec.targetRef.kind enum", "spec: {targetRef: {name: a, kind: Service}}", "spec: {targetRef: {name: a, kind: Deployment}}"},
		{"spec.mode enum", "spec: {mode: Enforce}", "spec: {mode: enforce}"},
		{"spec.strategy enum", "spec: {strategy: EqualLoad}", "spec: {strategy: RoundRobin}"},
		{"spec.ports maxItems", "spec: {ports: " + names(16) + "}", "spec: {ports: " + names(17) + "}"},
		{"spec.ports set", "spec: {ports: [http, grpc]}", "spec: {ports: [http, http]}"},
		{"spec.ports[] maxLength", "spec: {ports: [" + long(63) + "]}", "spec: {ports: [" + long(64) + "]}"},
		{"spec.ports[] pattern", "spec: {ports: [http-2]}", "spec: {ports: [HTTP]}"},
		{"spec.interval rule: interval must be from 1s to 1h", "spec: {interval: 1h}", "spec: {interval: 999ms}"},
		{"spec.limits.capacity rule: capacity must be from 1m to 4096", "spec: {limits: {capacity: 4096}}", "spec: {limits: {capacity: 4097}}"},
		{"spec.limits.capacity pattern", "spec: {limits: {capacity: 1500m}}", "spec: {limits: {capacity: two}}"},
		{"spec.freshness.maxAge rule: maxAge must be from 1s to 24h", "spec: {interval: 1h, freshness: {maxAge: 24h, releaseAfter: 24h}}", "spec: {freshness: {maxAge: 24h1s, releaseAfter: 48h}}"},
		{"spec.freshness.releaseAfter rule: releaseAfter must be from 1s to 168h", "spec: {freshness: {releaseAfter: 168h}}", "spec: {freshness: {releaseAfter: 169h}}"},
		{"spec.freshness rule: releaseAfter must be at least maxAge", "spec: {freshness: {maxAge: 60s, releaseAfter: 60s}}", "spec: {freshness: {maxAge: 60s, releaseAfter: 59s}}"},
		{"spec rule: freshness.maxAge must be at least the interval", "spec: {interval: 30s, freshness: {maxAge: 30s}}", "spec: {interval: 30s, freshness: {maxAge: 29s}}"},
		{"spec rule: freshness.releaseAfter must be at least freshness.maxAge, which is three intervals unless it is set", "spec: {freshness: {releaseAfter: 90s}}", "spec: {freshness: {releaseAfter: 89s}}"},
		{"spec rule: freshness.maxAge must not exceed freshness.releaseAfter, which is ten intervals unless it is set", "spec: {freshness: {maxAge: 300s}}", "spec: {freshness: {maxAge: 301s}}"},
		{"spec rule: guardRail needs a source that answers PromQL: Prometheus or VictoriaMetrics", "spec: {guardRail: {query: up, max: 1}}", "spec: {guardRail: {query: up, max: 1}, source: {type: ResourceMetrics}}"},
		{"spec.guardRail.query required", "spec: {guardRail: {query: up, max: 1}}", "spec: {guardRail: {max: 1}}"},
		{"spec.guardRail.query minLength", "spec: {guardRail: {query: a, max: 1}}", `spec: {guardRail: {query: "", max: 1}}`},
		{"spec.guardRail.query maxLength", "spec: {guardRail: {query: " + long(4096) + ", max: 1}}", "spec: {guardRail: {query: " + long(4097) + ", max: 1}}"},
		{"spec.guardRail.max required", "spec: {guardRail: {query: up, max: -1}}", "spec: {guardRail: {query: up}}"},
		{"spec.guardRail.max pattern", "spec: {guardRail: {query: up, max: 10m}}", "spec: {guardRail: {query: up, max: 1 %}}"},

		source("type required", prometheus, "url: http://prometheus:9090"),
		source("type enum", "type: ResourceMetrics", "type: Thanos, url: http://a"),
		source("url maxLength", "type: Prometheus, url: http://a/"+long(2039), "type: Prometheus, url: http://a/"+long(2040)),
		source("url rule: url must be http://HOST:PORT or https://HOST:PORT/PATH, without credentials: those belong into a Secret named by auth",
			"type: VictoriaMetrics, url: 'https://vm:8481/select/0/prometheus?extra_label=a=b'", "type: Prometheus, url: 'http://me:secret@prometheus:9090'"),
		source("rule: url is needed for Prometheus and VictoriaMetrics, and not used with ResourceMetrics", prometheus, "type: VictoriaMetrics"),
		source("rule: auth, tls, headers, window and queries are not used with ResourceMetrics", "type: ResourceMetrics", "type: ResourceMetrics, window: 1m"),
		source("window rule: window must be from 1s to 1h", prometheus+", window: 1h", prometheus+", window: 61m"),
		source("headers maxProperties", prometheus+", headers: "+headers(8), prometheus+", headers: "+headers(9)),
		source("headers rule: headers need names of letters, digits, - and _ with values of up to 1024 printable ASCII characters; credentials belong into a Secret named by auth",
			prometheus+", headers: {X-Scope-OrgID: "+long(1024)+"}", prometheus+", headers: {AUTHORIZATION: Bearer x}"),
		source("auth rule: usernameKey and passwordKey belong to Basic, tokenKey to Bearer",
			prometheus+", auth: {type: Bearer, secretName: a, tokenKey: t}", prometheus+", auth: {type: Basic, secretName: a, tokenKey: t}"),
		source("auth.type required", prometheus+", auth: {type: Basic, secretName: a}", prometheus+", auth: {secretName: a}"),
		source("auth.type enum", prometheus+", auth: {type: Bearer, secretName: a}", prometheus+", auth: {type: Digest, secretName: a}"),
		source("auth.secretName required", prometheus+", auth: {type: Basic, secretName: a}", prometheus+", auth: {type: Basic}"),
		source("auth.secretName minLength", prometheus+", auth: {type: Basic, secretName: a}", prometheus+`, auth: {type: Basic, secretName: ""}`),
		source("auth.secretName maxLength", prometheus+", auth: {type: Basic, secretName: "+long(253)+"}", prometheus+", auth: {type: Basic, secretName: "+long(254)+"}"),
		source("auth.usernameKey maxLength", prometheus+", auth: {type: Basic, secretName: a, usernameKey: "+long(253)+"}", prometheus+", auth: {type: Basic, secretName: a, usernameKey: "+long(254)+"}"),
		source("auth.passwordKey maxLength", prometheus+", auth: {type: Basic, secretName: a, passwordKey: "+long(253)+"}", prometheus+", auth: {type: Basic, secretName: a, passwordKey: "+long(254)+"}"),
		source("auth.tokenKey maxLength", prometheus+", auth: {type: Bearer, secretName: a, tokenKey: "+long(253)+"}", prometheus+", auth: {type: Bearer, secretName: a, tokenKey: "+long(254)+"}"),
		source("tls.caSecretName maxLength", prometheus+", tls: {caSecretName: "+long(253)+"}", prometheus+", tls: {caSecretName: "+long(254)+"}"),
		source("tls.serverName maxLength", prometheus+", tls: {serverName: "+long(253)+"}", prometheus+", tls: {serverName: "+long(254)+"}"),

		{"status.endpoints maxItems", "status: {endpointCount: 0, endpoints: " + endpoints(500) + "}", "status: {endpointCount: 0, endpoints: " + endpoints(501) + "}"},
		{"status.endpoints[].pod required", "status: {endpoints: [{pod: a, address: b}]}", "status: {endpoints: [{address: b}]}"},
		{"status.endpoints[].address required", "status: {endpoints: [{pod: a, address: b}]}", "status: {endpoints: [{pod: a}]}"},
		{"status.serviceEntries set", "status: {serviceEntries: [a, b]}", "status: {serviceEntries: [a, a]}"},
	}
	for name, limits := range map[string][2]int{
		"limits.utilizationPercent": {5, 100},
		"limits.minSharePercent":    {5, 100},
		"limits.maxSharePercent":    {100, 100000},
		"limits.stepPercent":        {1, 900},
		"limits.deadBandPercent":    {0, 50},
		"freshness.coveragePercent": {1, 100},
	} {
		group, leaf, _ := strings.Cut(name, ".")
		spec := func(value int) string { return fmt.Sprintf("spec: {%s: {%s: %d}}", group, leaf, value) }
		all = append(all,
			edge{"spec." + name + " minimum", spec(limits[0]), spec(limits[0] - 1)},
			edge{"spec." + name + " maximum", spec(limits[1]), spec(limits[1] + 1)})
	}
	queries := func(bound, accept, refuse string) edge {
		return source("queries."+bound, prometheus+", queries: {"+accept+"}", prometheus+", queries: {"+refuse+"}")
	}
	all = append(all, edge{"spec.source.queries rule: cpu and inFlight must not both be disabled: what a request costs is learnt from one of them",
		"spec: {source: {" + prometheus + ", queries: {cpu: {disabled: true}, inFlight: {selector: a}}}}",
		"spec: {source: {" + prometheus + ", queries: {cpu: {disabled: true}, inFlight: {disabled: true}}}}"})
	for _, label := range []string{"podLabel", "namespaceLabel"} {
		all = append(all,
			queries(label+" pattern", label+": pod_name", label+": pod-name"),
			queries(label+" maxLength", label+": "+long(128), label+": "+long(129)))
	}
	for _, query := range []string{"cpu", "requests", "inFlight"} {
		all = append(all,
			queries(query+" rule: want either a selector or disabled: true", query+": {disabled: true}", query+": {selector: up, disabled: true}"),
			queries(query+".selector minLength", query+": {selector: a}", query+`: {selector: ""}`),
			queries(query+".selector maxLength", query+": {selector: "+long(4096)+"}", query+": {selector: "+long(4097)+"}"),
			queries(query+".scale rule: scale must be above 0", query+`: {selector: a, scale: "0.001"}`, query+": {selector: a, scale: 0}"),
			queries(query+".scale pattern", query+": {selector: a, scale: 1m}", query+": {selector: a, scale: small}"),
			queries(query+".type enum", query+": {selector: a, type: Gauge}", query+": {selector: a, type: Histogram}"))
	}
	return all
}

func source(bound, accept, refuse string) edge {
	separator := "."
	if strings.HasPrefix(bound, "rule: ") {
		separator = " "
	}
	return edge{"spec.source" + separator + bound, "spec: {source: {" + accept + "}}", "spec: {source: {" + refuse + "}}"}
}

// list returns n items in YAML, each made by format from its number.
func list(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ", ")
}

func names(n int) string     { return "[" + list(n, "http-%d") + "]" }
func headers(n int) string   { return "{" + list(n, "X-%d: a") + "}" }
func endpoints(n int) string { return "[" + list(n, "{pod: shop-%d, address: 10.0.0.1}") + "]" }

// TestBounds tries a value on either side of every bound in the schema. A bound
// without an edge in the table fails, and so does an edge without its bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	a := newAdmission(t)
	untried := bounds("", policySchema(t))
	const immutable = "spec.targetRef rule: targetRef cannot be changed: delete the policy, which gives the service back its own weights, and create another"
	if _, ok := untried[immutable]; !ok {
		t.Errorf("the schema has no bound %q", immutable)
	}
	delete(untried, immutable) // TestTargetIsFixed has it
	for _, e := range edges() {
		want, ok := untried[e.bound]
		if !ok {
			t.Errorf("the schema has no bound %q, or the table has it twice", e.bound)
			continue
		}
		delete(untried, e.bound)
		accepted := policyOf(t, e.accept)
		if errs := a.admit(t.Context(), accepted, nil); len(errs) > 0 {
			t.Errorf("%s: %.200s refused: %v", e.bound, e.accept, errs)
		} else {
			typed(t, accepted, &v1alpha1.BalancePolicy{})
		}
		path, _, _ := strings.Cut(e.bound, " ")
		errs := a.admit(t.Context(), policyOf(t, e.refuse), nil)
		if !says(errs, path, want) {
			t.Errorf("%s: %.200s: %v; want %q", e.bound, e.refuse, errs, want)
		}
	}
	for bound := range untried {
		t.Errorf("nothing tries %q", bound)
	}
}

var index = regexp.MustCompile(`\[[0-9]*\]`)

// says tells whether one of the errors is about the field, of whichever item, and
// has the words.
func says(errs field.ErrorList, path, words string) bool {
	path = index.ReplaceAllString(path, "")
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		return strings.HasPrefix(index.ReplaceAllString(err.Field, ""), path) && strings.Contains(err.Error(), words)
	})
}

// TestRefused lists what looks right and is not: each line would otherwise be found
// out by the operator alone, after the API server has said yes.
func TestRefused(t *testing.T) {
	t.Parallel()
	a := newAdmission(t)
	prometheus := func(more string) string {
		return "spec: {source: {type: Prometheus, url: 'http://prometheus:9090'" + more + "}}"
	}
	for parts, field := range map[string]string{
		"spec: {interval: 30}":                                                                  "spec.interval",
		"spec: {interval: 30 s}":                                                                "spec.interval",
		"spec: {interval: soon}":                                                                "spec.interval",
		"spec: {interval: -30s}":                                                                "spec.interval",
		"spec: {interval: 61m}":                                                                 "spec.interval",
		"spec: {limits: {stepPercent: '10'}}":                                                   "spec.limits.stepPercent",
		"spec: {limits: {stepPercent: 1.5}}":                                                    "spec.limits.stepPercent",
		"spec: {limits: {capacity: 0}}":                                                         "spec.limits.capacity",
		"spec: {limits: {capacity: -1}}":                                                        "spec.limits.capacity",
		"spec: {limits: {capacity: 0.5m}}":                                                      "spec.limits.capacity",
		"spec: {suspend: 'yes'}":                                                                "spec.suspend",
		"spec: {ports: ['']}":                                                                   "spec.ports[0]",
		"spec: {targetRef: {name: Shop}}":                                                       "spec.targetRef.name",
		"spec: {targetRef: {name: shop-}}":                                                      "spec.targetRef.name",
		"spec: {targetRef: {name: shop.other}}":                                                 "spec.targetRef.name",
		"spec: {intervall: 30s}":                                                                "spec.intervall",
		"spec: {source: {type: Prometheus, url: ''}}":                                           "spec.source.url",
		"spec: {source: {type: Prometheus, url: 'a:9090'}}":                                     "spec.source.url",
		"spec: {source: {type: Prometheus, url: '/a'}}":                                         "spec.source.url",
		"spec: {source: {type: Prometheus, url: 'ftp://a'}}":                                    "spec.source.url",
		"spec: {source: {type: Prometheus, url: 'http://'}}":                                    "spec.source.url",
		"spec: {source: {type: Prometheus, url: 'http://:9090'}}":                               "spec.source.url",
		"spec: {source: {type: ResourceMetrics, url: 'http://a'}}":                              "spec.source",
		"spec: {source: {type: ResourceMetrics, auth: {type: Basic, secretName: a}}}":           "spec.source",
		"spec: {source: {type: ResourceMetrics, tls: {serverName: a}}}":                         "spec.source",
		"spec: {source: {type: ResourceMetrics, headers: {A: b}}}":                              "spec.source",
		"spec: {source: {type: ResourceMetrics, queries: {podLabel: p}}}":                       "spec.source",
		prometheus(", auth: {type: Bearer, secretName: a, usernameKey: u}"):                     "spec.source.auth",
		prometheus(", auth: {type: Bearer, secretName: a, passwordKey: p}"):                     "spec.source.auth",
		prometheus(", headers: {'': a}"):                                                        "spec.source.headers",
		prometheus(", headers: {'A B': a}"):                                                     "spec.source.headers",
		prometheus(", headers: {A: \"b\\r\\nC: d\"}"):                                           "spec.source.headers",
		prometheus(", headers: {Cookie: a}"):                                                    "spec.source.headers",
		prometheus(", headers: {Host: a}"):                                                      "spec.source.headers",
		prometheus(", headers: {A: " + long(1025) + "}"):                                        "spec.source.headers",
		prometheus(", headers: {" + long(129) + ": a}"):                                         "spec.source.headers",
		prometheus(", window: 999ms"):                                                           "spec.source.window",
		prometheus(", queries: {cpu: {}}"):                                                      "spec.source.queries.cpu",
		prometheus(", queries: {cpu: {type: Gauge}}"):                                           "spec.source.queries.cpu",
		"spec: {guardRail: {query: up, max: much}}":                                             "spec.guardRail.max",
		"spec: {interval: 1h, freshness: {maxAge: 10h1s}}":                                      "spec",
		"spec: {interval: 10s, freshness: {maxAge: 9s, releaseAfter: 1h}}":                      "spec",
		"spec: {freshness: {maxAge: 0s}}":                                                       "spec.freshness.maxAge",
		"spec: {freshness: {maxAge: 1d}}":                                                       "spec.freshness.maxAge",
		"spec: {freshness: {releaseAfter: 0s}}":                                                 "spec.freshness.releaseAfter",
		"status: {endpointCount: many}":                                                         "status.endpointCount",
		"status: {endpoints: [{pod: a, address: b, sampleAge: 5}]}":                             "status.endpoints[0].sampleAge",
		"status: {conditions: [{type: Ready, status: 'True'}, {type: Ready, status: 'False'}]}": "status.conditions[1]",
	} {
		if errs := a.admit(t.Context(), policyOf(t, parts), nil); !says(errs, field, "") {
			t.Errorf("%.200s: %v; want it refused at %s", parts, errs, field)
		}
	}
}

// TestTargetIsFixed sees that a policy stays with its service: the weights of the
// old one would have no owner.
func TestTargetIsFixed(t *testing.T) {
	t.Parallel()
	a := newAdmission(t)
	old := policyOf(t, "spec: {mode: Enforce}")
	if errs := a.admit(t.Context(), old, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	if errs := a.admit(t.Context(), policyOf(t, "spec: {mode: Recommend}"), old); len(errs) > 0 {
		t.Errorf("another mode: %v", errs)
	}
	errs := a.admit(t.Context(), policyOf(t, "spec: {targetRef: {name: other}}"), old)
	if !says(errs, "spec.targetRef", "targetRef cannot be changed: delete the policy") {
		t.Errorf("another target: %v", errs)
	}
}

// TestDefaults shows what a policy is that names its target only.
func TestDefaults(t *testing.T) {
	t.Parallel()
	object := policyOf(t, "spec: {targetRef: {name: shop}}")
	if errs := newAdmission(t).admit(t.Context(), object, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	var got v1alpha1.BalancePolicy
	typed(t, object, &got)
	want := v1alpha1.BalancePolicySpec{
		TargetRef: v1alpha1.TargetRef{Kind: "Service", Name: "shop"},
		Mode:      v1alpha1.Recommend,
		Strategy:  v1alpha1.LeastLatency,
		Interval:  &metav1.Duration{Duration: 30 * time.Second},
		Limits: v1alpha1.Limits{
			UtilizationPercent: 70, MinSharePercent: 5, MaxSharePercent: 1000,
			StepPercent: 100, DeadBandPercent: ptr.To[int32](5), Capacity: ptr.To(resource.MustParse("1")),
		},
		Freshness: v1alpha1.Freshness{CoveragePercent: 60},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestTypedClient sees that what a client in Go sends is admitted: a field that the
// type writes out although it was not set must not break a rule.
func TestTypedClient(t *testing.T) {
	t.Parallel()
	a := newAdmission(t)
	for name, source := range map[string]*v1alpha1.Source{
		"no source":        nil,
		"resource metrics": {Type: v1alpha1.ResourceMetrics},
		"a store":          {Type: v1alpha1.Prometheus, URL: "http://prometheus:9090"},
		"credentials": {
			Type: v1alpha1.VictoriaMetrics, URL: "https://vm:8428", Headers: map[string]string{"X-Scope-OrgID": "shop"},
			Auth: &v1alpha1.Auth{Type: "Basic", SecretName: "vm"}, TLS: &v1alpha1.TLS{CASecretName: "vm-ca"},
		},
		"queries": {
			Type: v1alpha1.Prometheus, URL: "http://prometheus:9090", Window: &metav1.Duration{Duration: time.Minute},
			Queries: v1alpha1.Queries{CPU: &v1alpha1.Query{Selector: "cpu", Type: "Gauge"}, Requests: &v1alpha1.Query{Disabled: true}},
		},
	} {
		policy := v1alpha1.BalancePolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "demo"},
			Spec:       v1alpha1.BalancePolicySpec{TargetRef: v1alpha1.TargetRef{Name: "shop"}, Source: source},
		}
		policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BalancePolicy"))
		once := send(t, a, &policy)
		if twice := send(t, a, once); !cmp.Equal(once, twice) {
			t.Errorf("%s: sent back as it was read, it changes:\n%s", name, cmp.Diff(once, twice))
		}
	}
}

// send has a policy admitted as JSON, and returns what a client would read then.
func send(t *testing.T, a *admission, policy *v1alpha1.BalancePolicy) *v1alpha1.BalancePolicy {
	t.Helper()
	sent, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	object := decode(t, sent)
	if errs := a.admit(t.Context(), object, nil); len(errs) > 0 {
		t.Errorf("%s: %v", sent, errs)
	}
	stored, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	read := &v1alpha1.BalancePolicy{}
	if err := json.Unmarshal(stored, read); err != nil {
		t.Fatal(err)
	}
	return read
}
