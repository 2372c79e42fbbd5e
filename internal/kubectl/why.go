package kubectl

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/terminal"
)

// whyView is what `kubectl taper why POD --json` prints.
type whyView struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Listed is true when at least one policy lists the pod.
	Listed bool `json:"listed"`
	// Policies are those that list it.
	Policies []reasonView `json:"policies"`
	// Explanation says why no policy lists it; empty when one does.
	Explanation []string `json:"explanation"`
}

// reasonView is what one policy says of the pod.
type reasonView struct {
	policyView
	Endpoint endpointView `json:"endpoint"`
	// EqualShare is what the pod would get without taper.
	EqualShare float64 `json:"equal_share"`
	// Advice is what would change the share.
	Advice []advice `json:"advice"`
}

func newWhy(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why POD",
		Short: "Say why a pod gets the share it gets",
		Long: `Says what share of its service's requests a pod gets, what that rests on, what
holds it and what would change it. When no policy lists the pod it says what may be
the reason, and the exit code is 1.

With --json: namespace, pod, listed, explanation (of why it is not listed) and
policies, each with the fields of status and endpoint, equal_share and advice, which
has text and command.`,
		Example: `  kubectl taper why fib-7d9f-x2x4k
  kubectl taper why pod/fib-7d9f-x2x4k -n demo --json`,
		Args:              upTo(1, 1, "pod"),
		ValidArgsFunction: completePods(c),
		RunE:              func(cmd *cobra.Command, args []string) error { return runWhy(cmd, c, args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runWhy(cmd *cobra.Command, c *connection, arg string, asJSON bool) error {
	pod, err := podName(arg)
	if err != nil {
		return err
	}
	ctx, cancel, from, err := c.open(cmd, false)
	if err != nil {
		return err
	}
	defer cancel()
	view := whyView{Namespace: from.namespace, Pod: pod, Policies: []reasonView{}, Explanation: []string{}}
	others := absence{pod: pod, namespace: from.namespace}
	if err := from.each(ctx, func(p *v1alpha1.BalancePolicy) {
		others.add(p)
		view.Policies = append(view.Policies, reasonsOf(p, pod, from.now)...)
	}); err != nil {
		return err
	}
	view.Listed = len(view.Policies) > 0
	if !view.Listed {
		view.Explanation = others.explain(ctx, from)
	}
	if err := view.print(cmd, asJSON); err != nil {
		return err
	}
	if !view.Listed {
		return command.Answered(command.ExitFailed)
	}
	return nil
}

// podName takes the forms that kubectl takes.
func podName(arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	if !typed {
		return arg, nil
	}
	switch kind {
	case "pod", "pods", "po":
		if name != "" && !strings.Contains(name, "/") {
			return name, nil
		}
	}
	return "", command.Usagef("%q is not the name of a pod: it is POD or pod/POD, and -n NAMESPACE chooses the namespace", arg)
}

// reasonsOf returns what the policy says of the pod: one entry for each of its
// addresses, which is one as a rule.
func reasonsOf(p *v1alpha1.BalancePolicy, pod string, now time.Time) []reasonView {
	var found []reasonView
	for _, e := range endpointViews(p, now) {
		if e.Pod != pod {
			continue
		}
		found = append(found, reasonView{
			policyView: newPolicyView(p, now), Endpoint: e,
			EqualShare: 1 / newShares(&p.Status).endpoints, Advice: advise(p, &e),
		})
	}
	return found
}

func (v *whyView) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), v)
	}
	out := newPrinter(cmd.OutOrStdout())
	out.why(v)
	return out.Flush()
}

func (p *printer) why(v *whyView) {
	if !v.Listed {
		p.Paragraph(terminal.Bold.Text(fmt.Sprintf("no policy lists pod %s/%s", v.Namespace, v.Pod)), 2)
		for _, reason := range v.Explanation {
			p.Paragraph(terminal.Normal.Text("- "+reason), 2)
		}
		return
	}
	for i := range v.Policies {
		if i > 0 {
			p.Line()
		}
		p.reasons(&v.Policies[i])
	}
}

func (p *printer) reasons(v *reasonView) {
	e := &v.Endpoint
	p.Paragraph(terminal.Bold.Text(v.headline()), 2)
	if e.Message != "" {
		p.Paragraph(terminal.Normal.Text(e.Message), 2)
	}
	p.Line()
	rows := [][]terminal.Text{
		{terminal.Faint.Text("policy"), terminal.Normal.Text(fmt.Sprintf("%s, %s, %s", v.name(), v.Mode, v.Strategy))},
		{terminal.Faint.Text("state"), stateStyles[v.State].Text(v.standingText())},
		{terminal.Faint.Text("share"), terminal.Normal.Text(fmt.Sprintf("%s in force, %s proposed, %s if all were equal", percent(e.Share), percent(e.ProposedShare), percent(&v.EqualShare)))},
		{terminal.Faint.Text("weight"), terminal.Normal.Text(fmt.Sprintf("%s in force, %s proposed", weight(e.Weight), weight(e.ProposedWeight)))},
		{terminal.Faint.Text("utilization"), terminal.Normal.Text(wholePercent(e.Utilization))},
		{terminal.Faint.Text("sampled"), terminal.Normal.Text(e.sampled())},
		{terminal.Faint.Text("reason"), terminal.Normal.Text(e.Reason)},
	}
	p.Table(factColumns, rows)
	if len(v.Advice) > 0 {
		p.Line()
		p.Line(terminal.Normal.Text("what would change it:"))
		for _, a := range v.Advice {
			p.Paragraph(terminal.Normal.Text("- "+a.Text), 2)
			if a.Command != "" {
				p.Line(terminal.Normal.Text("  " + a.Command)) // whole, to be copied
			}
		}
	}
}

// headline answers what the pod gets.
func (v *reasonView) headline() string {
	e := &v.Endpoint
	has := percent(e.Share)
	if e.Share == nil {
		has = "weight " + weight(e.Weight)
	}
	text := fmt.Sprintf("%s gets %s of the requests to %s", e.Pod, has, v.Service)
	if e.Share == nil {
		text = fmt.Sprintf("%s has %s behind %s", e.Pod, has, v.Service)
	}
	if v.Mode == string(v1alpha1.Recommend) && e.ProposedShare != nil {
		text += fmt.Sprintf("; Enforce would give it %s", percent(e.ProposedShare))
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}
