package promql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func TestQueries(t *testing.T) {
	pod, podIn := grouping{"", "pod"}, grouping{"namespace", "pod"}
	for name, test := range map[string]struct {
		metric     Metric
		labels     grouping
		window     time.Duration
		namespaces []string
		want       string
	}{
		"counter": {
			Metric{Selector: cpuSelector, Type: Counter}, pod, 2 * time.Minute, nil,
			`label_replace(sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"}[2m])), "taper_reading", "value", "", "")` +
				` or label_replace(max by (pod) (timestamp(container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"})), "taper_reading", "time", "", "")`,
		},
		"gauge, a short window": {
			Metric{Selector: "cpu_usage", Type: Gauge}, grouping{"", "instance"}, 1500 * time.Millisecond, nil,
			ask("instance", "avg_over_time", "cpu_usage", "1s500ms"),
		},
		"a comment is not passed on": {
			Metric{Selector: "up # [1h]) or vector(1"}, pod, time.Minute, nil, ask("pod", "rate", "up", "1m"),
		},
		"one namespace": {
			ClusterRequests, podIn, time.Minute, []string{"shop"},
			ask("namespace,pod", "rate", `istio_requests_total{namespace="shop",reporter="destination"}`, "1m"),
		},
		"namespaces are literal": {
			Metric{Selector: "up"}, podIn, time.Minute, []string{"a.b", `c"|d`},
			ask("namespace,pod", "rate", `up{namespace=~"a\\.b|c\"\\|d"}`, "1m"),
		},
		"the selector's own namespace counts too": {
			Metric{Selector: `up{namespace!="dev"}`}, podIn, time.Minute, []string{"dev", "shop"},
			ask("namespace,pod", "rate", `up{namespace!="dev",namespace=~"dev|shop"}`, "1m"),
		},
		"too many namespaces to name": {
			Metric{Selector: "up"}, podIn, time.Minute, many(1000), ask("namespace,pod", "rate", "up", "1m"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := newQuery("cpu", test.metric, test.labels, test.window)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second sees that the first has left the selector alone
				if got := q.text(test.namespaces); got != test.want {
					t.Errorf("%s\nwant %s", got, test.want)
				}
			}
			if err := CheckQuery(test.want); err != nil {
				t.Error(err)
			}
		})
	}
}

func many(n int) []string {
	namespaces := make([]string, n)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("namespace-%04d", i)
	}
	return namespaces
}

// TestQueryLength sees that queries stay within what VictoriaMetrics takes, and that
// a few hundred namespaces do.
func TestQueryLength(t *testing.T) {
	q, err := newQuery("cpu", ClusterCPU, grouping{"namespace", "pod"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 10, 100, 400, 500, 600, 1000, 10000} {
		text := q.text(many(n))
		if len(text) > 16384 {
			t.Errorf("%d namespaces: %d bytes", n, len(text))
		}
		if named := strings.Contains(text, "namespace-0000"); named != (n <= 500) {
			t.Errorf("%d namespaces: named is %v", n, named)
		}
	}
}

// TestClusterMetrics sees that the defaults are accepted as they are.
func TestClusterMetrics(t *testing.T) {
	if _, err := New(Config{
		URL: "http://prometheus:9090", NamespaceLabel: "namespace", Window: time.Minute,
		CPU: ClusterCPU, Requests: ClusterRequests, InFlight: ClusterInFlight,
	}); err != nil {
		t.Error(err)
	}
	for _, m := range []Metric{ClusterCPU, ClusterRequests, ClusterInFlight} {
		if err := CheckSelector(m.Selector); err != nil {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	for text, fails := range map[string]struct{ selector, query string }{
		`up`:                            {"", ""},
		`sum(rate(errors_total[2m]))`:   {"is of type instant vector; want a plain series selector", ""},
		`1`:                             {"is of type scalar", ""},
		`up[5m]`:                        {"is of type range vector", `query "up[5m]" is of type range vector; want one number`},
		`"text"`:                        {"is of type string", "is of type string; want one number"},
		`up{`:                           {`selector "up{": 1:4: parse error`, `query "up{": 1:4: parse error`},
		``:                              {"no expression found", "no expression found"},
		`up keep_metric_names`:          {"parse error", "parse error"},
		strings.Repeat("(", 300) + "up": {"…", "…"},
	} {
		for want, err := range map[string]error{fails.selector: CheckSelector(text), fails.query: CheckQuery(text)} {
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%.50q: %v; want %q", text, err, want)
			}
		}
	}
}

// FuzzSelector sees that whatever is accepted as a selector reads two vectors of the
// namespaces asked for, and nothing else.
func FuzzSelector(f *testing.F) {
	for _, text := range []string{"up", cpuSelector, ClusterCPU.Selector, `up) or (down`, `{"odd name",a="\"}[1m])"}`, "up # [1h]) or x", `up offset 1m`, `{__name__=~"a.*"}`, "up\n{a='`'}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := newQuery("cpu", Metric{Selector: text}, grouping{"namespace", "pod"}, time.Minute)
		if err != nil || q == nil {
			return
		}
		expr, err := parse(q.of(within(q.selector, "namespace", []string{"bank", "shop"})))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		vectors := 0
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			vectors++
			if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "namespace" && m.Value == "bank|shop" }) {
				t.Errorf("%q reads %s", text, selector)
			}
			return nil
		})
		if vectors != 2 {
			t.Errorf("%q reads %d vectors in %s", text, vectors, expr)
		}
	})
}
