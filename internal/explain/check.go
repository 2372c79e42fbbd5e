package explain

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/trap"
)

// Check is a condition that an explanation is held to, such as "p99<50ms". [ParseCheck]
// makes one.
type Check struct {
	text   string
	metric string // "" for noHighFindings
	route  string // as Route.Name says it; "" is each route
	or     bool   // or equal
	limit  float64
}

const noHighFindings = "no-high-findings"

// metrics are what a check can be about: milliseconds, and errors in percent.
var metrics = map[string]func(*Route) float64{
	"p50":    func(r *Route) float64 { return r.P50MS },
	"p90":    func(r *Route) float64 { return r.P90MS },
	"p99":    func(r *Route) float64 { return r.P99MS },
	"max":    func(r *Route) float64 { return r.MaxMS },
	"mean":   func(r *Route) float64 { return r.MeanMS },
	failures: func(r *Route) float64 { return 100 * float64(r.Failed) / float64(r.Count) },
}

const failures = "errors"

// grammar is metric, route in parentheses, comparison, limit.
var grammar = regexp.MustCompile(`^\s*(\w+)\s*(?:\((.*)\)\s*)?(<=?)\s*(\S+)\s*$`)

// ParseCheck reads a check. The error says what is right.
func ParseCheck(text string) (Check, error) {
	if strings.TrimSpace(text) == noHighFindings {
		return Check{text: noHighFindings}, nil
	}
	m := grammar.FindStringSubmatch(text)
	if m == nil || metrics[m[1]] == nil {
		return Check{}, fmt.Errorf("check %q: it is METRIC<LIMIT, METRIC(ROUTE)<LIMIT or %s, METRIC being p50, p90, p99, max, mean (limit such as 50ms) or errors (limit such as 1%%); for example 'p99(GET /v1/{id})<50ms'",
			text, noHighFindings)
	}
	c := Check{text: strings.TrimSpace(text), metric: m[1], route: strings.TrimSpace(m[2]), or: m[3] == "<="}
	limit, err := parseLimit(c.metric, m[4])
	if err != nil {
		return Check{}, fmt.Errorf("check %q: %w", text, err)
	}
	c.limit = limit
	return c, nil
}

func parseLimit(metric, text string) (float64, error) {
	if metric == failures {
		number, percent := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !percent || !(v >= 0 && v <= 100) {
			return 0, fmt.Errorf("the limit %q of errors is no share: write one such as 1%%", text)
		}
		return v, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("the limit %q of %s is no time: write one such as 50ms or 1.5s", text, metric)
	}
	return milliseconds(d), nil
}

// String is the check as it was written.
func (c Check) String() string { return c.text }

// Check says what does not hold, one line each; none if all does. What is not there
// holds nothing.
func (e *Explanation) Check(checks []Check) []string {
	var failed []string
	for _, c := range checks {
		failed = append(failed, e.check(c)...)
	}
	return failed
}

func (e *Explanation) check(c Check) []string {
	if c.metric == "" {
		return e.checkFindings(c)
	}
	if len(e.Routes) == 0 {
		return []string{fmt.Sprintf("%s: there are no requests", c)}
	}
	var failed []string
	known := false
	for i := range e.Routes {
		r := &e.Routes[i]
		if c.route != "" && c.route != r.Name() {
			continue
		}
		known = true
		if v := metrics[c.metric](r); !(v < c.limit || c.or && v == c.limit) {
			failed = append(failed, fmt.Sprintf("%s: %s of %s is %s (%s)", c, c.metric, r.Name(), c.value(v), requests(r.Count)))
		}
	}
	if !known {
		return []string{fmt.Sprintf("%s: there is no route %q; there are %s", c, c.route, e.routeNames())}
	}
	return failed
}

// value is exact enough to see on which side of a limit it is.
func (c Check) value(v float64) string {
	text := strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
	if c.metric == failures {
		return text + " %"
	}
	return text + " ms"
}

func (e *Explanation) checkFindings(c Check) []string {
	var failed []string
	for _, f := range e.Findings {
		if f.Severity == trap.High {
			failed = append(failed, fmt.Sprintf("%s: %s: %s", c, f.ID, f.Title))
		}
	}
	return failed
}

// routeNames lists some of the routes.
func (e *Explanation) routeNames() string {
	const most = 5
	var names []string
	for i := range e.Routes {
		if name := e.Routes[i].Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return enumerate(names)
}
