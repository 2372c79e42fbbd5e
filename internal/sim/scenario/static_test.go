package scenario

import (
	"math"
	"strings"
	"testing"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// static are the shares of the only arm.
func static(t *testing.T, load, endpoints, weights string) []float64 {
	t.Helper()
	s := mustParse(t, with("load: "+load, "endpoints: "+endpoints, "arms: [{name: a, policy: random, weights: {static: true, "+weights+"}}]"))
	var sum float64
	for _, w := range s.Arms[0].Weigher.Fixed {
		sum += float64(w)
	}
	var shares []float64
	for _, w := range s.Arms[0].Weigher.Fixed {
		shares = append(shares, float64(w)/sum)
	}
	return shares
}

func TestStaticEqualLoadIsInProportionToWhatIsServed(t *testing.T) {
	t.Parallel()
	got := static(t, "{rate: 100}", "[{kind: a, cores: 2, demand: 10ms}, {kind: b, demand: 10ms}, {kind: c, cores: 1.5, idle: 0.5, demand: 20ms}]", "strategy: equal-load")
	// They serve 200, 100 and 50 requests/s.
	for i, want := range []float64{4. / 7, 2. / 7, 1. / 7} {
		if math.Abs(got[i]/want-1) > 0.005 { // weights are whole numbers
			t.Errorf("shares are %.4f, want %.4f of endpoint %d", got, want, i+1)
		}
	}
}

// At the least mean latency one more request costs the same everywhere: for one core that
// is D/(1-ρ)².
func TestStaticLeastLatencyCannotBeImproved(t *testing.T) {
	t.Parallel()
	demands := []float64{0.004, 0.005, 0.008}
	got := static(t, "{rate: 300}", "[{kind: a, demand: 4ms}, {kind: b, demand: 5ms}, {kind: c, demand: 8ms}]", "strategy: least-latency, utilization-limit: 1")
	marginal := make([]float64, len(got))
	for i, d := range demands {
		free := 1 - got[i]*300*d
		marginal[i] = d / (free * free)
	}
	for i := range marginal {
		if math.Abs(marginal[i]/marginal[0]-1) > 0.03 {
			t.Errorf("shares %.4f have marginal costs %.5f, want them equal", got, marginal)
		}
	}
}

func TestStaticPublishedIsWithinItsLimits(t *testing.T) {
	t.Parallel()
	got := static(t, "{rate: 100}", "[{kind: a, count: 2, demand: 5ms}, {kind: b, count: 2, demand: 6ms}, {kind: c, demand: 50ms}]", "strategy: published")
	// The slow one is at 100, the median at 350; the others have equal CPU within 5 %.
	if ratio := got[4] / got[2]; math.Abs(ratio/(100./350)-1) > 0.1 {
		t.Errorf("shares %.4f: the slow one has %.3f of the median", got, ratio)
	}
	if cpu := got[0] * 5 / (got[2] * 6); cpu < 0.85 || cpu > 1.15 {
		t.Errorf("shares %.4f: CPU of the others differs by a factor of %.3f", got, cpu)
	}
}

func TestWeightsThatDoNotComeToRestAreAnError(t *testing.T) {
	t.Parallel()
	s := mustParse(t, with("endpoints: [{demand: 5ms, count: 2}]", "arms: [{name: a, policy: random, weights: least-latency}]"))
	w := *s.Arms[0].Weigher
	w.Decide = func(in balance.Input) balance.Decision {
		weight := in.Current[in.Endpoints[0].Address]
		return balance.Decision{Weights: model.Weights{in.Endpoints[0].Address: weight*7919%10007 + 1, in.Endpoints[1].Address: 500}}
	}
	if _, err := settle(&s.Service, &w); err == nil || !strings.Contains(err.Error(), "do not come to rest within 5000 decisions") {
		t.Errorf("got %v", err)
	}
}
