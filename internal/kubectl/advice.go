package kubectl

import (
	"fmt"
	"slices"
	"time"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
)

// advice is one thing that would change a share.
type advice struct {
	Text string `json:"text"`
	// Command does it, or looks further; it may be empty.
	Command string `json:"command"`
}

// advise says what would change the share of an endpoint: what holds the whole
// policy first, then what bounds the endpoint's own share.
func advise(p *v1alpha1.BalancePolicy, e *endpointView) []advice {
	all := []advice{policyAdvice(p)}
	if modeOf(p) == v1alpha1.Recommend {
		all = append(all, advice{"nothing is written with mode Recommend; to write weights:", enforceCommand(p)})
	}
	all = append(all, endpointAdvice(p, e))
	return slices.DeleteFunc(all, func(a advice) bool { return a.Text == "" })
}

// policyAdvice is about what keeps all weights from moving.
func policyAdvice(p *v1alpha1.BalancePolicy) advice {
	s := standingOf(p)
	switch s.state {
	case suspended:
		return advice{"weights may move again after:", patchCommand(p, `{"spec":{"suspend":false}}`)}
	case noStatus, outdated, notReady, notApplied:
		return advice{Text: s.message}
	case held, releasing, idle:
		return holdAdvice(p, balance.Reason(s.reason))
	}
	return advice{}
}

func holdAdvice(p *v1alpha1.BalancePolicy, reason balance.Reason) advice {
	switch reason {
	case balance.Stale, balance.LowCoverage:
		return sourceAdvice(p, fmt.Sprintf("weights stay until enough endpoints have a sample younger than %s", maxAge(p)))
	case balance.Released:
		return sourceAdvice(p, "weights step back to equal until there are samples again")
	case balance.RailBreached:
		return advice{Text: "weights step back to equal while spec.guardRail's query exceeds its bound"}
	case balance.RailUnknown:
		return advice{Text: "weights stay while spec.guardRail's query cannot be read"}
	case balance.Idle:
		return advice{Text: "with more load there is something to learn from"}
	case balance.SingleEndpoint:
		return advice{Text: "with a second pod there are shares to choose"}
	}
	return advice{}
}

// endpointAdvice is about the one endpoint. A reason that is not known, of a newer
// operator, has none.
func endpointAdvice(p *v1alpha1.BalancePolicy, e *endpointView) advice {
	limits := &p.Spec.Limits
	switch balance.Reason(e.Reason) {
	case balance.Balanced:
		return advice{Text: fmt.Sprintf("its share follows what a request costs there and the CPU that it can use; a change of less than %d %% of every share is left alone (spec.limits.deadBandPercent)", deadBand(limits))}
	case balance.AtUtilization:
		return advice{Text: fmt.Sprintf("it gets more with more CPU, or with a higher spec.limits.utilizationPercent, which is %d", orDefault(limits.UtilizationPercent, 70))}
	case balance.AtMinShare:
		return advice{Text: fmt.Sprintf("it gets more when a request costs less CPU there, or with a higher spec.limits.minSharePercent, which is %d", orDefault(limits.MinSharePercent, 5))}
	case balance.AtMaxShare:
		return advice{Text: fmt.Sprintf("it gets more with a higher spec.limits.maxSharePercent, which is %d", orDefault(limits.MaxSharePercent, 1000))}
	case balance.StepLimit:
		return advice{Text: fmt.Sprintf("time: a share grows by at most %d %% in %s (spec.limits.stepPercent)", orDefault(limits.StepPercent, 100), interval(p))}
	case balance.Warming:
		return advice{Text: fmt.Sprintf("time: a new pod has its whole share within two intervals of %s", interval(p))}
	case balance.Missing:
		return podAdvice(p, e.Pod, "it has no sample")
	case balance.Invalid:
		return podAdvice(p, e.Pod, "its sample is not a number, or negative")
	case balance.StaleSample:
		return podAdvice(p, e.Pod, fmt.Sprintf("its newest sample is older than %s", maxAge(p)))
	case balance.Overloaded:
		return advice{Text: fmt.Sprintf("more pods, or more CPU for them: the load passes spec.limits.utilizationPercent, which is %d, everywhere", orDefault(limits.UtilizationPercent, 70))}
	}
	return advice{}
}

func usesResourceMetrics(p *v1alpha1.BalancePolicy) bool {
	return p.Spec.Source != nil && p.Spec.Source.Type == v1alpha1.ResourceMetrics
}

// sourceAdvice says where to look when a service has no samples.
func sourceAdvice(p *v1alpha1.BalancePolicy, what string) advice {
	if usesResourceMetrics(p) {
		return advice{what + ": see whether metrics-server answers:", "kubectl top pods -n " + p.Namespace}
	}
	return advice{Text: what + ": see whether the source answers and its scrapes succeed"}
}

// podAdvice says where to look when a pod has no sample.
func podAdvice(p *v1alpha1.BalancePolicy, pod, what string) advice {
	if usesResourceMetrics(p) {
		return advice{what + ": see what metrics-server says:", fmt.Sprintf("kubectl top pod %s -n %s --containers", pod, p.Namespace)}
	}
	return advice{Text: what + ": see whether the source has its series, such as container_cpu_usage_seconds_total"}
}

// orDefault knows what an object has that was written before there were defaults
// in the schema.
func orDefault(value, otherwise int32) int32 {
	if value == 0 {
		return otherwise
	}
	return value
}

func deadBand(limits *v1alpha1.Limits) int32 {
	if limits.DeadBandPercent == nil {
		return 5
	}
	return *limits.DeadBandPercent
}

func interval(p *v1alpha1.BalancePolicy) time.Duration {
	if p.Spec.Interval == nil {
		return 30 * time.Second
	}
	return p.Spec.Interval.Duration
}

func maxAge(p *v1alpha1.BalancePolicy) time.Duration {
	if p.Spec.Freshness.MaxAge == nil {
		return 3 * interval(p)
	}
	return p.Spec.Freshness.MaxAge.Duration
}
