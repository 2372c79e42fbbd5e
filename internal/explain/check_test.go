package explain

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	e := article(false)
	e.Routes[0].Failed = 1
	tests := []struct {
		check string
		want  []string // parts of each failure
	}{
		{"p99(GET /v1/{id})<200ms", nil},
		{"p99 ( GET /v1/{id} ) <= 0.2s", nil},
		{"p50(GET /v1/{id})<20ms", []string{"p50(GET /v1/{id})<20ms: p50 of GET /v1/{id} is 105.67 ms (40 requests)"}},
		{"p99<150ms", []string{"p99 of GET /v1/search is 209 ms (1 request)"}},
		{"max<100ms", []string{"max of GET /v1/{id}", "max of GET /v1/search is 209 ms"}},
		{"mean(GET /health)<200us", []string{"mean of GET /health is 0.2 ms"}},
		{"mean(GET /health)<=200us", nil},
		{"errors(GET /v1/{id})<1%", []string{"errors of GET /v1/{id} is 2.5 %"}},
		{"errors<=2.5%", nil},
		{"p90(GET /nope)<1s", []string{`there is no route "GET /nope"; there are GET /v1/{id}, GET /v1/search and GET /health`}},
		{"no-high-findings", []string{"no-high-findings: credential-refresh: The credentials"}},
	}
	for _, test := range tests {
		c, err := ParseCheck(test.check)
		if err != nil {
			t.Errorf("%s: %v", test.check, err)
			continue
		}
		got := e.Check([]Check{c})
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", test.check, got, test.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], test.want[i]) {
				t.Errorf("%s: %q, want %q", test.check, got[i], test.want[i])
			}
		}
	}
}

func TestCheckWithoutRequests(t *testing.T) {
	t.Parallel()
	c, err := ParseCheck("errors<1%")
	if err != nil {
		t.Fatal(err)
	}
	if got := (&Explanation{}).Check([]Check{c}); len(got) != 1 || !strings.Contains(got[0], "there are no requests") {
		t.Errorf("without requests: %q", got)
	}
}

func TestBadChecks(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                  "METRIC<LIMIT",
		"p42<5ms":           "METRIC being p50, p90, p99, max, mean",
		"p99>5ms":           "for example 'p99(GET /v1/{id})<50ms'",
		"p99<5":             `"5" of p99 is no time: write one such as 50ms`,
		"p99<-5ms":          "no time",
		"errors<5ms":        "write one such as 1%",
		"errors<0.01":       "write one such as 1%",
		"errors<NaN%":       "no share",
		"no-low-findings":   "no-high-findings",
		"p99(GET /x<5ms":    "METRIC(ROUTE)<LIMIT",
		"p99<5ms\nwhatever": "METRIC<LIMIT",
	}
	for text, want := range tests {
		if _, err := ParseCheck(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParseCheck(f *testing.F) {
	for _, text := range []string{"p99<50ms", "p50(GET /v1/{id})<=20ms", "errors<1%", "no-high-findings", "p99((x))<1h", "mean<1e9h"} {
		f.Add(text)
	}
	e := article(true)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCheck(text)
		if err != nil {
			return
		}
		if c.metric != "" && !(c.limit >= 0) {
			t.Errorf("%q: limit %g", text, c.limit)
		}
		e.Check([]Check{c})
	})
}
