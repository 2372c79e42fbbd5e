package promql

import (
	"fmt"
	"time"

	prommodel "github.com/prometheus/common/model"
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
}

// queries is the pair that one metric is read by.
type queries struct {
	metric string
	value  string
	time   string
}

// newQueries returns nil for a metric without a selector.
func newQueries(name string, m Metric, label string, window time.Duration) (*queries, error) {
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
	return &queries{
		metric: name,
		value:  fmt.Sprintf("sum by (%s) (%s(%s[%s]))", label, function, selector, prommodel.Duration(window)),
		// Of an endpoint's series the newest counts. The oldest would be the
		// last sample of a container that has ended: it stays in sight for
		// minutes and no longer adds to the rate.
		time: fmt.Sprintf("max by (%s) (timestamp(%s))", label, selector),
	}, nil
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

// parseSelector returns the selector as the parser writes it, so that nothing
// but a selector gets into the query, not even a comment.
func parseSelector(text string) (string, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return "", err
	}
	selector, ok := expr.(*parser.VectorSelector)
	if !ok {
		return "", fmt.Errorf("this is of type %s; want a plain series selector such as name{pod=~\"fib-.*\"}, the rate is added", parser.DocumentedType(expr.Type()))
	}
	if selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 {
		return "", fmt.Errorf("offset and @ would read the past; want a plain series selector such as name{pod=~\"fib-.*\"}")
	}
	return selector.String(), nil
}
