package explain

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/trap"
)

// Answer says where the time went, most important first: Headline is one sentence,
// Rest are those after it.
type Answer struct {
	Headline string
	Rest     []string
	// Finding is the one that Rest tells of; nil if there is none.
	Finding *Finding
}

// Answer composes the answer from the route that took most time, its biggest part and
// the finding that explains it.
func (e *Explanation) Answer() Answer {
	if len(e.Routes) == 0 {
		return e.nothingFound()
	}
	route := &e.Routes[0]
	shares := route.shares()
	answer := Answer{Headline: e.spent(route, shares)}
	if f := e.explains(shares); f != nil {
		answer.Finding = f
		answer.Rest = append(answer.Rest, shares[0].without(sentence(f.Title)), sentence(f.Fix))
	} else if shares[0].Cause == attribution.Self && shares[0].Share >= mostly {
		answer.Rest = append(answer.Rest, ownTime)
	}
	answer.Rest = append(answer.Rest, e.standing(route)...)
	return answer
}

// mostly is the share of the time from which one part alone is named.
const mostly = 0.5

const ownTime = "Meanwhile no packet came or went: it worked itself, or waited for what leaves no packet " +
	"(a lock, garbage collection, a throttled CPU, a disk). " +
	"Packets cannot tell these apart: look at the container's cpu.stat (--cpu-stat), then profile."

// spent says where the time of a route's requests went.
func (e *Explanation) spent(route *Route, shares []RoutePart) string {
	which := "each request"
	switch {
	case len(e.Routes) > 1 && route.Route == OtherName:
		which = "each request of the other routes"
	case len(e.Routes) > 1:
		which = "each " + route.Name()
	case route.Count == 1:
		which = "the request"
	}
	if route.MeanMS <= 0 {
		return "No request took longer than the capture's clock can tell."
	}
	if shares[0].Share >= mostly {
		return fmt.Sprintf("%s of %s ms of %s went to %s.",
			figure(shares[0].MeanMS, route.MeanMS), figure(route.MeanMS, route.MeanMS), which, shares[0].phrase())
	}
	var most []string
	for _, s := range shares[:min(len(shares), 3)] {
		most = append(most, fmt.Sprintf("%s ms in %s", figure(s.MeanMS, route.MeanMS), s.phrase()))
	}
	which = strings.ToUpper(which[:1]) + which[1:]
	return fmt.Sprintf("%s took %s ms: %s.", which, figure(route.MeanMS, route.MeanMS), enumerate(most))
}

// costs is how titles say what a trap costs.
var costs = regexp.MustCompile(`\bcost [0-9.,]+ (µs|ms|s)$`)

// without leaves out what the headline has said already: the first sentence of several,
// when all it tells is what the same part costs.
func (p *RoutePart) without(title string) string {
	first, rest, several := strings.Cut(title, ". ")
	if several && costs.MatchString(first) && strings.Contains(first, p.subject()) {
		return rest
	}
	return title
}

// subject is what a part is about, in a word that every text about it has.
func (p *RoutePart) subject() string {
	switch {
	case p.Provider != "":
		return string(p.Provider)
	case p.Cause == attribution.DNS || p.Cause == attribution.TLS:
		return strings.ToUpper(string(p.Cause))
	}
	return p.Peer
}

// explains is the finding that says why the biggest of the parts is as big as it is,
// or else the gravest one; nil if there is none that matters.
func (e *Explanation) explains(shares []RoutePart) *Finding {
	var gravest *Finding
	for i := range e.Findings {
		f := &e.Findings[i]
		if f.Severity == trap.Low {
			continue
		}
		if slices.Contains(symptoms[f.ID], shares[0].Cause) {
			return f
		}
		if gravest == nil && f.Severity == trap.High {
			gravest = f
		}
	}
	return gravest
}

// symptoms are the causes on which traps let time be spent.
var symptoms = map[string][]attribution.Cause{
	"credential-refresh":       {attribution.Metadata},
	"imdsv2-hop-limit":         {attribution.Metadata},
	"credentials-per-client":   {attribution.Metadata, attribution.Call},
	"dns-search-amplification": {attribution.DNS},
	"dns-uncached":             {attribution.DNS},
	"dns-conntrack-race":       {attribution.DNS, attribution.Retransmit},
	"dns-slow":                 {attribution.DNS, attribution.Retransmit},
	"metadata-slow":            {attribution.Metadata, attribution.Connect, attribution.Retransmit},
	"dns-resolver-cap":         {attribution.DNS, attribution.Retransmit},
	"connection-per-request":   {attribution.Connect},
	"tls-per-request":          {attribution.TLS},
	"nagle-delayed-ack":        {attribution.Call, attribution.Retransmit, attribution.ClientNetwork},
	"retransmit-timeout":       {attribution.Retransmit},
	"syn-loss":                 {attribution.Connect, attribution.Retransmit},
	"zero-window":              {attribution.Call, attribution.Retransmit, attribution.ClientNetwork},
	"slow-start-after-idle":    {attribution.Call, attribution.Retransmit, attribution.ClientNetwork},
	"idle-drop":                {attribution.Retransmit, attribution.Call},
	"keepalive-race":           {attribution.Call},
	"cpu-throttling":           {attribution.Self},
	"n-plus-one":               {attribution.Call},
	"mtu-black-hole":           {attribution.Retransmit},
	"connection-pinning":       {attribution.Call},
	"snat-exhaustion":          {attribution.Connect, attribution.Retransmit},
	"stale-endpoint":           {attribution.Connect, attribution.Call},
	"hairpin":                  {attribution.Connect, attribution.Call},
}

// standing says how requests fared, and whether something is known to be wrong.
func (e *Explanation) standing(route *Route) []string {
	var count, failed uint64
	for _, r := range e.Routes {
		count += r.Count
		failed += r.Failed
	}
	name := ""
	if len(e.Routes) > 1 {
		name = " of " + route.Name()
	}
	said := []string{fmt.Sprintf("%s%s%s.", requests(route.Count), name, route.spread())}
	if failed > 0 {
		said = append(said, fmt.Sprintf("%s of %s failed.", report.Count(failed), requests(count)))
	}
	if len(e.Findings) == 0 {
		said = append(said, "No known trap shows in the capture.")
	}
	return said
}

// spread says how long most requests took and how long slow ones did. A percentile takes
// as many requests as it has steps.
func (r *Route) spread() string {
	switch {
	case r.Count <= 1:
		return ""
	case r.Count < 100:
		return fmt.Sprintf(": p50 %s ms, slowest %s ms", report.Number(r.P50MS), report.Number(r.MaxMS))
	}
	return fmt.Sprintf(": p50 %s ms, p99 %s ms", report.Number(r.P50MS), report.Number(r.P99MS))
}

// shares are the parts of a route as people speak of them: names are looked up, and
// connections opened, wherever to. The longest is first; there is at least one.
func (r *Route) shares() []RoutePart {
	var shares []RoutePart
	for _, p := range r.Parts {
		at := slices.IndexFunc(shares, func(s RoutePart) bool { return s.Cause == p.Cause && s.spokenOfAsOne() })
		if at < 0 {
			shares = append(shares, p)
			continue
		}
		s := &shares[at]
		s.MeanMS += p.MeanMS
		s.Share += p.Share
		s.Calls += p.Calls
		s.Peer, s.Target = "", ""
	}
	if len(shares) == 0 {
		shares = []RoutePart{{Cause: attribution.Self}}
	}
	slices.SortStableFunc(shares, func(a, b RoutePart) int { return cmp.Compare(b.MeanMS, a.MeanMS) })
	return shares
}

func (p *RoutePart) spokenOfAsOne() bool {
	switch p.Cause {
	case attribution.Call, attribution.Metadata:
		return false
	}
	return true
}

// phrase says what the time of a part was spent on, after "went to" and "in".
func (p *RoutePart) phrase() string {
	with := func(preposition string) string {
		if p.Peer == "" {
			return ""
		}
		return " " + preposition + " " + p.Peer
	}
	switch p.Cause {
	case attribution.Metadata:
		service := with("to")
		if p.Provider != "" {
			service = " to the " + string(p.Provider)
		}
		return several(p.Calls, "call") + service + p.parenthesis()
	case attribution.Call:
		return several(p.Calls, "call") + with("to") + p.parenthesis()
	case attribution.DNS:
		return several(p.Calls, "DNS query") + p.parenthesis()
	case attribution.Connect:
		return several(p.Calls, "TCP handshake") + with("with")
	case attribution.TLS:
		return several(p.Calls, "TLS handshake") + with("with")
	case attribution.Retransmit:
		return "waiting for lost packets to be sent again"
	case attribution.ClientNetwork:
		return "the network to the client"
	}
	return "the service itself, without any network activity"
}

func (p *RoutePart) parenthesis() string {
	if p.Target == "" {
		return ""
	}
	return " (" + shorten(p.Target, 80) + ")"
}

// figure writes a part as precisely as its whole is written, so that they can be
// compared at a glance: "86 of 105".
func figure(v, whole float64) string {
	if v >= 1000 {
		return report.Number(v)
	}
	decimals := 2
	switch {
	case whole >= 99.95:
		decimals = 0
	case whole >= 9.995:
		decimals = 1
	case whole < 0.1:
		decimals = 4
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// shorten cuts a text after n characters.
func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// several counts what is counted per request: "1 call", "2.4 calls".
func several(n float64, what string) string {
	plural := strings.TrimSuffix(what, "y") + "ies"
	if plural == what+"ies" {
		plural = what + "s"
	}
	switch whole := math.Round(n); {
	case math.Abs(n-whole) < 0.05 && whole == 1:
		return "1 " + what
	case math.Abs(n-whole) < 0.05 && whole > 0:
		return fmt.Sprintf("%.0f %s", whole, plural)
	case n < 0.05:
		return "a rare " + what
	}
	return fmt.Sprintf("%.1f %s", n, plural)
}

func requests(n uint64) string { return plural(n, "request") }

// plural counts what takes an s.
func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return report.Count(n) + " " + what + "s"
}

// enumerate joins phrases as people do.
func enumerate(phrases []string) string {
	if len(phrases) < 2 {
		return strings.Join(phrases, "")
	}
	last := len(phrases) - 1
	return strings.Join(phrases[:last], ", ") + " and " + phrases[last]
}

// sentence ends a text as a sentence.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "!") {
		return s
	}
	return s + "."
}
