package operator

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/apply/serviceentry"
)

// istiod answers with what it is told to serve.
type istiod struct {
	*httptest.Server
	weight atomic.Uint32
	broken atomic.Bool
}

func newIstiod(t *testing.T) *istiod {
	t.Helper()
	i := &istiod{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if i.broken.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		type m = map[string]any
		json.NewEncoder(w).Encode(m{"fib.demo.svc.cluster.local": m{"demo": m{"Shards": m{"External/Kubernetes": []m{
			{"Addresses": []string{"10.9.1.1"}, "ServicePortName": "http", "LbWeight": i.weight.Load()},
		}}}}})
	}))
	t.Cleanup(i.Close)
	return i
}

func TestWhatIstiodServesIsCompared(t *testing.T) {
	t.Parallel()
	fake := newIstiod(t)
	var told int
	s, err := newServed(&Options{IstiodURL: fake.URL}, func(types.NamespacedName) { told++ }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	entry := func(weight uint32) []serviceentry.Entry {
		return []serviceentry.Entry{{
			Namespace: "demo", Service: "fib", Host: "fib.demo.svc.cluster.local", Port: serviceentry.Port{Name: "http"},
			Endpoints: []serviceentry.Endpoint{{Address: "10.9.1.1", Weight: weight}},
		}}
	}
	expect := func(status metav1.ConditionStatus, reason string, tellings int) {
		t.Helper()
		got := s.verdict(name("fib"))
		if got.status != status || got.reason != reason || told != tellings {
			t.Errorf("%s %s (%s), told %d times; want %s %s, %d times", got.status, got.reason, got.message, told, status, reason, tellings)
		}
	}
	longAgo := time.Now().Add(-time.Minute)

	expect(metav1.ConditionTrue, "Written", 0)
	fake.weight.Store(7)
	s.expect(name("fib"), entry(7), time.Now())
	s.check(t.Context()) // it is on its way still
	expect(metav1.ConditionTrue, "Written", 0)

	s.forget(name("fib"))
	s.expect(name("fib"), entry(7), longAgo)
	s.expect(name("fib"), entry(7), time.Now()) // the same weights as before: still since long ago
	s.check(t.Context())
	s.check(t.Context())
	expect(metav1.ConditionTrue, "Served", 1)

	s.expect(name("fib"), entry(9), longAgo)
	s.check(t.Context())
	expect(metav1.ConditionFalse, "NotServed", 2)
	if m := s.verdict(name("fib")).message; !strings.Contains(m, "10.9.1.1 of port http has weight 7 and should have 9") {
		t.Errorf("the message is %q", m)
	}

	fake.broken.Store(true) // nothing new is known
	s.check(t.Context())
	expect(metav1.ConditionFalse, "NotServed", 2)
	fake.broken.Store(false)
	fake.weight.Store(9)
	s.check(t.Context())
	expect(metav1.ConditionTrue, "Served", 3)
}

func TestWithoutIstiodNothingIsAsked(t *testing.T) {
	t.Parallel()
	s, err := newServed(&Options{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.expect(name("fib"), []serviceentry.Entry{{}}, time.Now())
	if len(s.wanted) != 0 {
		t.Error("weights are kept that nobody compares")
	}
}
