package predict

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/random"
)

// quick are options for tests that do not look at how wide intervals are.
func quick() Options {
	o := DefaultOptions()
	o.Draws, o.requests = 10, 5000
	return o
}

// even is a service as it would be observed without any noise.
func even(windows int, endpoints ...model.Sample) *Service {
	length := 30 * time.Second
	s := &Service{Name: "shop", Length: length, Policy: balance.DefaultPolicy(length), Proxies: 8}
	for n := range windows {
		s.Windows = append(s.Windows, Window{End: time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(n) * length), Samples: model.Snapshot{}})
	}
	for i, sample := range endpoints {
		e := model.Endpoint{Address: string(rune('a' + i)), Capacity: 2}
		s.Endpoints = append(s.Endpoints, e)
		for _, w := range s.Windows {
			for _, r := range []*model.Reading{&sample.CPU, &sample.Requests, &sample.InFlight} {
				if r.Value > 0 {
					r.At = w.End
				}
			}
			if sample.CPU.Value+sample.InFlight.Value > 0 {
				w.Samples[e.Address] = sample
			}
		}
	}
	return s
}

func sample(cpu, requests float64) model.Sample {
	return model.Sample{CPU: model.Reading{Value: cpu}, Requests: model.Reading{Value: requests}}
}

func TestPredictRefuses(t *testing.T) {
	t.Parallel()
	usual := func() *Service { return even(5, sample(0.3, 100), sample(0.5, 100), sample(0.7, 100)) }
	for name, tt := range map[string]struct {
		change func(*Service, *Options)
		says   string
	}{
		"draws":       {func(_ *Service, o *Options) { o.Draws = 5 }, "5 draws"},
		"sigma":       {func(_ *Service, o *Options) { o.Sigma = math.NaN() }, "sigma is NaN"},
		"choice":      {func(s *Service, _ *Options) { s.Choice = "fastest" }, `unknown policy "fastest": it is one of random`},
		"two windows": {func(s *Service, _ *Options) { s.Windows = s.Windows[:2] }, "observed over 2 windows of 30s: it takes 3"},
		"nothing": {func(s *Service, _ *Options) {
			for i := range s.Windows {
				s.Windows[i].Samples = nil
			}
		}, "0 of 5 windows have samples of 60 % of its endpoints: it takes 3"},
		"few endpoints": {func(s *Service, _ *Options) {
			for i := range s.Windows {
				delete(s.Windows[i].Samples, "a")
				delete(s.Windows[i].Samples, "b")
			}
		}, "0 of 5 windows have samples"},
		"stale": {func(s *Service, _ *Options) {
			last := &s.Windows[4]
			last.End = last.End.Add(time.Hour)
			last.Samples = nil
		}, "its newest samples are from 2027-01-15T08:01:30Z, 1h0m30s before the end of what was observed: they are stale"},
		"only requests": {func(s *Service, _ *Options) {
			for _, w := range s.Windows {
				for address, sample := range w.Samples {
					sample.CPU = model.Reading{}
					w.Samples[address] = sample
				}
			}
		}, "nothing tells what requests cost"},
		"no requests": {func(s *Service, _ *Options) {
			for _, w := range s.Windows {
				for address, sample := range w.Samples {
					sample.Requests.Value = 0
					w.Samples[address] = sample
				}
			}
		}, "nothing tells what requests cost"},
		"over capacity": {func(s *Service, _ *Options) { s.Endpoints[2].Capacity = 0.5 }, "endpoint c used 0.7 cores over the 30s until 2027-01-15T08:00:00Z and has a capacity of 0.5"},
		"memory": {func(s *Service, _ *Options) {
			s.Proxies, s.Choice = mostProxies, "client-side-wrr"
			for i := len(s.Endpoints); i < mostEndpoints; i++ {
				address := fmt.Sprintf("10.0.%d.%d:80", i/250, i%250)
				s.Endpoints = append(s.Endpoints, model.Endpoint{Address: address, Capacity: 2})
				for _, w := range s.Windows {
					w.Samples[address] = w.Samples["a"]
				}
			}
		}, "10000 proxies that each know 2000 endpoints by client-side-wrr take"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := usual(), quick()
			tt.change(s, &o)
			if _, err := Predict(t.Context(), s, o, silent); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
		})
	}
}

func TestPredictMarksWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	s := even(6, sample(0.3, 100), sample(0.5, 100), sample(0.7, 100), model.Sample{})
	s.Windows[1].Samples = model.Snapshot{}
	s.Proxies = 0
	p, err := Predict(t.Context(), s, quick(), silent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"of 1 of 4 endpoints nothing tells what requests cost: they are taken for like the others",
		"1 of 6 windows are left out: in them, too few endpoints were measured",
	}
	if diff := cmp.Diff(want, p.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if e := p.Endpoints[3]; e.DemandMS != nil || e.Requests != nil || e.Utilization != nil || e.Note == "" {
		t.Errorf("the endpoint that was not measured has %+v", e)
	}
	// Its demand is unknown, and the service's rate includes what it gets: four times 100.
	if e := p.Endpoints[0]; math.Abs(*e.DemandMS-3) > 1e-9 || *e.Requests != 100 || math.Abs(*e.Utilization-0.15) > 1e-9 {
		t.Errorf("the first endpoint has %+v", e)
	}
	if a := p.Assumed; a.ProxiesKnown || a.Proxies.Low < fewProxies || a.Proxies.High > manyProxies || a.Proxies.Low == a.Proxies.High || a.Idle == nil {
		t.Errorf("assumed %+v", a)
	}
}

// Without CPU, demands come from requests in flight.
func TestPredictFromInFlight(t *testing.T) {
	t.Parallel()
	inFlight := func(utilization float64) model.Sample { // of two cores, as balance has it
		return model.Sample{InFlight: model.Reading{Value: 2 * utilization / (1 - utilization*utilization)}, Requests: model.Reading{Value: 100}}
	}
	p, err := Predict(t.Context(), even(5, inFlight(0.15), inFlight(0.3), inFlight(0.6)), quick(), silent)
	if err != nil {
		t.Fatal(err)
	}
	if p.Observed.Evidence != "in-flight" || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "CPU was not measured") || p.Assumed.Idle != nil {
		t.Errorf("by %s, warnings %q, idle %v", p.Observed.Evidence, p.Warnings, p.Assumed.Idle)
	}
	for i, want := range []float64{3, 6, 12} {
		if e := p.Endpoints[i]; math.Abs(*e.DemandMS/want-1) > 0.01 || e.Utilization != nil {
			t.Errorf("endpoint %d has %+v, want a demand of %g ms", i, e, want)
		}
	}
}

// Without request rates, ratios are those that there would be with them.
func TestRelativePrediction(t *testing.T) {
	t.Parallel()
	with := even(5, sample(0.3, 100), sample(0.6, 100), sample(0.9, 100), sample(1.4, 100))
	without := even(5, sample(0.3, 0), sample(0.6, 0), sample(0.9, 0), sample(1.4, 0))
	without.Today = &Latency{P50: 0.01, P99: 0.1}
	o := DefaultOptions()
	o.requests = 20_000
	absolute, err := Predict(t.Context(), with, o, silent)
	if err != nil {
		t.Fatal(err)
	}
	relative, err := Predict(t.Context(), without, o, silent)
	if err != nil {
		t.Fatal(err)
	}
	if !relative.Relative() || absolute.Relative() || relative.Observed.RatePerS != nil || relative.Calibration != nil || len(relative.Warnings) != 2 {
		t.Errorf("%+v", relative)
	}
	for i, a := range relative.Arms {
		if a.P50 != nil || a.P99 != nil {
			t.Errorf("%s has milliseconds", a.Name)
		}
		if i == 0 {
			continue
		}
		b := absolute.Arms[i].Against
		for what, pair := range map[string][2]float64{
			"p50": {a.Against.P50.Median, b.P50.Median}, "p99": {a.Against.P99.Median, b.P99.Median}, "CPU": {a.Against.CPU.Median, b.CPU.Median},
		} {
			if math.Abs(pair[0]/pair[1]-1) > 0.05 {
				t.Errorf("%s: ratio of %s is %.3f without rates and %.3f with them", a.Name, what, pair[0], pair[1])
			}
		}
	}
}

// Endpoints that are all alike have nothing to gain, and the first line says so.
func TestNothingToGain(t *testing.T) {
	t.Parallel()
	alike := unequal()
	alike.demands = []float64{0.006, 0.006, 0.006, 0.006, 0.006, 0.006}
	o := DefaultOptions()
	o.requests = 20_000
	p, err := Predict(t.Context(), alike.observed(t, 6, 15*time.Second, 3), o, silent)
	if err != nil {
		t.Fatal(err)
	}
	if said := p.Verdict(); !strings.HasPrefix(said, "least-latency weights would change nothing that can be told: p99 (") {
		t.Errorf("it said %q", said)
	}
}

func TestMoreThanThereIs(t *testing.T) {
	t.Parallel()
	s := even(5, sample(1.9, 100), sample(1.9, 50), sample(1.9, 30))
	o := quick()
	o.requests = 20_000
	p, err := Predict(t.Context(), s, o, silent)
	if err != nil {
		t.Fatal(err)
	}
	if p.Arms[0].Saturated == 0 || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.HasPrefix(w, "today: endpoints are saturated in") }) {
		t.Errorf("today is saturated in %g of the draws, warnings %q", p.Arms[0].Saturated, p.Warnings)
	}
}

// A prediction is the same however many cores work on it.
func TestPredictionIsDeterministic(t *testing.T) {
	s := unequal().observed(t, 4, 5*time.Second, 1)
	s.Today = &Latency{P50: 0.006, P99: 0.06}
	var first bytes.Buffer
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 4} {
		runtime.GOMAXPROCS(procs)
		p, err := Predict(t.Context(), s, quick(), silent)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := p.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if first.Len() == 0 {
			first = out
		} else if diff := cmp.Diff(first.String(), out.String()); diff != "" {
			t.Errorf("another run differs:\n%s", diff)
		}
	}
}

func TestPredictEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	_, err := Predict(ctx, even(5, sample(0.3, 100), sample(0.5, 100)), quick(), func(p Progress) {
		if runs++; runs == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A further value lies within the interval as often as it says, whatever the distribution.
func TestIntervalsOfAFewDraws(t *testing.T) {
	t.Parallel()
	r := random.New(1)
	held, times := 0, 20_000
	for range times {
		values := make([]float64, 20)
		for i := range values {
			values[i] = -math.Log(r.Unit())
		}
		if e, v := estimate(values), -math.Log(r.Unit()); e.Low <= v && v <= e.High {
			held++
		}
	}
	// Three deviations of a binomial are 0.6 %; between two values the share is not linear.
	if part := float64(held) / float64(times); math.Abs(part-coverage) > 0.015 {
		t.Errorf("%.3f of the intervals hold a further value, want %.2f", part, coverage)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	// The second endpoint gets twice as much; where it was not measured, the rate is that of
	// all nevertheless.
	s := even(4, sample(0.2, 100), sample(0.4, 200), sample(0.2, 100))
	w := s.Windows[2]
	delete(w.Samples, "a")
	if got := s.rates(); slices.ContainsFunc(got, func(r float64) bool { return math.Abs(r-400) > 1e-9 }) {
		t.Errorf("rates %v, want 400", got)
	}
	// What counting makes of a steady rate is no variation of it; a real one stays.
	r := random.New(2)
	noisy, moved := make([]float64, 400), make([]float64, 400)
	for i := range noisy {
		noisy[i] = 100 + 10*r.Normal() // Poisson's deviation in 1 s
		moved[i] = noisy[i] + 50*float64(i%2)
	}
	if d := deviation(steady(noisy, 1)); d > 5 {
		t.Errorf("a steady rate varies by %.1f, want less than half of the noise", d)
	}
	if d := deviation(steady(moved, 1)); d < 22 || d > 28 {
		t.Errorf("a rate that varies by 25 varies by %.1f", d)
	}
}

func deviation(values []float64) float64 {
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m) / float64(len(values))
	}
	return math.Sqrt(sum)
}

// Weights come to rest where the strategy wants them.
func TestSettle(t *testing.T) {
	t.Parallel()
	s := even(3, sample(0.3, 100), sample(0.6, 100), sample(1.2, 100))
	k := knowledge{demand: []float64{0.003, 0.006, 0.012}, idle: []float64{0, 0, 0}}
	weights, decisions := s.settle(k, 300, balance.EqualLoad)
	for i, share := range parts(weights) {
		if want := []float64{4.0 / 7, 2.0 / 7, 1.0 / 7}[i]; math.Abs(share/want-1) > 0.01 {
			t.Errorf("endpoint %d has a share of %.4f, want %.4f", i, share, want)
		}
	}
	if decisions < 1 || decisions > 5 {
		t.Errorf("%d decisions", decisions)
	}
	// Nobody knows the third: it is taken for the median, and not for free.
	k.demand[2] = 0
	weights, _ = s.settle(k, 300, balance.EqualLoad)
	if got := parts(weights)[2]; got < 0.2 || got > 0.35 {
		t.Errorf("the unknown endpoint has a share of %.3f", got)
	}
}

func TestWithinLeavesOldReadingsOut(t *testing.T) {
	t.Parallel()
	end := time.Unix(1000, 0)
	at := func(seconds float64) model.Reading {
		return model.Reading{Value: 1, At: end.Add(-time.Duration(seconds * float64(time.Second)))}
	}
	got := Within(model.Snapshot{
		"fresh": {CPU: at(5), Requests: at(29)},
		"half":  {CPU: at(5), Requests: at(30)},
		"old":   {CPU: at(31), Requests: at(3000)},
		"ahead": {CPU: at(-1)},
		"bad":   {CPU: model.Reading{Value: math.NaN(), At: end}},
	}, end, 30*time.Second)
	now := model.Reading{Value: 1, At: end}
	want := model.Snapshot{
		"fresh": {CPU: now, Requests: now, Window: 30 * time.Second},
		"half":  {CPU: now, Window: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
