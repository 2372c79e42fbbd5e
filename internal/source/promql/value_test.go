package promql

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestValue(t *testing.T) {
	const query = `sum(rate(errors_total[2m])) / sum(rate(requests_total[2m]))`
	vector := func(values ...string) string {
		for i, v := range values {
			values[i] = fmt.Sprintf(`{"metric":{"code":"50%d"},"value":[2000.1,%q]}`, i, v)
		}
		return `{"resultType":"vector","result":[` + strings.Join(values, ",") + `]}`
	}
	for name, test := range map[string]struct {
		data, more string
		want       float64
		fails      string
	}{
		"a vector of one":   {vector("0.25"), "", 0.25, ""},
		"a scalar":          {`{"resultType":"scalar","result":[2000.1,"-3e-2"]}`, "", -0.03, ""},
		"the result first":  {`{"result":[2000.1,"7"],"resultType":"scalar"}`, "", 7, ""},
		"a note on style":   {vector("0"), `,"infos":["metric might not be a counter"]`, 0, ""},
		"nothing":           {vector(), "", 0, "the answer is empty; want one number"},
		"several":           {vector("1", "1"), "", 0, "the answer has 2 series; want one number"},
		"not a number":      {vector("NaN"), "", 0, "not a number (NaN)"},
		"a scalar NaN":      {`{"resultType":"scalar","result":[2000.1,"NaN"]}`, "", 0, "not a number (NaN)"},
		"infinite":          {vector("-Inf"), "", 0, "infinite (-Inf)"},
		"a string":          {`{"resultType":"string","result":[2000.1,"1"]}`, "", 0, `is of type "string"; want one number`},
		"a matrix":          {`{"resultType":"matrix","result":[]}`, "", 0, `is of type "matrix"; want one number`},
		"a histogram":       {`{"resultType":"vector","result":[{"metric":{},"histogram":[2000,{}]}]}`, "", 0, "has no value; want plain numbers"},
		"a scalar of three": {`{"resultType":"scalar","result":[2000,"1","2"]}`, "", 0, "the answer cannot be used"},
		"a warning":         {vector("1"), `,"warnings":["store-1 is away"]`, 0, `the store warns "store-1 is away"`},
		"partial":           {vector("1"), `,"isPartial":true`, 0, "the answer is partial"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.FormValue("query"); got != query {
					t.Errorf("asked for %q", got)
				}
				fmt.Fprintf(w, `{"status":"success","data":%s%s}`, test.data, test.more)
			}))
			defer server.Close()
			s, err := New(Config{URL: server.URL, Window: time.Minute, CPU: Metric{Selector: "up"}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Value(t.Context(), query)
			if got != test.want || (err == nil) != (test.fails == "") {
				t.Errorf("%g, %v; want %g and an error with %q", got, err, test.want, test.fails)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "asking "+server.URL+` for "sum(`) || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("%q; want it to name the store, the query and %q", err, test.fails)
			}
		})
	}
}
