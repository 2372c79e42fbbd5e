package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/metrics"
)

// exposed returns the metrics of the operator and of its process, each with the
// labels that its series have.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	registry, decisions := prometheus.NewPedanticRegistry(), journal.New()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := metrics.New(registry, decisions, metrics.Options{Version: "v1", Leading: func() bool { return true }, Endpoints: 10})
	policy := types.NamespacedName{Namespace: "shop", Name: "cart"}
	entry := journal.Entry{
		Policy: policy, Service: "cart", Mode: "Enforce", Strategy: "LeastLatency", Interval: time.Minute, MaxAge: time.Hour,
		At: time.Now(), Sampled: true, Evidence: balance.FromCPU, Hold: balance.Hold{Reason: balance.Stale},
		Conditions: map[string]journal.Condition{"Ready": {Status: "True", Reason: "Enforcing"}},
		Endpoints: []journal.Endpoint{{Pod: "cart-0", InForce: 20, Verdict: balance.Verdict{
			Address: "10.0.0.1", Weight: 20, Share: 1, Proposed: 1, Demand: 1, Capacity: 1, Utilization: 1,
		}}},
	}
	decisions.Record(entry)
	m.Decided(entry)
	m.Written(policy)
	m.ApplyFailed(policy, "WriteFailed")
	m.Queried("metrics.k8s.io", time.Second, fmt.Errorf("away"))
	m.Cycled(time.Second)
	m.MembershipWritten(time.Second)

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, family := range families {
		own := []string{"job", "instance"} // from the scrape
		for _, pair := range family.GetMetric()[0].GetLabel() {
			own = append(own, pair.GetName())
		}
		labels[family.GetName()] = own
		if family.GetMetric()[0].GetHistogram() != nil {
			labels[family.GetName()+"_count"], labels[family.GetName()+"_sum"] = own, own
			labels[family.GetName()+"_bucket"] = append([]string{"le"}, own...)
		}
	}
	return labels
}

// checkQuery reports metrics in a query that the operator does not have, and labels
// that they do not have.
func checkQuery(query string, exposed map[string][]string) error {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return err
	}
	all := map[string]bool{} // labels of any series in the query
	var wrong []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, ok := exposed[selector.Name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("there is no metric %q", selector.Name))
		}
		for _, label := range labels {
			all[label] = true
		}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != "__name__" && !slices.Contains(labels, matcher.Name) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", selector.Name, matcher.Name))
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		var named []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			named = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				named = node.VectorMatching.MatchingLabels
			}
		}
		for _, label := range named {
			if !all[label] {
				wrong = append(wrong, "no series has the label "+label)
			}
		}
		return nil
	})
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %s", query, strings.Join(wrong, "; "))
	}
	return nil
}

func TestCheckQuery(t *testing.T) {
	t.Parallel()
	exposed := exposed(t)
	for query, want := range map[string]string{
		"sum by (job) (taper_leader)":                             "",
		"rate(taper_cycle_duration_seconds_bucket{le=\"1\"}[5m])": "",
		"taper_laeder":                              `no metric "taper_laeder"`,
		"taper_leader{policy=\"a\"}":                "taper_leader has no label policy",
		"taper_leader_bucket":                       `no metric "taper_leader_bucket"`,
		"sum by (policy) (taper_leader)":            "no series has the label policy",
		"taper_leader and on (policy) taper_leader": "no series has the label policy",
		"taper_leader and":                          "parse error",
		"taper_policy_held{reason=\"Stale\"} and on (job, instance) taper_leader": "",
	} {
		if err := checkQuery(query, exposed); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

// variables stand for what Grafana puts into queries.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$namespace", "shop", "$policy", "cart")

// TestDashboard sees that each panel has queries, of metrics that exist, and a place
// of its own.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chartDir + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	exposed := exposed(t)
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("panel %q has the id of another", panel.Title)
		}
		ids[panel.ID] = true
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				cell := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if taken[cell] != "" || cell[0] >= 24 {
					t.Errorf("panel %q lies upon %q, or beyond the edge", panel.Title, taken[cell])
				}
				taken[cell] = panel.Title
			}
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			if err := checkQuery(variables.Replace(target.Expr), exposed); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
		}
	}
	if len(dashboard.Panels) == 0 {
		t.Error("there are no panels")
	}
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, variable := range dashboard.Templating.List {
		if variable.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(variable.Definition)
		if m == nil {
			t.Errorf("variable %q: want label_values(METRIC, LABEL)", variable.Definition)
		} else if err := checkQuery(fmt.Sprintf("count by (%s) (%s)", m[2], variables.Replace(m[1])), exposed); err != nil {
			t.Error(err)
		}
	}
}

// TestDashboardIsRendered sees that Grafana's sidecar finds the file as it is.
func TestDashboardIsRendered(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(chartDir + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	config := find[*corev1.ConfigMap](t, render(t, "dashboard.enabled=true"), name+"-dashboard")
	if config.Labels["grafana_dashboard"] != "1" || strings.TrimSpace(config.Data["taper.json"]) != strings.TrimSpace(string(want)) {
		t.Errorf("labels %v, and the dashboard differs from the file: %v", config.Labels, slices.Collect(maps.Keys(config.Data)))
	}
}
