package promql_test

import (
	"math"
	"testing"
	"time"

	"taper.dev/taper/internal/source/promql"
)

// Both real query engines tell what was true at an earlier time: of a pod that is no longer
// scraped, too.
func TestAt(t *testing.T) {
	for name, start := range map[string]func(*testing.T, time.Time) string{"prometheus": startPrometheus, "victoria-metrics": startVictoriaMetrics} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now().Truncate(time.Millisecond)
			s, err := promql.New(promql.Config{URL: start(t, now), NamespaceLabel: "namespace", Window: time.Minute, CPU: promql.ClusterCPU})
			if err != nil {
				t.Fatal(err)
			}
			then := now.Add(-150 * time.Second)
			past, err := s.At(then).Collect(t.Context(), endpointsOf("shop/web-1", "shop/gone-1", "shop/new-1"))
			if err != nil {
				t.Fatal(err)
			}
			for pod, want := range map[string]float64{"shop/web-1": 0.75, "shop/gone-1": 1} {
				got := past[pod].CPU
				if math.Abs(got.Value-want) > 0.05 || got.At.After(then) || then.Sub(got.At) > 20*time.Second {
					t.Errorf("%s had %+v at %s, want %g cores", pod, got, then, want)
				}
			}
			if got, ok := past["shop/new-1"]; ok {
				t.Errorf("a pod that was not there yet had %+v", got)
			}
			present, err := s.Collect(t.Context(), endpointsOf("shop/web-1"))
			if err != nil || !present["shop/web-1"].CPU.At.After(then) {
				t.Errorf("the source itself was changed: %+v, %v", present, err)
			}
		})
	}
}
