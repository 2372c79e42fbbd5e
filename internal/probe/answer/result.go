package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// Result says what was found between two places.
func Result(r *probe.Result) Answer {
	if len(keys(r)) == 0 {
		a := Answer{Headline: "Nothing was measured"}
		for _, path := range Paths(r) {
			if path.Conditions.ShapingBytes > 0 {
				a.Headline = "Only how steady the bandwidth is was measured"
			}
			if path.Conditions.Shaping != nil {
				a.Rest = append(a.Rest, warnings(r, path)...)
			}
		}
		if r.Incomplete != "" {
			a.Headline += ": " + strings.TrimRight(r.Incomplete, ".")
		}
		return a
	}
	a := Answer{Headline: gives(r) + " to " + to(r)}
	if len(r.Others) > 0 {
		a.Headline = name(r) + ": " + a.Headline
		for i := range r.Others {
			a.Headline += "; " + name(&r.Others[i]) + " " + against(r, &r.Others[i])
		}
	}
	for _, path := range Paths(r) {
		a.Rest = append(a.Rest, warnings(r, path)...)
	}
	return a
}

// gives is what the path gives at a glance: bandwidth and latency, else any figure.
func gives(r *probe.Result) string {
	var parts []string
	for _, tests := range [][]probe.Test{{probe.TCPBandwidth, probe.UDPBandwidth}, {probe.TCPLatency, probe.UDPLatency, probe.Connect}} {
		if t := first(r, tests...); t != nil {
			parts = append(parts, Value(t.Test, Main(t)))
		}
	}
	if len(parts) == 0 {
		if t := first(r, probe.Tests...); t != nil {
			parts = append(parts, string(t.Test)+" "+Value(t.Test, Main(t)))
		}
	}
	if len(parts) == 0 {
		return "no figure"
	}
	return strings.Join(parts, " and ")
}

// first is the first test with a figure, in the order of the kinds given.
func first(r *probe.Result, kinds ...probe.Test) *probe.TestResult {
	for _, kind := range kinds {
		for i := range r.Tests {
			if t := &r.Tests[i]; t.Test == kind && measured(Main(t)) {
				return t
			}
		}
	}
	return nil
}

// to names the far end by what people call it, with its address.
func to(r *probe.Result) string {
	details := []string{r.To}
	if r.Path != "" {
		details = append(details, string(r.Path))
	}
	host := ""
	if far := r.Conditions.Far; far != nil {
		if host = far.Node; host == "" {
			host = far.Name
		}
	}
	if host == "" {
		return strings.Join(details, ", ")
	}
	return host + " (" + strings.Join(details, ", ") + ")"
}

// against says what another path costs compared with the first, bandwidth and latency;
// what cannot be told comes after what can.
func against(r, other *probe.Result) string {
	var told, untold []string
	var undecided *probe.Verdict // the one that takes most
	for _, kinds := range [][]probe.Test{{probe.TCPBandwidth, probe.UDPBandwidth}, {probe.TCPLatency, probe.UDPLatency, probe.Connect}} {
		t := compared(other, kinds)
		if t == nil {
			continue
		}
		v := t.Verdict
		if v.Outcome != probe.CannotTell || v.Within {
			told = append(told, cost(find(r, keyOf(t)), t))
			continue
		}
		untold = append(untold, metric(t.Test))
		if undecided == nil || v.Needed > undecided.Needed {
			undecided = v
		}
	}
	text := strings.ReplaceAll(strings.Join(told, " and "), " and has ", " and ")
	if undecided == nil {
		return cmp.Or(text, "cannot be compared")
	}
	why := strings.TrimPrefix(Verdict(undecided), "cannot tell: ")
	if len(told) == 0 {
		return fmt.Sprintf("cannot be told from %s yet (%s)", name(r), why)
	}
	return fmt.Sprintf("%s, its %s cannot be told apart yet (%s)", text, strings.Join(untold, " and "), why)
}

// metric is what a test is about.
func metric(t probe.Test) string {
	if t.LowerIsBetter() {
		return "latency"
	}
	return "bandwidth"
}

func compared(path *probe.Result, kinds []probe.Test) *probe.TestResult {
	for _, kind := range kinds {
		i := slices.IndexFunc(path.Tests, func(t probe.TestResult) bool { return t.Test == kind && t.Verdict != nil })
		if i >= 0 {
			return &path.Tests[i]
		}
	}
	return nil
}

// cost is a verdict that could be told, of the figure that its test is about.
func cost(base, t *probe.TestResult) string {
	v, what := t.Verdict, metric(t.Test)
	switch {
	case v.Outcome == probe.CannotTell:
		return "has the same " + what
	case what == "latency" && base != nil:
		more, word := Main(t)-Main(base), "adds"
		if more < 0 {
			more, word = -more, "saves"
		}
		return fmt.Sprintf("%s %s of latency", word, Duration(more))
	case v.Ratio < 1:
		return fmt.Sprintf("costs %s of the %s", Percent(1-v.Ratio), what)
	}
	return fmt.Sprintf("has %s × the %s", report.Number(v.Ratio), what)
}

// warnings are what a reader must know before believing a path's figures.
func warnings(r, path *probe.Result) []string {
	lead := ""
	if len(r.Others) > 0 {
		lead = name(path) + ": "
	}
	var all []string
	if path.Incomplete != "" {
		all = append(all, lead+"Incomplete: "+full(path.Incomplete))
	}
	c := &path.Conditions
	if c.Shaped && c.Shaping != nil {
		s := c.Shaping
		all = append(all, fmt.Sprintf("%sShaped: a burst of %s goes %s at %s, then %s is all there is (counted in Ethernet frames; the rate fell after %s s).",
			lead, Size(s.BucketBytes), s.Direction, Rate(s.BurstBytesPerS), Rate(s.SustainedBytesPerS), report.Number(s.AtS)))
	}
	all = append(all, leftOut(lead, path, keys(r))...)
	for i := range path.Tests {
		if m := path.Tests[i].PathMTU; m != nil && m.BlackHole {
			all = append(all, lead+blackHole(m))
		}
	}
	return all
}

// leftOut says why trials are not counted: each reason once, and none that ended the path
// and was told with it.
func leftOut(lead string, path *probe.Result, labels []key) (all []string) {
	var reasons []string
	tests, trials := map[string][]string{}, map[string]int{}
	for i := range path.Tests {
		t := &path.Tests[i]
		if t.Incomplete == 0 || t.Why == "" || strings.Contains(path.Incomplete, t.Why) {
			continue
		}
		if trials[t.Why] == 0 {
			reasons = append(reasons, t.Why)
		}
		tests[t.Why] = append(tests[t.Why], keyOf(t).label(labels))
		trials[t.Why] += t.Incomplete
	}
	for _, why := range reasons {
		all = append(all, fmt.Sprintf("%s%s: left out %s that ended early: %s", lead, strings.Join(tests[why], ", "), plural(trials[why], "trial"), full(why)))
	}
	return all
}

// blackHole says which way packets vanish.
func blackHole(m *probe.PathMTUFound) string {
	way, through, believed := "on the way there", m.Out, m.Believed
	if m.Out >= m.Believed {
		way, through, believed = "on the way back", m.In, m.FarBelieved
	}
	return fmt.Sprintf("MTU black hole: packets of more than %s bytes vanish %s without a word, while the kernel sends up to %s. Connections hang with their first full segment: lower the interface's MTU, or let ICMP \"fragmentation needed\" through.",
		report.Count(uint64(max(0, through))), way, report.Count(uint64(max(0, believed))))
}

// full ends a text as a sentence.
func full(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return strings.TrimRight(text, ".") + "."
}

// Notes are the conditions, and why it is not faster, each a sentence.
func Notes(r *probe.Result) []string {
	var all []string
	labels := keys(r)
	for index, path := range Paths(r) {
		if len(path.Tests) == 0 && path.Conditions.ShapingBytes == 0 {
			continue
		}
		lead := ""
		if len(r.Others) > 0 {
			lead = name(path) + ": "
		}
		for i := range path.Tests {
			if l := path.Tests[i].Limits; l != nil && l.Reason != "" {
				all = append(all, lead+keyOf(&path.Tests[i]).label(labels)+" is held back by: "+full(l.Reason))
			}
		}
		for _, note := range path.Conditions.Notes {
			all = append(all, lead+full(note))
		}
		all = append(all, conditions(lead, &path.Conditions, index == 0)...)
	}
	return all
}

// conditions are in one sentence; the noise floor is the same for all paths.
func conditions(lead string, c *probe.Conditions, floor bool) []string {
	var parts []string
	if c.MTU > 0 {
		parts = append(parts, "MTU "+report.Count(uint64(c.MTU)))
	}
	if floor && c.NoiseFloorShare != nil {
		parts = append(parts, "bandwidth differs from itself by "+Percent(*c.NoiseFloorShare))
	}
	if floor && c.NoiseFloorUS != nil {
		parts = append(parts, "latency differs from itself by "+Duration(*c.NoiseFloorUS))
	}
	if !c.Shaped && c.ShapingBytes > 0 {
		parts = append(parts, "no shaping seen within "+Size(float64(c.ShapingBytes)))
	}
	if c.ThrottledS == nil {
		parts = append(parts, "whether CPU limits stopped an end is not known")
	}
	if len(c.NearCPUs) > 0 || len(c.FarCPUs) > 0 {
		parts = append(parts, fmt.Sprintf("CPUs %s here, %s there", cpus(c.NearCPUs), cpus(c.FarCPUs)))
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{lead + full(capital(strings.Join(parts, "; ")))}
}

// cpus writes numbers as ranges: 0-2,5.
func cpus(numbers []int) string {
	if len(numbers) == 0 {
		return report.Missing
	}
	var texts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		text := fmt.Sprint(numbers[i])
		if last > i {
			text += fmt.Sprintf("-%d", numbers[last])
		}
		texts = append(texts, text)
		i = last + 1
	}
	return strings.Join(texts, ",")
}
