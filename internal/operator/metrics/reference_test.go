package metrics_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/metrics"
)

var update = flag.Bool("update", false, "write docs/operator-metrics.md anew")

// described is a registry that knows the names of what it was told to gather.
type described struct {
	*prometheus.Registry
	names map[string]bool
}

var fqName = regexp.MustCompile(`fqName: "([^"]*)"`)

func (r described) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			r.names[fqName.FindStringSubmatch(d.String())[1]] = true
		}
	}
	r.Registry.MustRegister(collectors...)
}

// everything is a registry in which each metric has a series.
func everything() described {
	reg, j := described{prometheus.NewPedanticRegistry(), map[string]bool{}}, journal.New()
	m := metrics.New(reg, j, metrics.Options{Leading: func() bool { return true }, Endpoints: 100})
	e := decided(cart)
	e.Hold = balance.Hold{Reason: balance.DeadBand}
	j.Record(e)
	m.Decided(e)
	m.Written(cart)
	m.ApplyFailed(cart, "Conflict")
	m.Queried("metrics.k8s.io", time.Second, nil)
	m.Cycled(time.Second)
	m.MembershipWritten(time.Second)
	return reg
}

func TestLint(t *testing.T) {
	t.Parallel()
	families, err := everything().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestReference(t *testing.T) {
	const committed = "../../../docs/operator-metrics.md"
	fresh := reference(t)
	if *update {
		if err := os.WriteFile(committed, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != fresh {
		t.Error("docs/operator-metrics.md is stale: run make generate")
	}
}

const preamble = `# Metrics of the operator

Written by ` + "`make generate`" + `. Served at ` + "`/metrics`" + `, beside those of
controller-runtime, client-go and the Go runtime.

A series is absent while its value is unknown. The series of a policy are served by
the replica that leads (` + "`taper_leader`" + ` is 1) and go with the policy. Labels
` + "`namespace`" + ` and ` + "`pod`" + ` are those of what is balanced, so that they join with
the metrics of its pods: scrape with ` + "`honorLabels: true`" + `. A histogram's
` + "`_count`" + ` is how often that happened.

| name | type | labels | meaning |
|---|---|---|---|
`

// reference renders what is gathered, which must be all that is described.
func reference(t *testing.T) string {
	t.Helper()
	reg := everything()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(preamble)
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		help := strings.ReplaceAll(f.GetHelp(), "|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), help)
		delete(reg.names, f.GetName())
	}
	if len(reg.names) > 0 {
		t.Errorf("these are not in the reference, have the test give them a series: %v", slices.Sorted(maps.Keys(reg.names)))
	}
	return b.String()
}
