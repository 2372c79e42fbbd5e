package kubectl

import (
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
)

// endpointView is one endpoint. Shares are of the service's requests.
type endpointView struct {
	Pod     string `json:"pod"`
	Address string `json:"address"`
	// Weight is the one in force; 0 where taper has given none.
	Weight         int64 `json:"weight"`
	ProposedWeight int64 `json:"proposed_weight"`
	// Share is what the weights in force mean; null when the list was cut and the
	// weights of the others are not known.
	Share         *float64 `json:"share"`
	ProposedShare *float64 `json:"proposed_share"`
	Utilization   *float64 `json:"utilization"`
	// Fresh is true where newer samples come in.
	Fresh bool `json:"fresh"`
	// SampleAgeS is the age of the sample that this rests on. The status is not
	// written for a newer sample alone: where Fresh is set there is one.
	SampleAgeS *int64 `json:"sample_age_s"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
}

// endpointViews returns the policy's endpoints in their order.
func endpointViews(p *v1alpha1.BalancePolicy, now time.Time) []endpointView {
	shares := newShares(&p.Status)
	fresh := is(p, v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue) != nil
	views := make([]endpointView, len(p.Status.Endpoints))
	for i := range p.Status.Endpoints {
		e := &p.Status.Endpoints[i]
		views[i] = endpointView{
			Pod: e.Pod, Address: e.Address, Weight: e.Weight, ProposedWeight: e.ProposedWeight,
			Share: shares.inForce(e), ProposedShare: shares.proposed(e), Utilization: number(e.Utilization),
			Fresh: fresh && !lacking(e.Reason), Reason: e.Reason, Message: e.Message,
		}
		if e.SampleAge != nil && p.Status.ObservedAt != nil {
			views[i].SampleAgeS = ageSeconds(now, p.Status.ObservedAt.Add(-e.SampleAge.Duration))
		}
	}
	return views
}

// lacking tells whether a reason says that an endpoint has no sample to act on.
func lacking(reason string) bool {
	switch balance.Reason(reason) {
	case balance.Missing, balance.Invalid, balance.StaleSample:
		return true
	}
	return false
}

// sampled says how old the newest sample is, as far as that is known.
func (e *endpointView) sampled() string {
	if e.Fresh {
		return "fresh"
	}
	return ago(e.SampleAgeS)
}

// shares knows the sums that shares are parts of.
type shares struct {
	weights, proposals float64
	// endpoints is how many there are, listed or not.
	endpoints float64
	// cut is set when not all are listed, even when none has been given a weight.
	cut, untouched bool
}

func newShares(status *v1alpha1.BalancePolicyStatus) shares {
	s := shares{
		endpoints: math.Max(float64(status.EndpointCount), float64(len(status.Endpoints))),
		cut:       int(status.EndpointCount) > len(status.Endpoints),
		untouched: true,
	}
	for i := range status.Endpoints {
		e := &status.Endpoints[i]
		s.weights += counted(e.Weight)
		s.proposals += float64(max(e.ProposedWeight, 0))
		s.untouched = s.untouched && e.Weight == 0
	}
	return s
}

// counted is what a weight counts for: the mesh gives 1 to an endpoint that it
// knows and nobody gave a weight to. So where nobody has one, shares are equal.
func counted(weight int64) float64 { return float64(max(weight, 1)) }

func (s shares) inForce(e *v1alpha1.EndpointStatus) *float64 {
	switch {
	case s.untouched:
		return fraction(1, s.endpoints)
	case s.cut:
		return nil
	}
	return fraction(counted(e.Weight), s.weights)
}

// proposed prefers the weights, which are exact, to the status's decimals.
func (s shares) proposed(e *v1alpha1.EndpointStatus) *float64 {
	switch {
	case e.ProposedWeight <= 0:
		return nil
	case s.cut:
		return number(e.Share)
	}
	return fraction(float64(e.ProposedWeight), s.proposals)
}

func fraction(part, whole float64) *float64 {
	f := part / whole
	return &f
}

// number reads a decimal of the status; nil when it is not one.
func number(text string) *float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// unknownText stands where a value is not known.
const unknownText = "—"

// percent is a fraction for people.
func percent(f *float64) string {
	switch {
	case f == nil:
		return unknownText
	case math.Abs(*f) < 0.1:
		return fmt.Sprintf("%.2f %%", 100**f)
	}
	return fmt.Sprintf("%.1f %%", 100**f)
}

// wholePercent is for what is not that exact.
func wholePercent(f *float64) string {
	if f == nil {
		return unknownText
	}
	return fmt.Sprintf("%.0f %%", 100**f)
}

// ago is the age of something in seconds.
func ago(seconds *int64) string {
	if seconds == nil {
		return unknownText
	}
	return span(time.Duration(*seconds)*time.Second) + " ago"
}
