package kubectl

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/terminal"
)

// statusView is what `kubectl taper status --json` prints.
type statusView struct {
	Summary  string       `json:"summary"`
	Policies []policyView `json:"policies"`
}

// detailView is what `kubectl taper status POLICY --json` prints.
type detailView struct {
	policyView
	// Ports are the names asked for; empty for all that carry HTTP or gRPC.
	Ports     []string `json:"ports"`
	IntervalS *float64 `json:"interval_s"`
	// Source is the kind of source and its URL; empty for the operator's default.
	Source string `json:"source"`
	// Evidence is what demand is learnt from.
	Evidence       string          `json:"evidence"`
	ServiceEntries []string        `json:"service_entries"`
	Conditions     []conditionView `json:"conditions"`
	// Endpoints are at most 500, however many there are.
	Endpoints []endpointView `json:"endpoints"`
}

type conditionView struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	AgeS    *int64 `json:"age_s"`
}

func newStatus(c *connection) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "status [POLICY]",
		Short: "Show where policies stand",
		Long: `Shows where each policy stands and since when; with the name of a policy, its
conditions and endpoints.

A policy is balancing or recommending when its weights follow the samples; idle
when there is nothing to balance; suspended by its spec; held when weights stay for
lack of samples; releasing when they step back to equal; not applied when they
could not be written; not ready when it cannot be carried out.

The operator writes the status when something changes that matters, so it may be
old and right. An endpoint's sample is called fresh where newer ones come in, and
has its age where they do not.

With --json: summary and policies, each with namespace, policy, service, mode,
strategy, endpoint_count, state, reason, message, state_age_s, observed_age_s and
changed_age_s. With the name of a policy: the same for the one, and ports,
interval_s, source, evidence, service_entries, conditions and endpoints, each of
those with pod, address, weight, proposed_weight, share (of the weights in force),
proposed_share, utilization, fresh, sample_age_s, reason and message.`,
		Example: `  kubectl taper status
  kubectl taper status -A
  kubectl taper status fib -n demo
  kubectl taper status -A --json | jq -r '.policies[] | select(.state == "held") | .policy'`,
		Args:              upTo(0, 1, "policy"),
		ValidArgsFunction: completePolicies(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runStatusOf(cmd, c, args[0], all, asJSON)
			}
			return runStatus(cmd, c, all, asJSON)
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "look at all namespaces")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runStatus(cmd *cobra.Command, c *connection, all, asJSON bool) error {
	ctx, cancel, from, err := c.open(cmd, all)
	if err != nil {
		return err
	}
	defer cancel()
	policies := []policyView{}
	if err := from.each(ctx, func(p *v1alpha1.BalancePolicy) {
		policies = append(policies, newPolicyView(p, from.now))
	}); err != nil {
		return err
	}
	view := statusView{summary(policies, from.now), policies}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), view)
	}
	out := newPrinter(cmd.OutOrStdout())
	out.status(&view, from.namespace, from.now)
	return out.Flush()
}

// status writes the list of policies.
func (p *printer) status(view *statusView, namespace string, now time.Time) {
	if len(view.Policies) == 0 {
		p.nothing(namespace)
		return
	}
	p.Paragraph(terminal.Bold.Text(view.Summary), 2)
	p.Line()
	columns := []terminal.Column{{Title: "policy", Tail: true}, {Title: "service", Spare: 2}, {Title: "mode", Spare: 3}, {Title: "strategy", Spare: 5},
		{Title: "endpoints", Right: true, Spare: 4}, {Title: "state"}, {Title: "since", Right: true, Spare: 1}}
	var rows [][]terminal.Text
	for i := range view.Policies {
		v := &view.Policies[i]
		name := v.Policy
		if namespace == "" {
			name = v.name()
		}
		row := terminal.Row(name, v.Service, v.Mode, v.Strategy, fmt.Sprint(v.EndpointCount), v.words(), age(now, v.standing.since))
		row[5].Style = stateStyles[v.State]
		rows = append(rows, row)
	}
	p.Table(columns, rows)
	for _, hint := range hints(view.Policies) {
		p.Line()
		p.Paragraph(terminal.Yellow.Text(hint), 2)
	}
}

// nothing says that there are no policies.
func (p *printer) nothing(namespace string) {
	p.Line(terminal.Bold.Text("no policies in " + where(namespace)))
	if namespace != "" {
		p.Line(terminal.Normal.Text("-A looks at all namespaces"))
	}
}

func runStatusOf(cmd *cobra.Command, c *connection, name string, all, asJSON bool) error {
	if all {
		return command.Usagef("%s takes a POLICY or -A, and not both: -n NAMESPACE chooses the policy's namespace", cmd.CommandPath())
	}
	ctx, cancel, from, err := c.open(cmd, false)
	if err != nil {
		return err
	}
	defer cancel()
	var view detailView
	if err := from.some(ctx, name, func(p *v1alpha1.BalancePolicy) { view = newDetailView(p, from.now) }); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), view)
	}
	out := newPrinter(cmd.OutOrStdout())
	out.detail(&view)
	return out.Flush()
}

func newDetailView(p *v1alpha1.BalancePolicy, now time.Time) detailView {
	view := detailView{
		policyView: newPolicyView(p, now),
		Ports:      notNil(p.Spec.Ports), Evidence: p.Status.Evidence, ServiceEntries: notNil(p.Status.ServiceEntries),
		Conditions: []conditionView{}, Endpoints: endpointViews(p, now),
	}
	if p.Spec.Interval != nil {
		seconds := p.Spec.Interval.Seconds()
		view.IntervalS = &seconds
	}
	if s := p.Spec.Source; s != nil {
		view.Source = string(s.Type)
		if s.URL != "" {
			view.Source += " " + s.URL
		}
	}
	for _, c := range p.Status.Conditions {
		view.Conditions = append(view.Conditions, conditionView{
			c.Type, string(c.Status), c.Reason, c.Message, ageSeconds(now, c.LastTransitionTime.Time),
		})
	}
	slices.SortStableFunc(view.Conditions, func(a, b conditionView) int { return rank(a.Type) - rank(b.Type) })
	return view
}

func notNil(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// rank puts the conditions that are known first, in the order of their meaning.
func rank(kind string) int {
	known := []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionMetricsFresh, v1alpha1.ConditionApplied,
		v1alpha1.ConditionHeld, v1alpha1.ConditionProgressing,
	}
	if i := slices.Index(known, kind); i >= 0 {
		return i
	}
	return len(known)
}

// detail writes all there is about one policy.
func (p *printer) detail(v *detailView) {
	p.Paragraph(terminal.Bold.Text(v.headline()), 2)
	p.Line()
	p.Table(factColumns, v.facts())
	if len(v.Conditions) > 0 {
		p.Line()
		p.conditions(v.Conditions)
	}
	if len(v.Endpoints) > 0 {
		p.Line()
		p.endpoints(v)
	}
}

// headline answers how the policy is.
func (v *policyView) headline() string {
	if !v.told() {
		return v.name() + ": " + v.Message
	}
	return v.name() + " is " + v.standingText()
}

func (v *detailView) facts() [][]terminal.Text {
	service := v.Service
	if len(v.Ports) > 0 {
		service += fmt.Sprintf(", ports %v", v.Ports)
	}
	mode := v.Mode + ", " + v.Strategy
	if v.IntervalS != nil {
		mode += fmt.Sprintf(", every %s", time.Duration(*v.IntervalS*float64(time.Second)))
	}
	facts := [][2]string{{"service", service}, {"mode", mode}, {"source", v.Source}, {"evidence", v.Evidence}}
	if v.Source == "" {
		facts[2][1] = "the operator's default"
	}
	for _, entry := range v.ServiceEntries {
		facts = append(facts, [2]string{"entry", "serviceentry/" + entry})
	}
	if v.ChangedAgeS != nil {
		facts = append(facts, [2]string{"weights", "changed " + ago(v.ChangedAgeS)})
	}
	if v.ObservedAgeS != nil {
		facts = append(facts, [2]string{"status", "of " + ago(v.ObservedAgeS) + "; it is written when something changes"})
	}
	var rows [][]terminal.Text
	for _, fact := range facts {
		if fact[1] != "" {
			rows = append(rows, []terminal.Text{terminal.Faint.Text(fact[0]), terminal.Normal.Text(fact[1])})
		}
	}
	return rows
}

var conditionWords = map[string]string{
	string(metav1.ConditionTrue): "yes", string(metav1.ConditionFalse): "no", string(metav1.ConditionUnknown): "not known",
}

func (p *printer) conditions(conditions []conditionView) {
	var rows [][]terminal.Text
	for _, c := range conditions {
		word, ok := conditionWords[c.Status]
		if !ok {
			word = c.Status
		}
		since := unknownText
		if c.AgeS != nil {
			since = span(time.Duration(*c.AgeS) * time.Second)
		}
		text := c.Reason
		if c.Message != "" {
			text += ": " + c.Message
		}
		row := terminal.Row(c.Type, word, since, text)
		row[1].Style = conditionStyle(c)
		rows = append(rows, row)
	}
	p.Table([]terminal.Column{{Title: "condition", Tail: true}, {}, {Title: "for", Right: true, Spare: 1}, {Title: "why", Wrap: true}}, rows)
}

// conditionStyle is red where a condition says that something is wrong.
func conditionStyle(c conditionView) terminal.Style {
	switch c.Type {
	case v1alpha1.ConditionReady, v1alpha1.ConditionMetricsFresh:
		if c.Status != string(metav1.ConditionTrue) {
			return terminal.Red
		}
		return terminal.Green
	case v1alpha1.ConditionHeld:
		if c.Status == string(metav1.ConditionTrue) {
			return terminal.Yellow
		}
	}
	return terminal.Normal
}

func (p *printer) endpoints(v *detailView) {
	text := count(int(v.EndpointCount), "endpoint", "endpoints")
	if listed := len(v.Endpoints); listed < int(v.EndpointCount) {
		text = fmt.Sprintf("%d of %s", listed, text)
	}
	if v.ObservedAgeS != nil {
		text += ", as of " + ago(v.ObservedAgeS)
	}
	share := "share"
	if v.Mode == string(v1alpha1.Recommend) {
		share = "proposed share"
	}
	p.Line(terminal.Bold.Text(text))
	columns := []terminal.Column{{Title: "pod", Tail: true}, {Title: "weight", Right: true, Spare: 2}, {Title: "proposed", Right: true, Spare: 3}, {Title: share, Right: true},
		{Title: "utilization", Right: true, Spare: 1}, {Title: "sampled", Right: true}, {Title: "reason"}}
	rows := make([][]terminal.Text, len(v.Endpoints))
	for i := range v.Endpoints {
		e := &v.Endpoints[i]
		rows[i] = terminal.Row(e.Pod, weight(e.Weight), weight(e.ProposedWeight), percent(e.ProposedShare),
			wholePercent(e.Utilization), e.sampled(), e.Reason)
	}
	p.Table(columns, rows)
}

// weight is a dash where none was given.
func weight(w int64) string {
	if w == 0 {
		return unknownText
	}
	return fmt.Sprint(w)
}
