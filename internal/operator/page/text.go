package page

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/operator/journal"
)

// textAll lists the policies for a terminal.
func (s *server) textAll(w http.ResponseWriter, _ *http.Request) {
	a := s.answer()
	t := startText(w, a)
	row(t, "NAMESPACE", "POLICY", "SERVICE", "MODE", "ENDPOINTS", "DECIDED", "STATE", "WHY")
	for _, e := range s.journal.All() {
		p := summarize(&e, a.Now)
		endpoints := ""
		if p.EndpointCount != nil {
			endpoints = fmt.Sprint(*p.EndpointCount)
		}
		row(t, p.Namespace, p.Name, p.Service, p.Mode, endpoints, ago(a.Now, p.DecidedAt), p.State.Word, p.State.why())
	}
	_ = t.Flush() // who asked may have left
}

// textOne shows one policy for a terminal.
func (s *server) textOne(w http.ResponseWriter, r *http.Request) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	e, ok := s.journal.Latest(name)
	if !ok {
		http.Error(w, printable(fmt.Sprintf("no BalancePolicy %s is known here", name)), http.StatusNotFound)
		return
	}
	a := s.answer()
	t := startText(w, a)
	writePolicy(t, &e, a.Now)
	_ = t.Flush()
}

func writePolicy(t *tabwriter.Writer, e *journal.Entry, now time.Time) {
	p := newPolicy(e, now)
	row(t, "POLICY", p.Namespace+"/"+p.Name+" for service "+p.Service)
	row(t, "STATE", strings.TrimSpace(p.State.Word+" "+p.State.why()))
	row(t, "DECIDED", ago(now, p.DecidedAt))
	row(t, "MODE", p.Mode+", "+p.Strategy)
	for _, c := range p.Conditions {
		row(t, strings.ToUpper(c.Type), strings.TrimSpace(c.Status+" "+c.Reason+" "+c.Message))
	}
	_ = t.Flush() // columns of what follows are their own
	_, _ = io.WriteString(t, "\n")
	row(t, "POD", "ADDRESS", "IN FORCE", "DECIDED", "SHARE", "USED", "SAMPLE", "REASON", "WHY")
	for _, ep := range p.Endpoints {
		row(t, ep.Pod, ep.Address, weight(ep.InForce), weight(ep.Weight), percent(ep.Share), percent(ep.Utilization),
			ago(now, ep.SampledAt), ep.Reason, ep.Why)
	}
}

// startText says who answers, and begins a table.
func startText(w http.ResponseWriter, a answer) *tabwriter.Writer {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	who := "leads"
	if !a.Leading {
		who = "stands by: ask the leader, this may be old"
		if a.Lease != "" {
			who += ", lease " + a.Lease
		}
	}
	fmt.Fprintf(w, "taper-operator %s, replica %s %s, %s\n\n", a.Version, a.Replica, who, a.Now.Format(time.RFC3339))
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
}

// row writes the cells of a table's row. The last one has no tab behind it, so
// that its length does not matter.
func row(w io.Writer, cells ...string) {
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		cells[i] = printable(c)
	}
	_, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n")
}

func (s state) why() string {
	if s.Reason == "" {
		return s.Message
	}
	return s.Reason + ": " + s.Message
}

// printable keeps control characters, which a terminal would obey, out.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

func ago(now, at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return now.Sub(at).Round(time.Second).String() + " ago"
}

func weight(w uint32) string {
	if w == 0 {
		return "-"
	}
	return fmt.Sprint(w)
}

func percent(k known) string {
	if k.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%.4g %%", 100*float64(k))
}
