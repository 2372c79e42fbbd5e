package lab

import (
	"math"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/load"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/report"
)

func TestByKindTakesEqualsTogether(t *testing.T) {
	members := []fleet.Member{{Endpoint: model.Endpoint{Address: "a"}, Fib: 25}, {Endpoint: model.Endpoint{Address: "b"}, Fib: 25}, {Endpoint: model.Endpoint{Address: "c"}, Fib: 27}}
	decisions := []report.WeightsAt{{Shares: []float64{0.5, 0.3, 0.2}}}
	if got := byKind(decisions, members, "")[0]; math.Abs(got[0]-0.8) > 1e-9 || math.Abs(got[1]-0.2) > 1e-9 {
		t.Errorf("got %v", got)
	}
	if got := byKind(decisions, members, "b")[0]; len(got) != 3 {
		t.Errorf("the disturbed endpoint is taken with others: %v", got)
	}
}

// Two rounds of one endpoint, with figures that can be checked by hand.
func TestSummarise(t *testing.T) {
	start := time.Unix(0, 0)
	round := func(ms int64, errors uint64, cpu float64, requests uint64) measured {
		h := newHistogram()
		for range 100 {
			if err := h.RecordValue(ms * 1000); err != nil {
				t.Fatal(err)
			}
		}
		return measured{
			load:   &load.Measurement{Requests: 100 + errors, Errors: errors, Latency: h, ByEndpoint: map[string]*hdrhistogram.Histogram{"a": h}},
			before: []fleet.Usage{{Address: "a", CPUSeconds: 1, Requests: 5, At: start}},
			after:  []fleet.Usage{{Address: "a", CPUSeconds: 1 + cpu, Requests: 5 + requests, At: start.Add(10 * time.Second)}},
		}
	}
	members := []fleet.Member{{Endpoint: model.Endpoint{Address: "a"}, Fib: 25}}
	a := &arm{name: LeastRequest, rounds: []measured{round(10, 0, 5, 100), round(20, 3, 7, 200), round(60, 0, 6, 300)}}
	got := a.summarise(members)
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("p50", got.P50, 20)
	near("CPU", got.CPU, 0.6)
	near("requests/s", got.Endpoints[0].Requests, 20)
	near("highest latency", got.Percentiles[len(got.Percentiles)-1].Latency, 60)
	if got.Requests != 303 || got.Errors != 3 || got.Endpoints[0].Demand != "fib(25)" {
		t.Errorf("%d requests, %d errors, demand %q", got.Requests, got.Errors, got.Endpoints[0].Demand)
	}
}
