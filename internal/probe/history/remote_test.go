package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/lab/store/victoriametrics"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
)

// victoria is the URL of a real server, which ends with the test.
func victoria(t *testing.T) string {
	t.Helper()
	if _, err := process.Lookup("victoria-metrics", "install victoria-metrics"); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up_to_now 1") }))
	t.Cleanup(target.Close)
	store, err := victoriametrics.Start(t.Context(), victoriametrics.Config{Targets: []string{target.URL + "/metrics"}, ScrapeEvery: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store.URL()
}

// ask is the values of a query at a time, by what the by label says.
func ask(t *testing.T, store, query, by string, at time.Time) map[string]float64 {
	t.Helper()
	response, err := http.Get(store + "/api/v1/query?" + url.Values{
		"query": {query}, "time": {strconv.FormatInt(at.Unix()+1, 10)}, "step": {"1m"}, "nocache": {"1"},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			t.Fatal(err)
		}
		values[r.Metric[by]] = v
	}
	return values
}

func TestAStoreHasWhatWasMeasured(t *testing.T) {
	store := victoria(t)
	remote, err := history.NewRemote(history.RemoteOptions{URL: store + "/api/v1/write"})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now().Add(-time.Minute).Truncate(time.Second)
	r, m, p := read[probe.Result](t, "compared"), read[probe.Matrix](t, "matrix"), read[probe.PageLoad](t, "pageload")
	r.Started, r.Others[0].Started, m.Started, p.Started = started, started, started, started
	for _, err := range []error{history.Write(t.Context(), remote, r), history.Write(t.Context(), remote, m), history.Write(t.Context(), remote, p)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if response, err := http.Get(store + "/internal/force_flush"); err != nil {
		t.Fatal(err)
	} else {
		response.Body.Close()
	}
	bandwidth := map[string]float64{"host": r.Tests[0].BytesPerS, "pod": r.Others[0].Tests[0].BytesPerS}
	latency := map[string]float64{"0.5": *r.Tests[1].RTT.P50 / 1e6, "0.9": *r.Tests[1].RTT.P90 / 1e6, "0.99": *r.Tests[1].RTT.P99 / 1e6, "1": r.Tests[1].RTT.Max / 1e6}
	cell := m.Cells[0]
	step := p.Targets[0].Steps[3]
	for _, test := range []struct {
		query, by string
		want      map[string]float64
	}{
		{`taper_net_bandwidth_bytes_per_second{test="tcp_bw",direction="out",from="web-1"}`, "name", bandwidth},
		{`taper_net_rtt_seconds{test="tcp_lat",name="host"}`, "quantile", latency},
		{`taper_net_shaped`, "name", map[string]float64{"host": 0, "pod": 1}},
		{`taper_net_shaping_bucket_bytes{direction="out"}`, "name", map[string]float64{"pod": r.Others[0].Conditions.Shaping.BucketBytes}},
		{`taper_net_path_mtu_bytes`, "name", map[string]float64{"host": 1500, "pod": 1450}},
		{`taper_net_bandwidth_bytes_per_second{from="` + cell.From + `",to="` + cell.To + `",path="` + string(cell.Path) + `"}`, "to", map[string]float64{cell.To: cell.BytesPerS}},
		{`count(taper_net_bandwidth_bytes_per_second{path="pod",from_block!=""})`, "", map[string]float64{"": 110}},
		{`taper_net_page_seconds{target="balancer",users="8"}`, "quantile", map[string]float64{"0.5": *step.P50 / 1e3, "0.9": *step.P90 / 1e3, "0.99": *step.P99 / 1e3}},
		{`taper_net_page_errors{users="64"}`, "target", map[string]float64{"balancer": 3, "node-a": 3, "node-b": 3}},
		{`taper_net_lost_ratio{name="host"}`, "test", map[string]float64{"udp_bw": *r.Tests[4].LostShare}},
	} {
		got := ask(t, store, test.query, test.by, started)
		if !maps.EqualFunc(got, test.want, func(a, b float64) bool { return a == b || a/b > 1-1e-9 && a/b < 1+1e-9 }) {
			t.Errorf("%s by %s is %v, want %v", test.query, test.by, got, test.want)
		}
	}
}

// answers is a store that answers each request with the next status.
type answers struct {
	*httptest.Server
	statuses []int
	requests []*http.Request
	series   int
}

func newAnswers(t *testing.T, statuses ...int) *answers {
	a := &answers{statuses: statuses}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a.requests = append(a.requests, r)
		status := http.StatusNoContent
		if n := len(a.requests); n <= len(a.statuses) {
			status = a.statuses[n-1]
		}
		if status/100 == 2 {
			a.series += count(t, body)
		}
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		if status/100 != 2 {
			fmt.Fprintf(w, "no:\n%s %s", r.Header.Get("Authorization"), r.URL.RawQuery)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func count(t *testing.T, body []byte) int {
	t.Helper()
	plain, err := snappy.Decode(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	var request prompb.WriteRequest
	if err := request.Unmarshal(plain); err != nil {
		t.Fatal(err)
	}
	for _, s := range request.Timeseries {
		for i := 1; i < len(s.Labels); i++ {
			if s.Labels[i-1].Name >= s.Labels[i].Name || s.Labels[i].Value == "" {
				t.Errorf("labels are out of order, double, or empty: %v", s.Labels)
			}
		}
	}
	return len(request.Timeseries)
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatAStoreCannotDoNowIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		statuses []int
		requests int
		err      string
	}{
		{"at once", nil, 1, ""},
		{"after failures", []int{503, 429, 500}, 4, ""},
		{"never", []int{500, 500, 500, 500, 500, 500}, 5, "given up after 5 attempts: the store answered 500 Internal Server Error"},
		{"refused", []int{400}, 1, "the store answered 400 Bad Request"},
		{"not allowed", []int{401}, 1, "the store answered 401 Unauthorized"},
		{"elsewhere", []int{302}, 1, "the store answered 302 Found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := newAnswers(t, test.statuses...)
			const token = "s3cr3t-token"
			remote, err := history.NewRemote(history.RemoteOptions{URL: store.URL + "/write?key=hunter2", TokenFile: file(t, token+"\n")})
			if err != nil {
				t.Fatal(err)
			}
			history.Hurry(remote)
			err = history.Write(t.Context(), remote, read[probe.Result](t, "single"))
			switch {
			case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("error %v, want %q in it", err, test.err)
			case err != nil && (strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("the error tells a secret: %v", err)
			}
			if len(store.requests) != test.requests {
				t.Errorf("%d requests, want %d", len(store.requests), test.requests)
			}
			first := store.requests[0]
			for name, want := range map[string]string{
				"Authorization": "Bearer " + token, "Content-Encoding": "snappy", "Content-Type": "application/x-protobuf", "X-Prometheus-Remote-Write-Version": "0.1.0",
			} {
				if got := first.Header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestALargeMatrixIsWrittenInParts(t *testing.T) {
	t.Parallel()
	store := newAnswers(t)
	remote, err := history.NewRemote(history.RemoteOptions{URL: store.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := history.Write(t.Context(), remote, matrixOf(1, 80, 1e9)); err != nil {
		t.Fatal(err)
	}
	if store.series != 80*79 || len(store.requests) != 4 {
		t.Errorf("%d samples in %d requests, want %d in 4", store.series, len(store.requests), 80*79)
	}
}

func TestAStoreThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	password := "pass word"
	remote, err := history.NewRemote(history.RemoteOptions{URL: gone.URL + "/write?key=hunter2", User: "me", PasswordFile: file(t, password)})
	if err != nil {
		t.Fatal(err)
	}
	history.Hurry(remote)
	err = history.Write(t.Context(), remote, read[probe.Result](t, "single"))
	if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), gone.URL+"/write") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := history.Write(ctx, remote, read[probe.Result](t, "single")); err == nil {
		t.Error("with no time there is no error")
	}
}

func TestOptionsOfAStore(t *testing.T) {
	t.Parallel()
	good := file(t, "token")
	for _, test := range []struct {
		options history.RemoteOptions
		want    string
	}{
		{history.RemoteOptions{URL: "victoria:8428"}, "no URL of a store"},
		{history.RemoteOptions{URL: "http://"}, "no URL of a store"},
		{history.RemoteOptions{URL: "http://a/%zz:hunter2"}, "no URL of a store"},
		{history.RemoteOptions{URL: "http://me:hunter2@a/"}, "has a user or password in it"},
		{history.RemoteOptions{URL: "http://a/", TokenFile: good, User: "me", PasswordFile: good}, "exclude each other"},
		{history.RemoteOptions{URL: "http://a/", User: "me"}, "belong together"},
		{history.RemoteOptions{URL: "http://a/", PasswordFile: good}, "belong together"},
		{history.RemoteOptions{URL: "http://a/", TokenFile: "/no/such/file"}, "/no/such/file"},
		{history.RemoteOptions{URL: "http://a/", TokenFile: file(t, " \n")}, "there is no secret"},
		{history.RemoteOptions{URL: "http://a/", TokenFile: file(t, "hunter2\nhunter3")}, "there is no secret"},
	} {
		if _, err := history.NewRemote(test.options); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("error %v, want %q in it, and no secret", err, test.want)
		}
	}
}

// The store repeats what it was sent: neither the password nor its encoding is told.
func TestAPasswordIsNotTold(t *testing.T) {
	t.Parallel()
	store := newAnswers(t, http.StatusForbidden)
	const password = "two  words"
	remote, err := history.NewRemote(history.RemoteOptions{URL: store.URL, User: "me", PasswordFile: file(t, password+"\n")})
	if err != nil {
		t.Fatal(err)
	}
	err = history.Write(t.Context(), remote, read[probe.Result](t, "single"))
	user, sent, ok := store.requests[0].BasicAuth()
	if !ok || user != "me" || sent != password {
		t.Errorf("%q was sent for %q", sent, user)
	}
	encoded := strings.TrimPrefix(store.requests[0].Header.Get("Authorization"), "Basic ")
	if err == nil || !strings.Contains(err.Error(), `403 Forbidden: "no: Basic …`) || strings.Contains(err.Error(), encoded) || strings.Contains(err.Error(), "words") {
		t.Errorf("the error is %v", err)
	}
}

func TestAStoreThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	store := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(store.Close)
	t.Cleanup(func() { close(over) })
	remote, err := history.NewRemote(history.RemoteOptions{URL: store.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := history.Write(ctx, remote, read[probe.Result](t, "single")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 of ") {
		t.Errorf("the error is %v", err)
	}
}
