package chart

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const alertsFile = chartDir + "/files/alerts.yaml"

func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	rules := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if _, twice := rules[rule.Alert]; twice || rule.Alert == "" {
				t.Errorf("alert %q is there twice, or has no name", rule.Alert)
			}
			rules[rule.Alert] = rule
		}
	}
	return rules
}

// TestAlerts holds the rules to their format, to metrics that exist, and to telling
// somebody who was woken up what is wrong.
func TestAlerts(t *testing.T) {
	t.Parallel()
	exposed := exposed(t)
	for name, rule := range alerts(t) {
		if err := checkQuery(rule.Expr, exposed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s := rule.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
			t.Errorf("%s has severity %q", name, s)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has annotations %v, want summary and description", name, rule.Annotations)
		}
	}
}

// TestAlertsAreRendered sees that the PrometheusRule has the rules of the file.
func TestAlertsAreRendered(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := yaml.UnmarshalStrict(text, &want); err != nil {
		t.Fatal(err)
	}
	rule := others(render(t, "prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus"), "PrometheusRule")[0]
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("PrometheusRule (-file +rendered):\n%s", diff)
	}
	if rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels %v", rule.GetLabels())
	}
}

// What a replica that leads, one that stands by, and a policy look like to Prometheus,
// in the notation of promtool: a sample per minute.
const (
	leads   = `taper_leader{job="taper",instance="a"} 1+0x120`
	standby = `taper_leader{job="taper",instance="b"} 0+0x120`
	ofA     = `job="taper",instance="a",namespace="shop",policy="cart"`
	ofB     = `job="taper",instance="b",namespace="shop",policy="cart"`
)

// TestAlertsFire evaluates each alert on series on which it must fire, and on similar
// ones on which it must not.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	held := func(reason, who string) string {
		return fmt.Sprintf(`taper_policy_held{%s,reason=%q} 1+0x120`, who, reason)
	}
	condition := func(kind, status, reason, who string) string {
		return fmt.Sprintf(`taper_policy_condition{%s,condition=%q,status=%q,reason=%q} 1+0x120`, who, kind, status, reason)
	}
	// slow is a histogram of which the given part takes longer than the bound.
	histogram := func(metric, bound string, below int) []string {
		return []string{
			fmt.Sprintf(`%s_bucket{job="taper",instance="a",le=%q} 0+%dx120`, metric, bound, below),
			fmt.Sprintf(`%s_bucket{job="taper",instance="a",le="60"} 0+100x120`, metric),
			fmt.Sprintf(`%s_bucket{job="taper",instance="a",le="+Inf"} 0+100x120`, metric),
		}
	}
	cases := map[string]struct {
		fires  [][]string
		silent [][]string
	}{
		"TaperAbsent": {
			[][]string{nil, {`up{job="taper"} 0+0x120`}},
			[][]string{{standby}, {leads}},
		},
		"TaperNoLeader": {
			[][]string{{standby}},
			[][]string{{leads, standby}, {leads}, nil},
		},
		"TaperMembershipSlow": {
			[][]string{histogram("taper_membership_write_latency_seconds", "1", 98)},
			[][]string{histogram("taper_membership_write_latency_seconds", "1", 100), {`taper_membership_write_latency_seconds_bucket{job="taper",le="+Inf"} 5+0x120`}, nil},
		},
		"TaperApplyFailing": {
			[][]string{{`taper_apply_errors_total{` + ofA + `,reason="WriteFailed"} 0+1x120`}},
			[][]string{{`taper_apply_errors_total{` + ofA + `,reason="ForeignServiceEntry"} 0+1x120`}, {`taper_apply_errors_total{` + ofA + `,reason="WriteFailed"} 7+0x120`}},
		},
		"TaperForeignServiceEntry": {
			[][]string{{leads, condition("Applied", "False", "ForeignServiceEntry", ofA)}},
			[][]string{{leads, standby, condition("Applied", "False", "ForeignServiceEntry", ofB)}, {leads, condition("Applied", "False", "Recommending", ofA)}},
		},
		"TaperHeld": {
			[][]string{{leads, held("Stale", ofA)}, {leads, held("LowCoverage", ofA)}, {leads, held("GuardRailUnknown", ofA)}},
			[][]string{{leads, held("DeadBand", ofA)}, {leads, held("Released", ofA)}, {leads, standby, held("Stale", ofB)}, {leads, held("Suspended", ofA)}},
		},
		"TaperReleased": {
			[][]string{{leads, held("Released", ofA)}},
			[][]string{{leads, held("Stale", ofA)}, {leads, standby, held("Released", ofB)}},
		},
		"TaperGuardRailBreached": {
			[][]string{{leads, held("GuardRailBreached", ofA)}},
			[][]string{{leads, held("GuardRailUnknown", ofA)}},
		},
		"TaperSourceFailing": {
			[][]string{{
				`taper_source_query_errors_total{job="taper",instance="a",source="http://p"} 0+2x120`,
				`taper_source_query_duration_seconds_count{job="taper",instance="a",source="http://p"} 0+2x120`,
			}},
			[][]string{{
				`taper_source_query_errors_total{job="taper",instance="a",source="http://p"} 0+1x120`,
				`taper_source_query_duration_seconds_count{job="taper",instance="a",source="http://p"} 0+2x120`,
			}, {
				`taper_source_query_errors_total{job="taper",instance="a",source="http://p"} 5+0x120`,
				`taper_source_query_duration_seconds_count{job="taper",instance="a",source="http://p"} 5+0x120`,
			}},
		},
		"TaperCycleSlow": {
			[][]string{append(histogram("taper_cycle_duration_seconds", "30", 50), `taper_policy_interval_seconds{`+ofA+`} 30+0x120`)},
			[][]string{
				append(histogram("taper_cycle_duration_seconds", "30", 100), `taper_policy_interval_seconds{`+ofA+`} 30+0x120`),
				histogram("taper_cycle_duration_seconds", "30", 50),
			},
		},
		"TaperDecisionsLate": {
			[][]string{{leads, `taper_policy_interval_seconds{` + ofA + `} 30+0x120`, `taper_policy_last_decision_timestamp_seconds{` + ofA + `} 60+0x120`}},
			[][]string{
				{leads, `taper_policy_interval_seconds{` + ofA + `} 30+0x120`, `taper_policy_last_decision_timestamp_seconds{` + ofA + `} 0+60x120`},
				{leads, `taper_policy_interval_seconds{` + ofA + `} 3600+0x120`, `taper_policy_last_decision_timestamp_seconds{` + ofA + `} 60+0x120`},
				{leads, standby, `taper_policy_interval_seconds{` + ofB + `} 30+0x120`, `taper_policy_last_decision_timestamp_seconds{` + ofB + `} 60+0x120`},
			},
		},
		"TaperPolicyNotReady": {
			[][]string{{leads, condition("Ready", "False", "Headless", ofA)}},
			[][]string{{leads, condition("Ready", "True", "Enforcing", ofA)}, {leads, condition("MetricsFresh", "False", "Stale", ofA)}},
		},
	}
	rules := alerts(t)
	for name := range rules {
		if _, ok := cases[name]; !ok {
			t.Errorf("nothing tries %s", name)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{})})
	for name, tt := range cases {
		for _, series := range tt.fires {
			if !fires(t, engine, rules[name], series) {
				t.Errorf("%s does not fire on\n%s", name, strings.Join(series, "\n"))
			}
		}
		for _, series := range tt.silent {
			if fires(t, engine, rules[name], series) {
				t.Errorf("%s fires on\n%s", name, strings.Join(series, "\n"))
			}
		}
	}
}

// fires evaluates a rule once a minute over its "for", which ends at minute 100.
func fires(t *testing.T, engine *promql.Engine, rule rulefmt.Rule, series []string) bool {
	t.Helper()
	end := time.Unix(100*60, 0)
	for at := end.Add(-time.Duration(rule.For)); !at.After(end); at = at.Add(time.Minute) {
		query, err := engine.NewInstantQuery(context.Background(), load(t, series), nil, rule.Expr, at)
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		if len(vector) == 0 {
			return false
		}
		query.Close()
	}
	return true
}
