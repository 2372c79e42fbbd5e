package promql

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// MetricType says how a metric becomes a reading.
type MetricType string

const (
	// Counter is a metric that only rises: its rate over the window is read.
	Counter MetricType = "counter"
	// Gauge is a metric that rises and falls: its mean over the window is read.
	Gauge MetricType = "gauge"
)

// Metric selects what is read for one quantity. An endpoint's series are summed:
// a pod has one per container, a workload one per response code.
type Metric struct {
	// Selector is a series selector,
	// such as container_cpu_usage_seconds_total{namespace="shop",pod=~"fib-.*"}.
	Selector string
	// Type is [Counter] if empty.
	Type MetricType
	// Scale is what values are multiplied by to be in cores, requests a second or
	// requests; 1 if 0.
	Scale float64
}

const (
	// kindLabel tells the two halves of an answer apart. It does not begin with
	// underscores: such labels are the store's own, and may be dropped.
	kindLabel = "taper_reading"
	kindValue = "value"
	kindTime  = "time"

	// maxQuery is the longest query, in bytes, that VictoriaMetrics takes by default
	// (-search.maxQueryLen). Prometheus takes longer ones.
	maxQuery = 16 << 10
)

// grouping are the labels that tell endpoints apart; namespace may be empty.
type grouping struct{ namespace, endpoint string }

func (g grouping) namespaced() bool { return g.namespace != "" }

func (g grouping) names() []string {
	if g.namespaced() {
		return []string{g.namespace, g.endpoint}
	}
	return []string{g.endpoint}
}

// answered are the labels that are read of an answer: the kind, then the names.
func (g grouping) answered() []string { return append([]string{kindLabel}, g.names()...) }

// query is what one metric is read by.
type query struct {
	metric   string
	selector *parser.VectorSelector
	function string
	window   time.Duration
	labels   grouping
	scale    float64
}

// newQuery returns nil for a metric without a selector.
func newQuery(name string, m Metric, labels grouping, window time.Duration) (*query, error) {
	if m.Selector == "" {
		return nil, nil
	}
	selector, err := parseSelector(m.Selector)
	if err != nil {
		return nil, fmt.Errorf("%s selector %q: %w", name, m.Selector, err)
	}
	function, err := m.Type.function()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.Scale < 0 || math.IsNaN(m.Scale) || math.IsInf(m.Scale, 0) {
		return nil, fmt.Errorf("%s: scale %g turns no value into a sensible one; want a number above 0, such as 0.001 for milliseconds", name, m.Scale)
	}
	q := &query{metric: name, selector: selector, function: function, window: window, labels: labels, scale: m.Scale}
	if q.scale == 0 {
		q.scale = 1
	}
	return q, nil
}

// text returns the PromQL that reads the endpoints of the namespaces; of all where
// there are none, or too many to name: what more is read then is little beside what
// is asked for, and is skipped without being kept.
func (q *query) text(namespaces []string) string {
	if len(namespaces) > 0 {
		if text := q.of(within(q.selector, q.labels.namespace, namespaces)); len(text) <= maxQuery {
			return text
		}
	}
	return q.of(q.selector)
}

// of asks for values and times in one vector, whose halves differ in the kind.
//
// Of an endpoint's series the newest gives the time. The oldest would be the last
// sample of a container that has ended: it stays in sight for minutes and no
// longer adds to the rate.
func (q *query) of(selector *parser.VectorSelector) string {
	by := strings.Join(q.labels.names(), ",")
	kind := func(vector, kind string) string {
		return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, vector, kindLabel, kind)
	}
	value := fmt.Sprintf("sum by (%s) (%s(%s[%s]))", by, q.function, selector, prommodel.Duration(q.window))
	time := fmt.Sprintf("max by (%s) (timestamp(%s))", by, selector)
	return kind(value, kindValue) + " or " + kind(time, kindTime)
}

// within returns the selector with a matcher of the namespaces added to its own.
func within(selector *parser.VectorSelector, label string, namespaces []string) *parser.VectorSelector {
	matcher := &labels.Matcher{Type: labels.MatchEqual, Name: label, Value: namespaces[0]}
	if len(namespaces) > 1 {
		quoted := make([]string, len(namespaces))
		for i, n := range namespaces {
			quoted[i] = regexp.QuoteMeta(n)
		}
		matcher.Type, matcher.Value = labels.MatchRegexp, strings.Join(quoted, "|")
	}
	narrowed := *selector
	narrowed.LabelMatchers = append(append([]*labels.Matcher(nil), selector.LabelMatchers...), matcher)
	return &narrowed
}

func (t MetricType) function() (string, error) {
	switch t {
	case Counter, "":
		return "rate", nil
	case Gauge:
		return "avg_over_time", nil
	}
	return "", fmt.Errorf("metric type %q is unknown; want %s or %s", t, Counter, Gauge)
}

// CheckSelector tells what is wrong with a selector, as [New] would.
func CheckSelector(selector string) error {
	if _, err := parseSelector(selector); err != nil {
		return fmt.Errorf("selector %q: %w", bounded(selector), err)
	}
	return nil
}

// CheckQuery tells what is wrong with a query for [Source.Value]. It knows PromQL:
// what only VictoriaMetrics understands is refused.
func CheckQuery(query string) error {
	expr, err := parse(query)
	if err != nil {
		return fmt.Errorf("query %q: %w", bounded(query), err)
	}
	if t := expr.Type(); t != parser.ValueTypeScalar && t != parser.ValueTypeVector {
		return fmt.Errorf("query %q is of type %s; want one number, such as sum(rate(errors_total[2m])) / sum(rate(requests_total[2m]))", bounded(query), parser.DocumentedType(t))
	}
	return nil
}

// parseSelector returns the selector as the parser reads it, so that nothing but a
// selector gets into the query, not even a comment.
func parseSelector(text string) (*parser.VectorSelector, error) {
	expr, err := parse(text)
	if err != nil {
		return nil, err
	}
	selector, ok := expr.(*parser.VectorSelector)
	if !ok {
		return nil, fmt.Errorf("this is of type %s; want a plain series selector such as name{pod=~\"fib-.*\"}, the rate is added", parser.DocumentedType(expr.Type()))
	}
	if selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 {
		return nil, errors.New("offset and @ would read the past; want a plain series selector such as name{pod=~\"fib-.*\"}")
	}
	return selector, nil
}

func parse(text string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(text)
}
