package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// hops say which hop is full.
var hops = map[string]string{
	"balancer": "The balancer is full", "backends": "The backends are full", "client": "The client is full",
	"none seen": "No bottleneck was seen",
}

// PageLoad says which hop limits how fast a page is loaded.
func PageLoad(p *probe.PageLoad) Answer {
	var a Answer
	if p.Incomplete != "" {
		a.Rest = append(a.Rest, "Incomplete: "+full(p.Incomplete))
	}
	sums := make([]string, 0, len(p.Targets))
	for i := range p.Targets {
		t := &p.Targets[i]
		sums = append(sums, full(TargetName(t)+": "+saturation(t)))
		if t.Problem != "" {
			a.Rest = append(a.Rest, TargetName(t)+" could not be measured to the end: "+full(t.Problem))
		}
		a.Rest = append(a.Rest, failures(t)...)
	}
	for _, note := range p.Notes {
		a.Rest = append(a.Rest, full(note))
	}
	if b := p.Bottleneck; b != nil {
		a.Headline = strings.TrimRight(b.Sentence, ".")
		if words := hops[b.Hop]; words != "" && !strings.HasPrefix(strings.ToLower(a.Headline), strings.ToLower(words)) {
			a.Headline = words + ": " + a.Headline
		}
		a.Headline = capital(a.Headline)
		a.Rest = append(sums, a.Rest...)
		return a
	}
	if len(sums) == 0 {
		a.Headline = "Nothing was measured"
		return a
	}
	a.Headline = strings.TrimRight(sums[0], ".")
	a.Rest = append(sums[1:], a.Rest...)
	return a
}

// TargetName is how a way to the page is called.
func TargetName(t *probe.PageTarget) string {
	if t.Name != "" {
		return t.Name
	}
	return t.URL
}

func saturation(t *probe.PageTarget) string {
	switch {
	case t.Users > 0:
		return fmt.Sprintf("throughput stops growing at %s, with %s", plural(t.Users, "user"), Rate(t.BytesPerS))
	case len(t.Steps) > 0:
		last := t.Steps[len(t.Steps)-1]
		return fmt.Sprintf("throughput still grew with %s, at %s", plural(last.Users, "user"), Rate(last.BytesPerS))
	}
	return "not measured"
}

// failures say why something failed, once for each reason.
func failures(t *probe.PageTarget) []string {
	var all []string
	said := map[string]bool{}
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Errors > 0 && s.Why != "" && !said[s.Why] {
			said[s.Why] = true
			all = append(all, fmt.Sprintf("%s: with %s, %s, the first: %s", TargetName(t), plural(s.Users, "user"), plural(int(s.Errors), "failure"), full(s.Why)))
		}
	}
	return all[:min(len(all), mostTold)]
}

// Step is one number of users, in figures. Client is how busy the users' machine was.
type Step struct{ Users, Rate, Pages, P50, P90, P99, Errors, Client string }

// Steps are those of a target.
func Steps(t *probe.PageTarget) []Step {
	var rows []Step
	for i := range t.Steps {
		s := &t.Steps[i]
		at := func(ms *float64) string {
			if ms == nil {
				return report.Missing
			}
			return Duration(*ms * 1e3)
		}
		rows = append(rows, Step{
			Users: report.Count(uint64(max(0, s.Users))), Rate: Rate(s.BytesPerS), Pages: report.Number(s.PagesPerS),
			P50: at(s.P50), P90: at(s.P90), P99: at(s.P99), Errors: report.Count(uint64(max(0, s.Errors))), Client: busy(s.ClientBusy),
		})
	}
	return rows
}

func busy(share *float64) string {
	if share == nil {
		return report.Missing
	}
	return report.Number(100**share) + " %"
}

// Busiest is the step with the most users that tells bytes over time; nil if none does.
func Busiest(t *probe.PageTarget) *probe.PageStep {
	var most *probe.PageStep
	for i := range t.Steps {
		if s := &t.Steps[i]; len(s.Bins) > 1 && (most == nil || s.Users > most.Users) {
			most = s
		}
	}
	return most
}

// Servers are those who served a step, by name.
func Servers(s *probe.PageStep) []string { return slices.Sorted(maps.Keys(s.Served)) }
