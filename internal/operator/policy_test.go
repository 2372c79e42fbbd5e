package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	minute := &metav1.Duration{Duration: time.Minute}
	p, err := settings(&v1alpha1.BalancePolicySpec{
		Mode: v1alpha1.Enforce, Strategy: v1alpha1.EqualLoad, Interval: minute,
		Limits:    v1alpha1.Limits{UtilizationPercent: 50, MinSharePercent: 10, MaxSharePercent: 300, StepPercent: 50, DeadBandPercent: ptr.To[int32](0)},
		Freshness: v1alpha1.Freshness{MaxAge: &metav1.Duration{Duration: 2 * time.Minute}, CoveragePercent: 90},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := balance.DefaultPolicy(time.Minute)
	want.Strategy, want.EqualWeight, want.Ramp = balance.EqualLoad, 20, 45*time.Second
	want.UtilizationLimit, want.MinShare, want.MaxShare, want.MaxStep, want.DeadBand = 0.5, 0.1, 3, 1.5, 0
	want.MaxAge, want.Coverage = 2*time.Minute, 0.9
	if p != want {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}

	// An empty spec, as a policy from before the defaults has it, only recommends.
	p, err = settings(&v1alpha1.BalancePolicySpec{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Interval != 30*time.Second || p.Strategy != balance.LeastLatency || p.MaxStep != freeStep || p.Ramp != 0 {
		t.Errorf("an empty spec: %+v", p)
	}

	// The smallest share that the schema takes is weight 1.
	if w := equalWeight * 5 / 100; w != 1 {
		t.Errorf("5 %% of an equal share is weight %d, want 1", w)
	}

	if _, err := settings(&v1alpha1.BalancePolicySpec{Strategy: "Fastest"}); err == nil {
		t.Error("an unknown strategy was accepted")
	}
}

func TestTheOlderPolicyActs(t *testing.T) {
	t.Parallel()
	early, late := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	policy := func(name string, at metav1.Time) *v1alpha1.BalancePolicy {
		return &v1alpha1.BalancePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at}}
	}
	a, b, c := policy("a", late), policy("b", early), policy("c", early)
	for _, test := range []struct {
		x, y *v1alpha1.BalancePolicy
		want bool
	}{{b, a, true}, {a, b, false}, {b, c, true}, {c, b, false}, {a, a, false}} {
		if got := older(test.x, test.y); got != test.want {
			t.Errorf("%s before %s: %t, want %t", test.x.Name, test.y.Name, got, test.want)
		}
	}
}
