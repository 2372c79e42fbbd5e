package trap

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// sameExpiry fetches of credentials with one end are two too many: renewing did not
	// renew. Two can be two processes.
	sameExpiry = 3
	// fetchesPerCall is more than any renewing that works costs: once per life of the
	// credentials, which is hundreds of calls.
	fetchesPerCall = 0.2
	// fewFetches says nothing yet: clients of a process that starts.
	fewFetches = 3
	// renewEvery is faster than any renewing that works: the shortest life that is left
	// when renewed, 15 minutes served and renewed 5 before the end, with room for several
	// processes.
	renewEvery = time.Minute
	// shortestSession is the least life that STS gives.
	shortestSession = 15 * time.Minute
	// maxClients bounds the clients that are told apart, maxExpiries the ends of
	// credentials that are, of each.
	maxClients  = 256
	maxExpiries = 64
)

// client is who asks whom: pods of one node are told apart.
type client struct {
	addr     netip.Addr
	provider capture.MetadataProvider
}

// credentialRefresh sees that credentials are fetched again and again because those that
// are served have less life left than makes the SDK fetch: each fetch gives the same.
type credentialRefresh struct {
	clients table[client, refresher]
	signed  table[netip.Addr, uint64] // SDK calls that can be read
}

func newCredentialRefresh() Rule {
	return &credentialRefresh{clients: newTable[client, refresher](maxClients), signed: newTable[netip.Addr, uint64](maxClients)}
}

func (*credentialRefresh) ID() string { return "credential-refresh" }

// refresher is what one client fetched in vain.
type refresher struct {
	fetches     uint64
	first, last capture.Time
	expiries    table[capture.Time, uint64]
	same        uint64        // most fetches with one end
	most        time.Duration // life left at one of them, at most; 0 is unknown
	longest     time.Duration // and at any fetch, also of those that were not in vain
	agent       string
	path        string
	charge      charge
	evidence    evidence
}

func (c *credentialRefresh) Exchange(x *capture.Exchange) {
	if x.HTTP == nil {
		return
	}
	addr := x.Client().Addr()
	if x.HTTP.Signed {
		if n := c.signed.at(addr); n != nil {
			*n++
		}
	}
	if !fetched(x) {
		return
	}
	r := c.clients.at(client{addr, x.HTTP.Metadata.Provider})
	if r == nil {
		return
	}
	r.longest = max(r.longest, lifeLeft(x))
	if inVain(x) {
		r.fetch(x)
	}
}

// inVain says whether credentials were fetched that have so little life left that the
// next call fetches again. Where their end is not known the rate decides later.
func inVain(x *capture.Exchange) bool {
	if !fetched(x) {
		return false
	}
	life, window := lifeLeft(x), unknownWindow
	if rule, _ := recogniseSDK(x.HTTP.UserAgent, x.HTTP.Metadata.Provider); rule != nil {
		window = rule.window
	}
	return life < window+clockSkew
}

// fetched says whether the exchange served credentials.
func fetched(x *capture.Exchange) bool {
	return x.HTTP != nil && x.HTTP.Metadata != nil && x.HTTP.Metadata.Kind == capture.MetadataCredentials &&
		x.Answered() && x.Status >= 200 && x.Status < 300
}

// lifeLeft is how long served credentials still live; 0 is unknown.
func lifeLeft(x *capture.Exchange) time.Duration {
	if x.HTTP.Metadata.Expires == 0 {
		return 0
	}
	return x.HTTP.Metadata.Expires.Sub(x.Response.Last.Time)
}

func (r *refresher) fetch(x *capture.Exchange) {
	if r.fetches == 0 {
		r.first, r.path = x.Start(), x.Target
		r.expiries = newTable[capture.Time, uint64](maxExpiries)
	}
	r.fetches++
	r.last = x.Start()
	if x.HTTP.UserAgent != "" {
		r.agent = x.HTTP.UserAgent
	}
	r.most = max(r.most, lifeLeft(x))
	if end := x.HTTP.Metadata.Expires; end != 0 {
		if n := r.expiries.at(end); n != nil {
			*n++
			r.same = max(r.same, *n)
		}
	}
	r.evidence.add(x.Request.First.Packet, x.Response.Last.Packet)
}

func (c *credentialRefresh) Request(r *attribution.Request) {
	for i := range r.Links {
		if x := r.Links[i].Exchange; r.Links[i].Cause == attribution.Metadata && inVain(x) {
			if row := c.clients.rows[client{x.Client().Addr(), x.HTTP.Metadata.Provider}]; row != nil {
				row.charge.add(spent(r, leadsToCredentials, attribution.Metadata))
			}
			return
		}
	}
}

// leadsToCredentials says whether a call is one of those that fetch credentials: for a
// session, the role's name, and the credentials.
func leadsToCredentials(l *attribution.Link) bool {
	return l.Cause == attribution.Metadata && l.Exchange.HTTP.Metadata.Kind != capture.MetadataOther
}

func (c *credentialRefresh) Findings(s Scene) []Finding {
	var found []Finding
	for who, r := range c.clients.rows {
		calls := s.Requests
		if n := c.signed.rows[who.addr]; n != nil {
			calls = max(calls, *n)
		}
		if r.same < sameExpiry && !tooOften(r.fetches, r.first, r.last, calls) {
			continue
		}
		rule, name := recogniseSDK(r.agent, who.provider)
		found = append(found, Finding{
			ID: c.ID(), Severity: r.charge.severity(s), Cost: r.charge.cost(s), Evidence: r.evidence.sorted(),
			Title: r.title(who, rule, name, s), Fix: r.fix(who, rule),
			Reference: r.reference(who, rule),
		})
	}
	return inOrder(found)
}

// tooOften says whether there are more fetches than calls justify, faster than renewing.
func tooOften(fetches uint64, first, last capture.Time, calls uint64) bool {
	return fetches >= fewFetches && calls > 0 && float64(fetches) > fetchesPerCall*float64(calls) &&
		last.Sub(first) < time.Duration(fetches)*renewEvery
}

// title is the sentence that ends the search: how many calls, what they cost, why.
func (r *refresher) title(who client, rule *sdk, name string, s Scene) string {
	why := r.why(rule, name, s)
	if r.charge.requests == 0 {
		return fmt.Sprintf("%s fetched credentials %s from the %s (%s) in %s; none of it lies within a request of this capture.%s",
			who.addr, count(r.fetches, "time", "times"), who.provider, pathOf(who.provider, r.path), span(r.last.Sub(r.first)), why)
	}
	calls, verb := amount(r.charge.calls, r.charge.requests), "calls"
	if calls == "1" {
		verb = "call"
	}
	return fmt.Sprintf("%s %s to the %s (%s) in %s cost %s.%s",
		calls, verb, who.provider, pathOf(who.provider, r.path), inRequests(r.charge.requests, s), span(r.charge.each()), why)
}

// why says how the life of the credentials and the SDK's rule work against each other.
func (r *refresher) why(rule *sdk, name string, s Scene) string {
	if r.most == 0 {
		return ""
	}
	// Sessions shorter than 15 minutes do not exist (STS); with less left at the most the
	// capture did not see a new one, and their life remains unknown.
	life := " The credentials live " + minuteWords(r.longest.Round(time.Minute))
	switch minutes := r.longest.Round(time.Minute); {
	case minutes < shortestSession:
		life = fmt.Sprintf(" The credentials have at most %s left when served", minuteWords(minutes))
	case minutes > r.most.Round(time.Minute):
		life += ", are served until shortly before their end,"
	}
	refreshes := "so each use of them fetches again"
	if s.Requests > 0 && r.charge.requests >= s.Requests {
		refreshes = "so every request refreshes"
	}
	switch {
	case rule != nil:
		return fmt.Sprintf("%s and this SDK (%s) refreshes below %s, %s.", life, plain(name), shortMinutes(rule.window), refreshes)
	case name != "":
		return fmt.Sprintf("%s, which is not enough for this SDK (%s): it got the same credentials %s.", life, plain(name), count(r.same, "time", "times"))
	}
	return fmt.Sprintf("%s, which is not enough for this SDK: it got the same credentials %s.", life, count(r.same, "time", "times"))
}

func (r *refresher) fix(who client, rule *sdk) string {
	fix := "Let the issuer give longer sessions, of at least 30 minutes"
	if from := recogniseIssuer(who.provider, r.longest); from != nil {
		fix = from.fix
	}
	if rule != nil && rule.fix != "" {
		fix += ", or " + rule.fix
	}
	return fix + "; on EKS, use Pod Identity."
}

// reference is the issue in which it was first told, and where the SDK's rule and the
// issuer's life are written down.
func (r *refresher) reference(who client, rule *sdk) string {
	text := "https://github.com/aws/aws-sdk-java/issues/1893"
	if rule != nil {
		text += "; " + rule.source
	}
	if from := recogniseIssuer(who.provider, r.longest); from != nil {
		text += "; " + from.name + ": " + from.source
	}
	return text
}

// pathOf shortens the path to what does not name the role.
func pathOf(p capture.MetadataProvider, path string) string {
	const role = "/latest/meta-data/iam/security-credentials/"
	if p == capture.AWSInstance && strings.HasPrefix(path, role) {
		return role + "…"
	}
	return plain(path)
}

// minuteWords writes a whole number of minutes in words; less than one as it is.
func minuteWords(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	return count(uint64(d/time.Minute), "minute", "minutes")
}

// shortMinutes writes minutes as a number alone, after minuteWords has said the unit.
func shortMinutes(d time.Duration) string {
	if d%time.Minute != 0 {
		return span(d)
	}
	return fmt.Sprint(int(d / time.Minute))
}
