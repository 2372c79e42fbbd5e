package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.journal.Record(entry("shop", "cart", 2, time.Second))
	tests := []struct {
		method, path string
		status       int
		kind, has    string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8", `<script src="static/main.js"`},
		{"HEAD", "/", 200, "text/html; charset=utf-8", ""},
		{"GET", "/static/main.js", 200, "text/javascript; charset=utf-8", "import"},
		{"GET", "/static/page.css", 200, "text/css; charset=utf-8", "body"},
		{"GET", "/static/icon.svg", 200, "image/svg+xml", "<svg"},
		{"GET", "/static/uPlot.js", 200, "text/javascript; charset=utf-8", "uPlot"},
		{"GET", "/static/uPlot-licence.txt", 200, "text/plain; charset=utf-8", "MIT"},
		{"GET", "/static/handler.go", 404, "", ""},
		{"GET", "/static/", 404, "", ""},
		{"GET", "/favicon.ico", 404, "", ""},
		{"GET", "/api/", 404, "", ""},
		{"GET", "/api/policies", 200, "application/json", `"name":"cart"`},
		{"HEAD", "/api/policies", 200, "application/json", ""},
		{"GET", "/api/policies/shop/cart", 200, "application/json", `"pod":"cart-7d9f6c5b8-00001"`},
		{"GET", "/api/policies/shop/cart/history", 200, "application/json", `"weights":[30]`},
		{"GET", "/api/policies/shop/none", 404, "application/json", `"error":"no BalancePolicy shop/none is known here"`},
		{"GET", "/api/policies/shop/none/history", 404, "application/json", `"error":"no BalancePolicy shop/none`},
		{"GET", "/text", 200, "text/plain; charset=utf-8", "cart"},
		{"GET", "/text/shop/cart", 200, "text/plain; charset=utf-8", "cart-7d9f6c5b8-00001"},
		{"GET", "/text/shop/none", 404, "text/plain; charset=utf-8", "shop/none"},
		{"POST", "/", 405, "", ""},
		{"DELETE", "/api/policies/shop/cart", 405, "", ""},
		{"PUT", "/static/main.js", 405, "", ""},
		{"PATCH", "/text", 405, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if w.Code != tt.status {
				t.Fatalf("status %d, want %d", w.Code, tt.status)
			}
			if got := w.Header().Get("Content-Type"); tt.kind != "" && got != tt.kind {
				t.Errorf("type %q, want %q", got, tt.kind)
			}
			if !strings.Contains(w.Body.String(), tt.has) {
				t.Errorf("%q is not in the answer:\n%.500s", tt.has, w.Body)
			}
			if tt.status == 405 && w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("allowed are %q, want GET and HEAD", w.Header().Get("Allow"))
			}
			for _, h := range []string{"X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy"} {
				if w.Header().Get(h) == "" {
					t.Errorf("there is no %s", h)
				}
			}
			policy := w.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none';") || regexp.MustCompile(`unsafe|https?:|\*`).MatchString(policy) {
				t.Errorf("the content security policy is %q", policy)
			}
		})
	}
}

// Nothing in the page names a path from the root, or a host: it works behind any
// prefix and without a network.
func TestPageIsRelative(t *testing.T) {
	t.Parallel()
	f := newFixture()
	outside := regexp.MustCompile(`(src|href)="/|["'\x60](https?:)?//[a-z]|from '/|fetch\('/|url\(|@import|innerHTML|style="`)
	for _, name := range []string{"/", "/static/main.js", "/static/list.js", "/static/policy.js", "/static/chart.js", "/static/table.js", "/static/format.js", "/static/page.css"} {
		w := f.get(t, name)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: status %d", name, w.Code)
		}
		if match := outside.FindString(w.Body.String()); match != "" {
			t.Errorf("%s has %q", name, match)
		}
	}
}

func TestStaticFilesAreRevalidated(t *testing.T) {
	t.Parallel()
	f := newFixture()
	first := f.get(t, "/static/uPlot.js")
	tag := first.Header().Get("ETag")
	if tag == "" || first.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("tag %q, Cache-Control %q", tag, first.Header().Get("Cache-Control"))
	}
	if again := f.get(t, "/static/uPlot.js", "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("with its tag: status %d and %d bytes, want 304 and none", again.Code, again.Body.Len())
	}
	if got := f.get(t, "/api/policies").Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("answers with decisions may be kept: Cache-Control %q", got)
	}
}

func TestTextForTerminals(t *testing.T) {
	t.Parallel()
	f := newFixture()
	e := mixed(10)
	e.Hold = balance.Hold{Reason: balance.Stale, Message: "no endpoint has a sample\nyounger than \x1b[31m1m30s"}
	f.journal.Record(e)
	for accept, want := range map[string]string{
		"text/plain": "text/plain", "text/plain, */*": "text/plain", "*/*": "text/html", "": "text/html", "text/html, text/plain;q=0.5": "text/html",
	} {
		if got := f.get(t, "/", "Accept", accept).Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("who accepts %q gets %q, want %s", accept, got, want)
		}
	}
	squeezed := func(path string) string {
		return regexp.MustCompile(` +`).ReplaceAllString(f.get(t, path).Body.String(), " ")
	}
	list := squeezed("/text")
	for _, want := range []string{
		"taper-operator v0.3.0, replica taper-operator-7d9f6c5b8-x2x9p leads, 2026-11-21T03:04:05Z",
		"shop cart cart Enforce 10 12s ago held Stale: no endpoint has a sample younger than [31m1m30s",
	} {
		if !strings.Contains(list, want+"\n") {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	one := squeezed("/text/shop/cart")
	for _, want := range []string{
		"cart-7d9f6c5b8-00007 10.8.0.8 - 19 9.5 % - never Missing",
		"cart-7d9f6c5b8-00000 10.8.0.1 30 30 15 % 30 % 19s ago Balanced",
		"METRICSFRESH True Fresh 10 of 10 endpoints have a fresh sample\n",
	} {
		if !strings.Contains(one, want) {
			t.Errorf("the policy lacks %q:\n%s", want, one)
		}
	}
	f.leading.Store(false)
	if list := f.get(t, "/text").Body.String(); !strings.Contains(list, "stands by: ask the leader, this may be old, lease taper-system/taper-operator") {
		t.Errorf("a replica that stands by does not say so:\n%.300s", list)
	}
}

func TestPolicyAsJSON(t *testing.T) {
	t.Parallel()
	f := newFixture()
	e := entry("shop", "cart", 1, 12*time.Second)
	e.Endpoints = append(e.Endpoints, journal.Endpoint{Pod: "cart-new", Verdict: balance.Verdict{
		Address: "10.8.0.9", Weight: 5, Share: .14, Age: -1, Capacity: 2, Reason: balance.Missing,
	}})
	f.journal.Record(e)
	followed := e
	followed.At, followed.Sampled = now.Add(-2*time.Second), false
	followed.Hold = balance.Hold{Reason: balance.MembershipOnly, Message: "endpoints came or went"}
	followed.Conditions = map[string]journal.Condition{"Held": {Status: "False", Reason: "Free"}, "Ready": {Status: "True", Reason: "Balancing", Message: "m"}}
	f.journal.Record(followed)
	var got any
	if err := json.Unmarshal(f.get(t, "/api/policies/shop/cart").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"now": "2026-11-21T03:04:05Z", "version": "v0.3.0", "replica": "taper-operator-7d9f6c5b8-x2x9p", "leading": true, "lease": "taper-system/taper-operator",
		"policy": map[string]any{
			"namespace": "shop", "name": "cart", "service": "cart", "mode": "Enforce", "strategy": "LeastLatency",
			"state":          map[string]any{"word": "balancing", "level": "good", "reason": "MembershipOnly", "message": "endpoints came or went"},
			"endpoint_count": 2.0, "at": "2026-11-21T03:04:03Z", "decided_at": "2026-11-21T03:03:53Z", "interval_seconds": 30.0, "max_age_seconds": 90.0,
			"evidence": "cpu",
			"conditions": []any{
				map[string]any{"type": "Ready", "status": "True", "reason": "Balancing", "message": "m"},
				map[string]any{"type": "Held", "status": "False", "reason": "Free", "message": ""},
			},
			"endpoints": []any{
				map[string]any{
					"pod": "cart-7d9f6c5b8-00000", "address": "10.8.0.1", "weight_in_force": 30.0, "weight": 30.0, "share": 1.5, "wanted_share": 1.5,
					"utilization": .3, "demand_seconds": .0021, "idle_cores": .02, "capacity_cores": 2.0,
					"sampled_at": "2026-11-21T03:03:56Z", "reason": "Balanced", "why": e.Endpoints[0].Verdict.Why(),
				},
				map[string]any{
					"pod": "cart-new", "address": "10.8.0.9", "weight": 5.0, "share": .14, "capacity_cores": 2.0,
					"reason": "Missing", "doubtful": true, "why": e.Endpoints[1].Verdict.Why(),
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the policy (-want +got):\n%s", diff)
	}
}

// Without request rates a demand is no time, and is not shown as one.
func TestDemandWithoutRequests(t *testing.T) {
	t.Parallel()
	f := newFixture()
	e := entry("shop", "cart", 1, 0)
	e.Evidence = balance.FromCPUOnly
	f.journal.Record(e)
	body := f.get(t, "/api/policies/shop/cart").Body.String()
	if strings.Contains(body, "demand_seconds") || !strings.Contains(body, `"full_load_cores":0.0021`) {
		t.Errorf("want full_load_cores and no demand_seconds:\n%s", body)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	hold := func(r balance.Reason) func(*journal.Entry) {
		return func(e *journal.Entry) { e.Hold = balance.Hold{Reason: r, Message: "m"} }
	}
	condition := func(kind, status string) func(*journal.Entry) {
		return func(e *journal.Entry) {
			e.Conditions[kind] = journal.Condition{Status: status, Reason: "R", Message: "m"}
		}
	}
	tests := []struct {
		name   string
		change func(*journal.Entry)
		mode   string
		want   string // word level reason
	}{
		{"moved", func(*journal.Entry) {}, "Enforce", "balancing good "},
		{"moved, only shown", func(*journal.Entry) {}, "Recommend", "recommending good "},
		{"settled", hold(balance.DeadBand), "Enforce", "balancing good DeadBand"},
		{"no news", hold(balance.NoNews), "Recommend", "recommending good NoNews"},
		{"stale", hold(balance.Stale), "Enforce", "held warn Stale"},
		{"coverage", hold(balance.LowCoverage), "Recommend", "held warn LowCoverage"},
		{"rail unknown", hold(balance.RailUnknown), "Enforce", "held warn GuardRailUnknown"},
		{"unheard of", hold("Eclipse"), "Enforce", "held warn Eclipse"},
		{"idle", hold(balance.Idle), "Enforce", "held calm Idle"},
		{"suspended", hold(journal.Suspended), "Enforce", "held calm Suspended"},
		{"held by condition", condition("Held", "True"), "Enforce", "held warn R"},
		{"suspended is not overdue", func(e *journal.Entry) {
			e.At = now.Add(-time.Hour)
			e.Conditions["Held"] = journal.Condition{Status: "True", Reason: "Suspended"}
		}, "Enforce", "held calm Suspended"},
		{"starting", hold(journal.Starting), "Recommend", "held calm Starting"},
		{"single", hold(balance.SingleEndpoint), "Enforce", "held calm SingleEndpoint"},
		{"released", hold(balance.Released), "Enforce", "released bad Released"},
		{"rail", hold(balance.RailBreached), "Enforce", "released bad GuardRailBreached"},
		{"refused", condition("Ready", "False"), "Enforce", "refused bad R"},
		{"not ready yet", condition("Ready", "Unknown"), "Enforce", "balancing good "},
		{"not applied", condition("Applied", "False"), "Enforce", "not applied bad R"},
		{"not to be applied", condition("Applied", "False"), "Recommend", "recommending good "},
		{"waiting", func(e *journal.Entry) { e.At, e.Sampled = time.Time{}, false }, "Enforce", "waiting calm "},
		{"overdue", func(e *journal.Entry) { e.At = now.Add(-91 * time.Second) }, "Enforce", "overdue bad "},
		{"nearly overdue", func(e *journal.Entry) { e.At = now.Add(-90 * time.Second) }, "Enforce", "balancing good "},
		{"interval unknown", func(e *journal.Entry) { e.At, e.Interval = now.Add(-time.Hour), 0 }, "Enforce", "balancing good "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture()
			e := entry("shop", "cart", 3, time.Second)
			e.Mode = tt.mode
			tt.change(&e)
			f.journal.Record(e)
			var got struct {
				Policies []struct {
					State struct{ Word, Level, Reason string }
				}
			}
			if err := json.Unmarshal(f.get(t, "/api/policies").Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if s := got.Policies[0].State; s.Word+" "+s.Level+" "+s.Reason != tt.want {
				t.Errorf("state %v, want %s", s, tt.want)
			}
		})
	}
}

// FuzzEntry shows whatever an entry may hold: it is valid JSON, no terminal is told
// what to do, and nothing unknown has become a number.
func FuzzEntry(f *testing.F) {
	f.Add("shop", "cart", `</script><script>alert(1)</script>`, "\x1b[2J\t\n", 0.5, uint32(20), int64(time.Second))
	f.Add("", "\xff/..", "\u2028", "\u202e", math.Inf(1), uint32(0), int64(-1))
	f.Add("a", "b", "", "", math.NaN(), uint32(math.MaxUint32), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, namespace, name, pod, message string, v float64, weight uint32, age int64) {
		fx := newFixture()
		e := journal.Entry{
			Policy: types.NamespacedName{Namespace: namespace, Name: name}, Service: pod, Mode: message, At: now, Sampled: true,
			Hold: balance.Hold{Reason: balance.Reason(message), Message: message}, Evidence: balance.Evidence(pod),
			Conditions: map[string]journal.Condition{message: {Status: pod, Reason: message, Message: pod}},
			Endpoints: []journal.Endpoint{{Pod: pod, InForce: weight, Verdict: balance.Verdict{
				Address: message, Weight: weight, Share: v, Proposed: v, Demand: v, Idle: v, Capacity: v, Utilization: v, Age: time.Duration(age),
			}}},
		}
		fx.journal.Record(e)
		for _, path := range []string{"/api/policies", "/api/policies/a/b", "/api/policies/a/b/history", "/text", "/text/a/b"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.Path = strings.NewReplacer("/a", "/"+strings.ReplaceAll(namespace, "/", ""), "/b", "/"+strings.ReplaceAll(name, "/", "")).Replace(path)
			w := httptest.NewRecorder()
			fx.handler.ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
			}
			body := w.Body.String()
			if w.Header().Get("Content-Type") == "application/json" && !json.Valid([]byte(body)) {
				t.Errorf("%s is no JSON: %s", path, body)
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
				if i := strings.IndexFunc(body, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("%s has control characters: %q", path, body[i:])
				}
			}
		}
	})
}

func TestHistoryAsJSON(t *testing.T) {
	t.Parallel()
	f := newFixture()
	for n := range 3 {
		e := entry("shop", "cart", 1+n%2, time.Duration(3-n)*interval)
		e.Hold.Reason = []balance.Reason{"", balance.Stale, balance.Released}[n]
		e.Mode = []string{"Recommend", "Enforce", "Enforce"}[n]
		f.journal.Record(e)
	}
	var got struct {
		Points []map[string]any
		Lines  []map[string]any
	}
	if err := json.Unmarshal(f.get(t, "/api/policies/shop/cart/history").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	points := []map[string]any{
		{"at": "2026-11-21T03:02:35Z", "enforced": false, "level": "good", "total_weight": 30.0},
		{"at": "2026-11-21T03:03:05Z", "enforced": true, "hold": "Stale", "level": "warn", "total_weight": 49.0},
		{"at": "2026-11-21T03:03:35Z", "enforced": true, "hold": "Released", "level": "bad", "total_weight": 30.0},
	}
	if diff := cmp.Diff(points, got.Points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	lines := []map[string]any{
		{"pod": "cart-7d9f6c5b8-00000", "address": "10.8.0.1", "weights": []any{30.0, 30.0, 30.0}},
		{"pod": "cart-7d9f6c5b8-00001", "address": "10.8.0.2", "weights": []any{0.0, 19.0, 0.0}},
	}
	if diff := cmp.Diff(lines, got.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// BenchmarkList is one look at 1,000 policies.
func BenchmarkList(b *testing.B) {
	f := newFixture()
	f.fleet(1000)
	for b.Loop() {
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/policies", nil))
		if w.Code != http.StatusOK {
			b.Fatal(fmt.Errorf("status %d", w.Code))
		}
	}
}
