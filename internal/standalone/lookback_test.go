package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// remembers answers about CPU with the age of the question in seconds, for as long as its
// memory reaches.
func remembers(t *testing.T, memory time.Duration) string {
	t.Helper()
	began := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := strconv.ParseFloat(r.FormValue("time"), 64)
		ago := began.Sub(time.UnixMilli(int64(at * 1000)))
		if err != nil || ago > memory {
			http.Error(w, "beyond memory", http.StatusUnprocessableEntity)
			return
		}
		var result []any
		for kind, value := range map[string]float64{"value": ago.Round(10 * time.Second).Seconds(), "time": at - 1} {
			result = append(result, map[string]any{
				"metric": map[string]string{"pod": "web-1", "taper_reading": kind},
				"value":  []any{at, strconv.FormatFloat(value, 'f', -1, 64)},
			})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func pastConfig(t *testing.T, source string) *Config {
	t.Helper()
	cfg, err := Parse(fmt.Appendf(nil, `
interval: 5s
source: %s
services:
- {name: shop, capacity: 1.5, endpoints: [{address: "10.0.0.1:80", name: web-1}, {address: "10.0.0.2:80", name: web-2, capacity: 4}]}
`, source))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Windows do not overlap, the oldest comes first, and what a store no longer knows is
// missing.
func TestLookBack(t *testing.T) {
	t.Parallel()
	cfg := pastConfig(t, fmt.Sprintf("{promql: {url: %q, cpu: {selector: cpu}}}", remembers(t, 25*time.Second)))
	past, err := LookBack(t.Context(), cfg, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if past.Service != "shop" || past.Window != 10*time.Second || len(past.Looks) != 6 {
		t.Fatalf("%s, %d looks of %s", past.Service, len(past.Looks), past.Window)
	}
	if a, b := past.Endpoints[0].Capacity, past.Endpoints[1].Capacity; a != 1.5 || b != 4 {
		t.Errorf("capacities %g and %g", a, b)
	}
	for i, look := range past.Looks {
		if i > 0 && look.At.Sub(past.Looks[i-1].At) != past.Window {
			t.Errorf("look %d is %s after the one before", i, look.At.Sub(past.Looks[i-1].At))
		}
		reading, ago := look.Samples["10.0.0.1:80"].CPU, float64(10*(5-i))
		switch known := ago <= 20; {
		case known != reading.Known():
			t.Errorf("look %d, %g s ago, has %+v", i, ago, reading)
		case known && (reading.Value != ago || !reading.At.Equal(look.At.Add(-time.Second))):
			t.Errorf("look %d is %+v, want what was true %g s ago", i, reading, ago)
		}
	}
}

func TestLookBackRefuses(t *testing.T) {
	t.Parallel()
	store := fmt.Sprintf("{promql: {url: %q, cpu: {selector: cpu}}}", remembers(t, time.Hour))
	for name, tt := range map[string]struct {
		source, service string
		span            time.Duration
		wrong           bool
		says            string
	}{
		"envoy":       {"{envoy: {admin: [\"http://127.0.0.1:1\"]}}", "shop", time.Minute, true, "source.envoy has no past"},
		"unknown":     {store, "web", time.Minute, true, `unknown service "web": it is one of shop`},
		"short":       {store, "shop", time.Second, true, "1s is 0 windows of 10s"},
		"long":        {store, "shop", 1000 * time.Hour, true, "it takes 1 to 1000"},
		"not there":   {`{promql: {url: "http://127.0.0.1:1", cpu: {selector: cpu}}}`, "shop", time.Minute, false, "127.0.0.1:1"},
		"forgets all": {fmt.Sprintf("{promql: {url: %q, cpu: {selector: cpu}}}", remembers(t, -time.Hour)), "shop", time.Minute, false, "beyond memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := LookBack(t.Context(), pastConfig(t, tt.source), tt.service, tt.span)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("error %v, want one that says %q", err, tt.says)
			}
			if _, wrong := errors.AsType[WrongQuestion](err); wrong != tt.wrong {
				t.Errorf("a wrong question: %t, want %t", wrong, tt.wrong)
			}
		})
	}
}
