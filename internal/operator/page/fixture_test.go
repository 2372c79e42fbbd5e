package page_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/page"
)

var now = time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)

const interval = 30 * time.Second

// fixture is a journal behind the page's handler.
type fixture struct {
	journal *journal.Journal
	leading atomic.Bool
	ahead   atomic.Int64 // by how much time went on, in nanoseconds
	handler http.Handler
}

func newFixture() *fixture {
	f := &fixture{journal: journal.New()}
	f.leading.Store(true)
	f.handler = page.New(f.journal, page.Options{
		Version: "v0.3.0", Replica: "taper-operator-7d9f6c5b8-x2x9p", Leading: f.leading.Load,
		Lease: types.NamespacedName{Namespace: "taper-system", Name: "taper-operator"},
		Now:   func() time.Time { return now.Add(time.Duration(f.ahead.Load())) },
	})
	return f
}

// get asks for a path and returns the answer.
func (f *fixture) get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

// entry is a sound decision about n endpoints, made that long ago.
func entry(namespace, name string, n int, since time.Duration) journal.Entry {
	e := journal.Entry{
		Policy: types.NamespacedName{Namespace: namespace, Name: name}, Service: name,
		Mode: "Enforce", Strategy: "LeastLatency", Interval: interval, MaxAge: 3 * interval,
		At: now.Add(-since), Sampled: true, Evidence: balance.FromCPU,
		Conditions: map[string]journal.Condition{
			"Ready":        {Status: "True", Reason: "Balancing", Message: ""},
			"MetricsFresh": {Status: "True", Reason: "Fresh", Message: fmt.Sprintf("%d of %d endpoints have a fresh sample", n, n)},
			"Applied":      {Status: "True", Reason: "Written"},
			"Held":         {Status: "False", Reason: "Free"},
			"Progressing":  {Status: "False", Reason: "Settled"},
		},
	}
	for i := range n {
		demand := []float64{.0021, .0042, .0088}[i%3]
		w := []uint32{30, 19, 11}[i%3]
		e.Endpoints = append(e.Endpoints, journal.Endpoint{
			Pod: fmt.Sprintf("%s-7d9f6c5b8-%05d", name, i), InForce: w,
			Verdict: balance.Verdict{
				Address: fmt.Sprintf("10.%d.%d.%d", 8+i/62500, i/250%250, 1+i%250), Weight: w, Share: float64(w) / float64(20*n), Proposed: float64(w) / float64(20*n),
				Demand: demand, Idle: .02, Capacity: 2, Utilization: .3 + .05*float64(i%9), Age: 7 * time.Second, Reason: balance.Balanced,
			},
		})
	}
	return e
}

// past records decisions that lead to the last one: an hour of shares that move
// from equal to what they are, with an outage of the store in between.
func (f *fixture) past(last journal.Entry) {
	dice := rand.New(rand.NewPCG(1, 2))
	const length = 110
	for n := range length {
		e := last
		e.At = last.At.Add(-time.Duration(length-n) * interval)
		e.Hold = balance.Hold{Reason: balance.DeadBand, Message: "no share would change by more than 5 %"}
		switch {
		case n < 20:
			e.Hold, e.Mode = balance.Hold{}, "Recommend"
		case n < 40:
			e.Hold = balance.Hold{}
		case n > 60 && n < 72:
			e.Hold = balance.Hold{Reason: balance.Stale, Message: "no endpoint has a sample younger than 1m30s"}
		case n >= 72 && n < 76:
			e.Hold = balance.Hold{Reason: balance.Released}
		}
		e.Endpoints = nil
		for i, ep := range last.Endpoints {
			if i%17 == 3 && n < 50 {
				continue // joined later
			}
			progress := min(1, float64(n)/40)
			if n >= 72 && n < 90 {
				progress = max(0, 1-float64(min(n-71, 4))/4) + max(0, float64(n-80)/10)
			}
			ep.Verdict.Weight = uint32(20 + progress*(float64(ep.Verdict.Weight)-20) + dice.Float64()*2)
			e.Endpoints = append(e.Endpoints, ep)
		}
		f.journal.Record(e)
	}
	f.journal.Record(last)
}

// fleet fills the journal with n policies in every state.
func (f *fixture) fleet(n int) {
	services := []string{"cart", "checkout", "search", "catalog", "payments", "recommendations", "inventory", "users"}
	for i := range n {
		e := entry(fmt.Sprintf("team-%02d", i%40), fmt.Sprintf("%s-%d", services[i%len(services)], i/len(services)), 3+i%97, time.Duration(i%28)*time.Second)
		switch {
		case i%97 == 5:
			e.Hold = balance.Hold{Reason: balance.Stale, Message: "no endpoint has a sample younger than 1m30s"}
		case i%97 == 11:
			e.Hold = balance.Hold{Reason: balance.LowCoverage, Message: "3 of 9 endpoints have a fresh sample: 6 are needed"}
		case i%197 == 17:
			e.Hold = balance.Hold{Reason: balance.Released, Message: "no endpoint has a sample younger than 1m30s, for 5m12s: stepping back to equal weights"}
		case i%211 == 23:
			e.At, e.Endpoints, e.Sampled = time.Time{}, nil, false
			e.Conditions = map[string]journal.Condition{"Ready": {Status: "False", Reason: "Headless", Message: "service " + e.Service + " is headless: clients choose the endpoints themselves, there is nothing to weigh; use a service with a cluster IP"}}
		case i%223 == 29:
			e.Conditions["Applied"] = journal.Condition{Status: "False", Reason: "ForeignServiceEntry", Message: "ServiceEntry team/cart-override has the same host and is not managed by taper-operator: nothing is written until it is gone"}
		case i%227 == 31:
			e.At = now.Add(-9 * time.Minute)
		case i%5 == 0:
			e.Mode = "Recommend"
			for k := range e.Endpoints {
				e.Endpoints[k].InForce = 0
			}
			e.Hold = balance.Hold{Reason: balance.DeadBand, Message: "no share would change by more than 5 %"}
		case i%3 == 0:
			e.Hold = balance.Hold{Reason: balance.DeadBand, Message: "no share would change by more than 5 %"}
		case i%31 == 7:
			e.Hold = balance.Hold{Reason: balance.Idle, Message: "requests use 0.0011 of 18 cores: too little to learn from"}
		}
		f.journal.Record(e)
	}
}

// mixed is a policy whose endpoints are in various conditions.
func mixed(n int) journal.Entry {
	e := entry("shop", "cart", n, 12*time.Second)
	e.Conditions["Progressing"] = journal.Condition{Status: "True", Reason: "StepLimit", Message: "3 endpoints are on their way"}
	for i := range e.Endpoints {
		ep := &e.Endpoints[i]
		switch i % 17 {
		case 3:
			ep.InForce, ep.Verdict.Reason, ep.Verdict.Proposed, ep.Verdict.Weight = 8, balance.Warming, .08, 12
		case 5:
			ep.Verdict.Reason, ep.Verdict.Age = balance.StaleSample, 4*time.Minute
		case 7:
			ep.Verdict.Reason, ep.Verdict.Age, ep.Verdict.Demand, ep.Verdict.Utilization, ep.Verdict.Proposed = balance.Missing, -1, 0, 0, 0
			ep.InForce = 0
		case 9:
			ep.Verdict.Reason, ep.Verdict.Utilization, ep.Verdict.Proposed = balance.AtUtilization, .7, .9
		case 11:
			ep.Verdict.Reason, ep.Verdict.Utilization = balance.Overloaded, 1.04
		}
	}
	return e
}
