package kubectl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
)

// policyView is where a policy stands, in every command's JSON.
type policyView struct {
	Namespace     string `json:"namespace"`
	Policy        string `json:"policy"`
	Service       string `json:"service"`
	Mode          string `json:"mode"`
	Strategy      string `json:"strategy"`
	EndpointCount int32  `json:"endpoint_count"`
	State         state  `json:"state"`
	// Reason and Message say why; they may be empty.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// StateAgeS is how long it has stood there.
	StateAgeS *int64 `json:"state_age_s"`
	// ObservedAgeS is how old the status is. It is written when something changes
	// that matters, so an old one is not a wrong one.
	ObservedAgeS *int64 `json:"observed_age_s"`
	// ChangedAgeS is how long ago weights changed, written or proposed.
	ChangedAgeS *int64 `json:"changed_age_s"`

	standing standing
}

func newPolicyView(p *v1alpha1.BalancePolicy, now time.Time) policyView {
	s := standingOf(p)
	return policyView{
		Namespace: p.Namespace, Policy: p.Name, Service: p.Spec.TargetRef.Name,
		Mode: string(modeOf(p)), Strategy: string(strategyOf(p)), EndpointCount: p.Status.EndpointCount,
		State: s.state, Reason: s.reason, Message: s.message, StateAgeS: ageSeconds(now, s.since),
		ObservedAgeS: ageSeconds(now, timeOf(p.Status.ObservedAt)), ChangedAgeS: ageSeconds(now, timeOf(p.Status.ChangedAt)),
		standing: s,
	}
}

// modeOf and strategyOf know what an object has that was written before there
// were defaults in the schema.
func modeOf(p *v1alpha1.BalancePolicy) v1alpha1.Mode {
	if p.Spec.Mode == "" {
		return v1alpha1.Recommend
	}
	return p.Spec.Mode
}

func strategyOf(p *v1alpha1.BalancePolicy) v1alpha1.Strategy {
	if p.Spec.Strategy == "" {
		return v1alpha1.LeastLatency
	}
	return p.Spec.Strategy
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// name is the policy's across namespaces.
func (v *policyView) name() string { return v.Namespace + "/" + v.Policy }

// words is the state with its reason, such as "held: Stale".
func (v *policyView) words() string {
	if v.Reason == "" {
		return v.State.words()
	}
	if v.State == balancing || v.State == recommending {
		return v.State.words() + ", weights moving"
	}
	return v.State.words() + ": " + v.Reason
}

// standingText is the state, for how long, and why.
func (v *policyView) standingText() string {
	text := v.words()
	if v.StateAgeS != nil {
		text += " for " + span(time.Duration(*v.StateAgeS)*time.Second)
	}
	if v.Message != "" {
		text += " — " + v.Message
	}
	return text
}

// told tells whether the status is about the policy as it is.
func (v *policyView) told() bool { return v.State != noStatus && v.State != outdated }

// trouble is why somebody should look, such as "demo/fib: Stale for 2m".
func (v *policyView) trouble(now time.Time) string {
	text := v.name()
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	if !v.standing.since.IsZero() {
		text += " for " + age(now, v.standing.since)
	}
	return text
}

// summary counts the policies by state and names those in trouble.
func summary(policies []policyView, now time.Time) string {
	text := count(len(policies), "policy", "policies")
	separator := ": "
	for _, s := range states {
		var names []string
		n := 0
		for i := range policies {
			if policies[i].State != s {
				continue
			}
			n++
			if s.troubled() {
				names = append(names, policies[i].trouble(now))
			}
		}
		if n == 0 {
			continue
		}
		text += fmt.Sprintf("%s%d %s", separator, n, s.words())
		if len(names) > 0 {
			text += " (" + few(names) + ")"
		}
		separator = ", "
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// where says what was looked at.
func where(namespace string) string {
	if namespace == "" {
		return "the cluster"
	}
	return "namespace " + namespace
}

// hints are the messages of policies that wait for an operator, each once.
func hints(policies []policyView) []string {
	var texts []string
	for i := range policies {
		if v := &policies[i]; !v.told() && !slices.Contains(texts, v.Message) {
			texts = append(texts, v.Message)
		}
	}
	return texts
}

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
