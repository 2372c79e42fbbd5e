package operator

import (
	"time"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
)

const (
	// equalWeight is the weight of an equal share. The smallest share that a policy
	// may set is a twentieth of it: weight 1, which is what istiod gives to an
	// endpoint that it knows and the entry does not list yet.
	equalWeight = 20
	// freeStep is a step without a limit, in effect: for a recommendation, which is
	// where Enforce would end, not how it gets there.
	freeStep = 100

	// defaultInterval stands in for a policy that was written before there was a
	// default in the schema.
	defaultInterval = 30 * time.Second
	// defaultWindow holds three scrapes of 30 s, the usual interval, and one more.
	defaultWindow = 2 * time.Minute
)

var strategies = map[v1alpha1.Strategy]balance.Strategy{
	v1alpha1.LeastLatency: balance.LeastLatency,
	v1alpha1.EqualLoad:    balance.EqualLoad,
}

func intervalOf(spec *v1alpha1.BalancePolicySpec) time.Duration {
	if spec.Interval == nil {
		return defaultInterval
	}
	return spec.Interval.Duration
}

// settings turns a spec into the policy of a decision. The schema has the bounds;
// they are checked again because a schema can be older than the operator.
func settings(spec *v1alpha1.BalancePolicySpec) (balance.Policy, error) {
	p := balance.DefaultPolicy(intervalOf(spec))
	p.EqualWeight = equalWeight
	// The first decision after the ramp gives the whole share, and it comes at most
	// one interval later: a new endpoint has its share within two intervals, with some
	// of them left for the way to the Envoys.
	p.Ramp = p.Interval * 3 / 4
	if s, ok := strategies[spec.Strategy]; ok {
		p.Strategy = s
	} else if spec.Strategy != "" {
		p.Strategy = balance.Strategy(spec.Strategy) // refused by Validate, with a list
	}
	l := spec.Limits
	percent := func(field *float64, value int32) {
		if value != 0 {
			*field = float64(value) / 100
		}
	}
	percent(&p.UtilizationLimit, l.UtilizationPercent)
	percent(&p.MinShare, l.MinSharePercent)
	percent(&p.MaxShare, l.MaxSharePercent)
	percent(&p.Coverage, spec.Freshness.CoveragePercent)
	if l.StepPercent != 0 {
		p.MaxStep = 1 + float64(l.StepPercent)/100
	}
	if l.DeadBandPercent != nil {
		p.DeadBand = float64(*l.DeadBandPercent) / 100
	}
	if l.Capacity != nil {
		p.Capacity = l.Capacity.AsApproximateFloat64()
	}
	if d := spec.Freshness.MaxAge; d != nil {
		p.MaxAge = d.Duration
		p.ReleaseAfter = max(p.ReleaseAfter, p.MaxAge)
	}
	if d := spec.Freshness.ReleaseAfter; d != nil {
		p.ReleaseAfter = d.Duration
	}
	if spec.Mode != v1alpha1.Enforce {
		p.MaxStep, p.Ramp = freeStep, 0
	}
	return p, p.Validate()
}
