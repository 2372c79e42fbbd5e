package kubectl

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/terminal"
)

// diffView is what `kubectl taper diff --json` prints.
type diffView struct {
	Summary string `json:"summary"`
	// Differs is true when any policy's weights would change.
	Differs  bool             `json:"differs"`
	Policies []policyDiffView `json:"policies"`
}

// policyDiffView is what would change for one policy.
type policyDiffView struct {
	policyView
	// Known is false when the status does not tell: there is none, or it is about an
	// earlier spec.
	Known   bool `json:"known"`
	Differs bool `json:"differs"`
	// MovedShare is the part of the service's requests that would go elsewhere; null
	// when the list was cut and weights of the others are not known.
	MovedShare *float64 `json:"moved_share"`
	// Changes are the endpoints that would get another share, the most changed first.
	Changes []changeView `json:"changes"`
	// Unchanged is the number of listed endpoints that would keep theirs.
	Unchanged int `json:"unchanged"`
	// Command is what sets the mode to Enforce; empty when it is.
	Command string `json:"command"`
}

type changeView struct {
	endpointView
	// Change is the proposed share less the share; null when one is not known.
	Change *float64 `json:"change"`
}

// diffCommand holds the flags of `kubectl taper diff`.
type diffCommand struct {
	connection     *connection
	all, json      bool
	tellByExitCode bool
}

func newDiff(c *connection) *cobra.Command {
	d := &diffCommand{connection: c}
	cmd := &cobra.Command{
		Use:   "diff [POLICY]",
		Short: "Show what Enforce would change",
		Long: `Shows, for each policy with mode Recommend, the share of requests that each pod
has and the one that Enforce would settle at; for policies with mode Enforce, what
was decided and is not in force yet.

With --exit-code the exit code is 3 when something would change, and also when that
is not known, because a policy has no status or one about an earlier spec.

With --json: summary, differs and policies, each with the fields of status and
known, differs, moved_share, command, unchanged (how many endpoints) and changes,
which have the fields of an endpoint and change, in shares.`,
		Example: `  kubectl taper diff
  kubectl taper diff fib -n demo
  kubectl taper diff -A --exit-code`,
		Args:              upTo(0, 1, "policy"),
		ValidArgsFunction: completePolicies(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return d.run(cmd, name)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&d.all, "all-namespaces", "A", false, "look at all namespaces")
	f.BoolVar(&d.json, "json", false, "print JSON")
	f.BoolVar(&d.tellByExitCode, "exit-code", false, "exit with 3 when something would change or is not known")
	return cmd
}

func (d *diffCommand) run(cmd *cobra.Command, name string) error {
	if name != "" && d.all {
		return command.Usagef("%s takes a POLICY or -A, and not both: -n NAMESPACE chooses the policy's namespace", cmd.CommandPath())
	}
	ctx, cancel, from, err := d.connection.open(cmd, d.all)
	if err != nil {
		return err
	}
	defer cancel()
	view := diffView{Policies: []policyDiffView{}}
	if err := from.some(ctx, name, func(p *v1alpha1.BalancePolicy) {
		view.Policies = append(view.Policies, diffOf(p, from.now))
	}); err != nil {
		return err
	}
	view.sum()
	if err := d.print(cmd, &view, name, from); err != nil {
		return err
	}
	if d.tellByExitCode && !view.same() {
		return command.Answered(command.ExitCheck)
	}
	return nil
}

func (d *diffCommand) print(cmd *cobra.Command, view *diffView, name string, from *cluster) error {
	if d.json {
		return printJSON(cmd.OutOrStdout(), view)
	}
	out := newPrinter(cmd.OutOrStdout())
	if len(view.Policies) == 0 {
		out.nothing(from.namespace)
		return out.Flush()
	}
	most := mostChanges
	if name != "" {
		most = math.MaxInt
	}
	out.diff(view, most, from.now)
	return out.Flush()
}

const (
	// leastChange is less than what any change of weights makes of a share.
	leastChange = 1e-9
	// leastRounded is the relative change of a share that is told from the rounding
	// of the status's decimals, which are all there is when a list was cut.
	leastRounded = 0.01
)

// diffOf compares what is in force with what was decided.
func diffOf(p *v1alpha1.BalancePolicy, now time.Time) policyDiffView {
	d := policyDiffView{policyView: newPolicyView(p, now), Changes: []changeView{}}
	d.Known = d.told()
	if modeOf(p) == v1alpha1.Recommend {
		d.Command = enforceCommand(p)
	}
	if !d.Known {
		return d
	}
	moved, complete := 0.0, int(p.Status.EndpointCount) <= len(p.Status.Endpoints)
	for _, e := range endpointViews(p, now) {
		c := changeView{endpointView: e}
		changed := e.Weight != e.ProposedWeight
		if e.Share != nil && e.ProposedShare != nil {
			change := *e.ProposedShare - *e.Share
			c.Change = &change
			changed = math.Abs(change) > leastChange && (complete || math.Abs(change) > leastRounded**e.Share)
			moved += math.Abs(change) / 2
		}
		if changed && e.ProposedWeight > 0 { // nothing was decided otherwise
			d.Changes = append(d.Changes, c)
		}
	}
	d.Differs = len(d.Changes) > 0
	d.Unchanged = len(p.Status.Endpoints) - len(d.Changes)
	if complete {
		d.MovedShare = &moved
	}
	slices.SortStableFunc(d.Changes, func(a, b changeView) int {
		return cmp.Or(cmp.Compare(b.size(), a.size()), cmp.Compare(a.Pod, b.Pod))
	})
	return d
}

// size is how much a change matters; one that is not known might matter most.
func (c *changeView) size() float64 {
	if c.Change == nil {
		return math.Inf(1)
	}
	return math.Abs(*c.Change)
}

func enforceCommand(p *v1alpha1.BalancePolicy) string {
	return patchCommand(p, `{"spec":{"mode":"Enforce"}}`)
}

func patchCommand(p *v1alpha1.BalancePolicy, patch string) string {
	return fmt.Sprintf("kubectl patch balancepolicy %s -n %s --type merge -p '%s'", p.Name, p.Namespace, patch)
}

// sum says what the policies come to.
func (v *diffView) sum() {
	var differ, unknown int
	for i := range v.Policies {
		switch d := &v.Policies[i]; {
		case !d.Known:
			unknown++
		case d.Differs:
			differ++
		}
	}
	v.Differs = differ > 0
	v.Summary = fmt.Sprintf("%d of %s would change", differ, count(len(v.Policies), "policy", "policies"))
	if unknown > 0 {
		v.Summary += fmt.Sprintf("; of %d it is not known", unknown)
	}
}

// same tells whether it is known that nothing would change.
func (v *diffView) same() bool {
	for i := range v.Policies {
		if d := &v.Policies[i]; d.Differs || !d.Known {
			return false
		}
	}
	return true
}

// mostChanges bounds what is shown of a policy among others.
const mostChanges = 10

func (p *printer) diff(view *diffView, most int, now time.Time) {
	if len(view.Policies) > 1 {
		p.Paragraph(terminal.Bold.Text(view.Summary), 2)
		p.Line()
	}
	for i := range view.Policies {
		if i > 0 {
			p.Line()
		}
		p.policyDiff(&view.Policies[i], most, now)
	}
}

func (p *printer) policyDiff(d *policyDiffView, most int, now time.Time) {
	p.Paragraph(terminal.Bold.Text(d.headline()), 2)
	if d.Known && d.State.troubled() {
		p.Paragraph(stateStyles[d.State].Text(fmt.Sprintf("%s for %s: what was decided may be old", d.words(), age(now, d.standing.since))), 2)
	}
	if len(d.Changes) > 0 {
		p.changes(d, most)
	}
	if d.Command != "" && d.Differs {
		p.Line()
		p.Line(terminal.Normal.Text("to write it:"))
		p.Line(terminal.Normal.Text("  " + d.Command))
	}
}

// headline answers what would change.
func (d *policyDiffView) headline() string {
	subject := "Enforce would move"
	if d.Mode == string(v1alpha1.Enforce) {
		subject = "not in force yet:"
	}
	switch {
	case !d.Known:
		return fmt.Sprintf("%s: %s", d.name(), d.Message)
	case !d.Differs && d.Mode == string(v1alpha1.Enforce):
		return fmt.Sprintf("%s: what was decided is in force", d.name())
	case !d.Differs:
		return fmt.Sprintf("%s: Enforce would change nothing", d.name())
	case d.MovedShare == nil:
		return fmt.Sprintf("%s: %s weights of at least %d of %d endpoints", d.name(), subject, len(d.Changes), d.EndpointCount)
	}
	return fmt.Sprintf("%s: %s %s of the requests", d.name(), subject, percent(d.MovedShare))
}

func (p *printer) changes(d *policyDiffView, most int) {
	columns := []terminal.Column{{Title: "pod", Tail: true}, {Title: "has", Right: true}, {Title: "would get", Right: true}, {Title: "points", Right: true},
		{Title: "weight", Right: true, Spare: 2}, {Title: "reason", Spare: 1}}
	shown := d.Changes[:min(len(d.Changes), most)]
	rows := make([][]terminal.Text, len(shown))
	for i := range shown {
		c := &shown[i]
		rows[i] = terminal.Row(c.Pod, percent(c.Share), percent(c.ProposedShare), points(c.Change),
			weight(c.Weight)+" → "+weight(c.ProposedWeight), c.Reason)
		rows[i][3].Style = changeStyle(c.Change)
	}
	p.Table(columns, rows)
	if more := len(d.Changes) - len(shown); more > 0 {
		p.Line(terminal.Faint.Text(fmt.Sprintf("… and %d more: kubectl taper diff %s -n %s", more, d.Policy, d.Namespace)))
	}
	if d.Unchanged > 0 {
		p.Line(terminal.Faint.Text(count(d.Unchanged, "endpoint keeps its share", "endpoints keep their share")))
	}
}

// points is a difference of shares, in percentage points.
func points(change *float64) string {
	if change == nil {
		return unknownText
	}
	return fmt.Sprintf("%+.1f", 100**change)
}

func changeStyle(change *float64) terminal.Style {
	switch {
	case change == nil:
		return terminal.Normal
	case *change < 0:
		return terminal.Yellow
	}
	return terminal.Green
}
