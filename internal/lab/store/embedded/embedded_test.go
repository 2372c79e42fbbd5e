package embedded

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

func TestStartRejects(t *testing.T) {
	target := []string{"http://127.0.0.1:9090/metrics"}
	for name, test := range map[string]struct {
		cfg   Config
		fails string
	}{
		"no interval": {Config{Targets: target}, "scraping every 0s"},
		"retention":   {Config{Targets: target, ScrapeEvery: time.Minute, Retention: time.Second}, "keeping 1s of it"},
		"no target":   {Config{ScrapeEvery: time.Second}, "no target to scrape"},
		"not a URL":   {Config{Targets: []string{"user:secret@host"}, ScrapeEvery: time.Second}, "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(test.cfg)
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v; want an error with %q and no secret", err, test.fails)
			}
		})
	}
}

// target says what it is told to; a nil text is a failed scrape.
type target struct{ text *string }

func (t *target) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if t.text == nil {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	io.WriteString(w, *t.text)
}

// TestScrape goes through what happens to a series: it comes, it goes, its
// target fails and comes back.
func TestScrape(t *testing.T) {
	served := &target{}
	server := httptest.NewServer(served)
	defer server.Close()
	kept := newMemory(time.Second, time.Hour)
	scrapers, err := newScrapers(Config{Targets: []string{server.URL}, ScrapeEvery: 10 * time.Second}, kept)
	if err != nil {
		t.Fatal(err)
	}
	api := newAPI(kept)
	defer api.close()
	instance := server.Listener.Addr().String()
	exported := fmt.Sprintf(`{__name__="a", exported_instance="theirs", instance="%s", job="taper-lab"}`, instance)
	plain := fmt.Sprintf(`{__name__="a", instance="%s", job="taper-lab", pod="fib-\"1\""}`, instance)
	up := fmt.Sprintf(`{__name__="up", instance="%s", job="taper-lab"}`, instance)

	text := func(s string) *string { return &s }
	for _, step := range []struct {
		name string
		text *string
		want map[string]float64
	}{
		{"first", text("# TYPE a counter\na{pod=\"fib-\\\"1\\\"\"} 1\na{instance=\"theirs\"} 2 1234\n"), map[string]float64{plain: 1, exported: 2, up: 1}},
		{"a series is gone", text("a{pod=\"fib-\\\"1\\\"\"} 3\n"), map[string]float64{plain: 3, up: 1}},
		{"the target fails", nil, map[string]float64{up: 0}},
		{"the target is back", text("a{instance=\"theirs\"} 4\n"), map[string]float64{exported: 4, up: 1}},
		{"a bad line spoils all", text("a{instance=\"theirs\"} 5\na{ 6\n"), map[string]float64{up: 0}},
	} {
		served.text = step.text
		scrapers[0].scrape(t.Context())
		time.Sleep(2 * time.Millisecond) // samples are stamped in milliseconds
		if diff := cmp.Diff(step.want, now(t, api)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// now returns what an instant query sees of all series.
func now(t *testing.T, a *api) map[string]float64 {
	t.Helper()
	query, err := a.engine.NewInstantQuery(t.Context(), a.memory, nil, `{__name__=~".+"}`, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, s := range vector {
		values[s.Metric.String()] = s.F
	}
	return values
}

// TestMemory sees that neither samples nor series grow without bound, and that
// the newest samples are the ones that stay.
func TestMemory(t *testing.T) {
	m := newMemory(time.Second, 3*time.Second)
	for second := range int64(10) {
		lasting := labels.FromStrings(prommodel.MetricNameLabel, "lasting")
		passing := labels.FromStrings(prommodel.MetricNameLabel, "passing", "second", fmt.Sprint(second))
		m.add(second*1000, []value{
			{seriesKey(lasting), lasting, float64(second)},
			{seriesKey(lasting), lasting, -1}, // a second sample at the same time is dropped
			{seriesKey(passing), passing, 1},
		})
	}
	if len(m.series) != 1+4 {
		t.Errorf("%d series are kept, want the lasting one and those of the last 3 seconds", len(m.series))
	}
	s := m.series[seriesKey(labels.FromStrings(prommodel.MetricNameLabel, "lasting"))]
	want := samples{{6000, 6}, {7000, 7}, {8000, 8}, {9000, 9}}
	if diff := cmp.Diff(want, s.between(0, 100_000), cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1:3], s.between(7000, 8000), cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("samples from 7 to 8 s (-want +got):\n%s", diff)
	}
}

// TestAPI checks the form of answers, which clients of Prometheus rely on.
func TestAPI(t *testing.T) {
	kept := newMemory(time.Second, time.Hour)
	for second := range int64(5) {
		l := labels.FromStrings(prommodel.MetricNameLabel, "requests_total", "pod", "fib-1")
		g := labels.FromStrings(prommodel.MetricNameLabel, "temperature")
		kept.add(second*1000, []value{{seriesKey(l), l, float64(second * 10)}, {seriesKey(g), g, 20}})
	}
	api := newAPI(kept)
	defer api.close()
	server := httptest.NewServer(api.handler())
	defer server.Close()

	for name, test := range map[string]struct {
		form   url.Values
		status int
		want   string // a body that ends so
	}{
		"vector":     {url.Values{"query": {"requests_total"}, "time": {"4"}}, 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"requests_total","pod":"fib-1"},"value":[4,"40"]}]}}`},
		"rate":       {url.Values{"query": {"sum by (pod) (rate(requests_total[3s]))"}, "time": {"4.5"}}, 200, `"result":[{"metric":{"pod":"fib-1"},"value":[4.5,"10"]}]}}`},
		"own time":   {url.Values{"query": {"timestamp(requests_total)"}, "time": {"100.25"}}, 200, `"value":[100.25,"4"]}]}}`},
		"no series":  {url.Values{"query": {"nothing"}, "time": {"1970-01-01T00:00:04Z"}}, 200, `{"status":"success","data":{"resultType":"vector","result":[]}}`},
		"scalar":     {url.Values{"query": {"1 + 1"}, "time": {"4"}}, 200, `{"status":"success","data":{"resultType":"scalar","result":[4,"2"]}}`},
		"matrix":     {url.Values{"query": {"requests_total[1500ms]"}, "time": {"4"}}, 200, `"result":[{"metric":{"__name__":"requests_total","pod":"fib-1"},"values":[[3,"30"],[4,"40"]]}]}}`},
		"a remark":   {url.Values{"query": {"rate(temperature[3s])"}, "time": {"4"}}, 200, `"infos":["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"temperature\" (1:6)"]}`},
		"bad query":  {url.Values{"query": {"sum("}}, 400, `"errorType":"bad_data","error":"1:5: parse error: unclosed left parenthesis"}`},
		"bad time":   {url.Values{"query": {"up"}, "time": {"noon"}}, 400, `"errorType":"bad_data","error":"invalid time \"noon\"; want Unix seconds or RFC 3339"}`},
		"far future": {url.Values{"query": {"up"}, "time": {"1e300"}}, 400, `want Unix seconds or RFC 3339"}`},
		"execution":  {url.Values{"query": {`label_replace(requests_total, "a", "b", "pod", "(")`}, "time": {"4"}}, 422, `invalid regular expression in label_replace(): ("}`},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+" "+method, func(t *testing.T) {
				status, body := ask(t, server.URL, method, test.form)
				if status != test.status || !strings.HasSuffix(body, test.want) {
					t.Errorf("%d %s\nwant %d … %s", status, body, test.status, test.want)
				}
			})
		}
	}
	resp, err := http.Get(server.URL + "/-/healthy")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("/-/healthy: %v, %v", resp, err)
	}
	resp.Body.Close()
}

func ask(t *testing.T, base, method string, form url.Values) (int, string) {
	t.Helper()
	var resp *http.Response
	var err error
	if method == http.MethodGet {
		resp, err = http.Get(base + "/api/v1/query?" + form.Encode())
	} else {
		resp, err = http.PostForm(base+"/api/v1/query", form)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(body))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("# HELP a b\n# TYPE a counter\na{pod=\"x\"} 1 2\na NaN\n"))
	f.Add([]byte("a{instance=\"theirs\",job=\"\"} -Inf\r\n{"))
	s := &scraper{instance: "127.0.0.1:9090"}
	f.Fuzz(func(t *testing.T, body []byte) {
		values, err := s.parse(body)
		if err != nil && values != nil {
			t.Errorf("both values and an error: %v, %v", values, err)
		}
		for _, v := range values {
			if v.labels.Get("instance") != s.instance || v.labels.Get(prommodel.MetricNameLabel) == "" {
				t.Errorf("%s lacks the target or a name", v.labels)
			}
		}
	})
}
